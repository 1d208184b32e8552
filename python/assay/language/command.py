"""The command line: python -m assay.language check FILE | export FILE | export-all FOLDER."""
import argparse
import inspect
import os
import sys

from .canonical import digest, write
from .errors import MechanismError
from .gradient import gradient
from .laws import laws
from .load import load
from .read import read
from .show import show


def setting(text):
    """NAME=VALUE as a pair: integers and truth values are themselves, "none" is None, anything else is a text."""
    name, equal, value = text.partition("=")
    if not equal:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text}")
    written = {"true": True, "false": False, "none": None}
    return name, int(value) if value.lstrip("-").isdecimal() and value.isascii() else written.get(value, value)


def programs(options):
    """The programs that the options ask for: of a file of Python, traced, or one of JSON, read."""
    if options.file.endswith(".json"):
        if options.set or options.mechanism:
            raise MechanismError(f"{options.file}: a program has its settings already; --set and --mechanism are for files of Python")
        try:
            with open(options.file, "rb") as f:
                return [read(f.read())]
        except OSError as error:
            raise MechanismError(f"{options.file}: {error.strerror}") from None
        except MechanismError as error:
            raise MechanismError(f"{options.file}: {error}") from None
    found = load(options.file)
    if options.mechanism and options.mechanism not in found:
        raise MechanismError(f"{options.file}: there is no mechanism {options.mechanism}; there is {', '.join(found)}")
    return [m.trace(**dict(options.set)) for m in found.values() if options.mechanism in (None, m.name)]


def check(options):
    """Prints every program of a file, its digest, the size of its gradient, and its laws."""
    for p in programs(options):
        has_gradients = any(i.domain == "cotangent" for i in p.inputs)
        back = p if has_gradients else gradient(p)
        print(show(p), end="\n\n")
        if options.gradient and not has_gradients:
            print(show(back), end="\n\n")
        print(f"digest    {digest(p)}")
        print(f"size      {counted(p.size(), 'node')}; with gradients {counted(back.size(), 'node')}")
        for i, law in enumerate(laws(p)):
            print(f"{'laws' if i == 0 else '':10}{law}")


def counted(n, what):
    return f"{n} {what}{'' if n == 1 else 's'}"


def export(options):
    """Writes the canonical JSON of one program, to a file or to the output."""
    found = programs(options)
    if len(found) != 1:
        raise MechanismError(f"{options.file}: has {len(found)} mechanisms; say which with --mechanism")
    text = write(gradient(found[0]) if options.gradient else found[0]) + "\n"
    if options.output:
        write_file(options.output, text)
    else:
        sys.stdout.write(text)


def write_file(path, text):
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
    except OSError as error:
        raise MechanismError(f"{path}: {error.strerror}") from None


SHARED = {"common.py", "chunks.py"}  # what files of mechanisms, and of forms, import


def library(folder):
    """File name and text of every program of a folder's mechanisms: NAME.json, and NAME-SETTING-VALUE.json for other choices."""
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".py") or file in SHARED:
            continue
        for m in load(os.path.join(folder, file)).values():
            for settings in m.variants():
                suffix = "".join(f"-{k}-{str(v).replace(' ', '') or 'one'}" for k, v in settings.items())
                yield f"{m.name}{suffix}.json", write(m.trace(**settings)) + "\n"


def pages(folder):
    """File name and text of the page of every mechanism: what its docstring says, and its program in readable form."""
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".py") or file in SHARED:
            continue
        for m in load(os.path.join(folder, file)).values():
            first, *more = inspect.cleandoc(m.__doc__ or "").split("\n\n", 1)
            text = [f"<!-- written by python -m assay.language export-all mechanisms, from {file} -->", f"# {m.name}", "", first, ""]
            text += [" ".join(x.split("\n")) + "\n" for x in more]
            p = m.trace()
            text += ["```text", show(p), "```", ""]
            if m.choices:
                listed = (f"`{k}` = {', '.join(str(v) or 'one' for v in values)}" for k, values in m.choices.items())
                text += [f"Settings: {'; '.join(listed)}.", ""]
            text += ["What its shape proves:", "", *(f"- {law}" for law in laws(p))] if laws(p) else []
            yield f"{m.name}.md", "\n".join(text).rstrip() + "\n"


def export_all(options):
    """Writes FOLDER/json and FOLDER/pages, a file for each program and mechanism, and FOLDER/forms/json, if there are
    forms, and removes what is there and belongs to none."""
    forms = os.path.join(options.file, "forms")
    parts = [(options.file, "json", library, "programs"), (options.file, "pages", pages, "pages")]
    for folder, name, made, what in parts + ([(forms, "json", library, "programs")] if os.path.isdir(forms) else []):
        target = os.path.join(folder, name)
        os.makedirs(target, exist_ok=True)
        wanted = dict(made(folder))
        for file in os.listdir(target):
            if file not in wanted:
                os.remove(os.path.join(target, file))
        for file, text in wanted.items():
            write_file(os.path.join(target, file), text)
        print(f"{len(wanted)} {what} in {target}")


def parser():
    p = argparse.ArgumentParser(prog="python -m assay.language", description="Mechanisms in Python: check them, write them as programs.")
    verbs = p.add_subparsers(dest="verb", required=True)
    for name, run, what in (
        ("check", check, "validate a mechanism; print it, its digest, the size of its gradient, and the laws that its shape proves"),
        ("export", export, "write a mechanism's canonical JSON"),
    ):
        v = verbs.add_parser(name, help=what, description=what)
        v.add_argument("file", help="FILE.py with mechanisms, or a program's FILE.json")
        v.add_argument("--mechanism", help="the one to take, where a file has several")
        v.add_argument("--set", metavar="NAME=VALUE", type=setting, action="append", default=[], help="a setting")
        v.add_argument("--gradient", action="store_true", help="the program of the gradients" + (", too" if name == "check" else ""))
        v.set_defaults(run=run)
        if name == "export":
            v.add_argument("-o", "--output", help="the file to write")
    v = verbs.add_parser("export-all", help="write the programs and pages of all mechanisms of a folder")
    v.add_argument("file", metavar="folder")
    v.set_defaults(run=export_all)
    return p


def main(arguments=None):
    """The exit code: 2 where something is refused, in one sentence."""
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except MechanismError as error:
        print(f"assay: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
    return 0
