#!/usr/bin/env python3
"""Measures what evidence `model` of programs finds: for every program of mechanisms/json one case in bf16, the exact answer
in place of a kernel's, and `assay check --mutants`, which tries every error in the formula and in its gradient.

    power_table.py --tool ASSAY [PROGRAM...]     prints rows of the table; of all default programs if none is named
    power_table.py --tool ASSAY --write          writes records/power.md
    power_table.py --tool ASSAY --check          measures a few rows again and compares them with the page
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import program_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, PROGRAMS = ROOT / "records/power.md", ROOT / "mechanisms/json"
SHAPE = "1,64,2,16,16"
CHECKED = ("gla", "kda", "sink_attention")  # quick ones
HEAD = f"""<!-- written by tools/dev/power_table.py --write -->
# What evidence `model` of programs finds

A program has no tile program, so that the judge has only the model to go by ([model.md](model.md)). This table says what that is worth. The errors are all of the formula that
follow from a program's shape (a term or factor dropped, a sign, a mask's equality, a token late, a state read before its update, an operand exchanged), and all such errors
in its gradient. They are planted one at a time, on one case: B,T,H,K,V = {SHAPE}, bf16, style normal, seed 0. **Finds** counts those that `assay check --mutants` fails;
**passes** those that change numbers and pass; **nothing** those that change no number of this case.

| program | errors | finds | passes | nothing |
| --- | ---: | ---: | ---: | ---: |
"""


def run(tool, *arguments):
    return subprocess.run([tool, *map(str, arguments)], text=True, capture_output=True)


def refusal(ran, folder):
    return ran.stderr.strip().removeprefix("assay: ").replace(f"{folder}/", "")


def rows(tool, name):
    """The program's row, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        case, out = pathlib.Path(folder, "case.safetensors"), pathlib.Path(folder, "out.safetensors")
        for arguments in (("case", PROGRAMS / f"{name}.json", "--shape", SHAPE, "-o", case), ("oracle", case, "-o", out)):
            ran = run(tool, *arguments)
            if ran.returncode:
                return [f"| {name} | | | | {refusal(ran, folder)} |"]
        ran = run(tool, "check", case, out, "--mutants", "--format", "json", "--no-cache")
        if ran.returncode not in (0, 1):
            return [f"| {name} | | | | {refusal(ran, folder)} |"]
        f = json.loads(ran.stdout)["formula"]
    nothing = f["no_change"] if isinstance(f["no_change"], int) else len(f["no_change"])
    return [f"| {name} | {f['mutants'] + nothing} | {f['revealed']} | {len(f['passes'])} | {nothing} |"]


def names():
    return sorted(f.stem for f in PROGRAMS.glob("*.json") if "-" not in f.stem)


def summary(rows):
    numbers = [[int(x) for x in r.split("|")[2:6]] for r in rows if r.split("|")[2].strip()]
    errors, found, passed, nothing = map(sum, zip(*numbers))
    return (
        f"\nOf {errors} errors in {len(numbers)} programs {errors - nothing} change a number of their case; of these {found} are found, "
        f"{100 * found / (errors - nothing):.1f} %.\n"
    )


if __name__ == "__main__":
    sys.exit(program_table.main(__doc__, PAGE, names(), CHECKED, rows, lambda lines: HEAD + "\n".join(lines) + "\n" + summary(lines)))
