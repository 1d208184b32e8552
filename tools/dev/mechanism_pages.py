#!/usr/bin/env python3
"""usage: mechanism_pages.py [--tool build/assay] [--out FOLDER] [mechanisms | mechanisms/stages]

Writes FOLDER/pages: of every mechanism what its docstring says, and what `assay mechanism check` prints of its program."""
import argparse
import inspect
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "mechanisms"
sys.path[:0] = [str(ROOT / "python")]

from assay.language.command import mechanisms  # noqa: E402


def page(m, file, folder, tool):
    first, *more = inspect.cleandoc(m.__doc__ or "").split("\n\n", 1)
    command = [tool, "mechanism", "check", str(folder / "json" / f"{m.name}.json")]
    program, _, facts = subprocess.run(command, check=True, capture_output=True, text=True).stdout.partition("\n\ndigest    ")
    text = [f"<!-- written by tools/dev/mechanism_pages.py, from {file} -->", f"# {m.name}", "", first, ""]
    text += [" ".join(x.split("\n")) + "\n" for x in more]
    text += ["```text", *(line.rstrip() for line in program.splitlines()), "```", ""]
    if m.choices:
        listed = (f"`{k}` = {', '.join(str(v) or 'one' for v in values)}" for k, values in m.choices.items())
        text += [f"Settings: {'; '.join(listed)}.", ""]
    laws = [line[10:] for line in facts.splitlines()[2:]]  # after the digest's and the size's
    return "\n".join([*text, "Laws, as measured on a small case:", "", *(f"- {law}" for law in laws)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build/assay"))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=LIBRARY)
    options = parser.parse_args()
    out = options.out or options.folder / "pages"
    out.mkdir(exist_ok=True)
    wanted = {f"{m.name}.md": page(m, file, options.folder, options.tool) for m, file in mechanisms(options.folder)}
    for file in out.iterdir():
        if file.name not in wanted:
            file.unlink()
    for name, text in wanted.items():
        (out / name).write_text(text, encoding="utf-8", newline="\n")
    print(f"{len(wanted)} pages in {out}")


if __name__ == "__main__":
    main()
