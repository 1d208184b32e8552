#!/usr/bin/env python3
"""Measures how far right kernels of programs are from what evidence `model` expects: for some programs of mechanisms/json
`assay-lab calibrate --model`, with its chunk form where mechanisms/forms has one.

    model_table.py --tool ASSAY_LAB [PROGRAM...]     prints rows of the table; of the page's programs if none is named
    model_table.py --tool ASSAY_LAB --write          writes records/model-programs.md
    model_table.py --tool ASSAY_LAB --check          measures a few rows again and compares them with the page
"""
import csv
import pathlib
import subprocess
import sys

import program_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, PROGRAMS, FORMS = ROOT / "records/model-programs.md", ROOT / "mechanisms/json", ROOT / "mechanisms/forms/json"
PRECISIONS = "fp32,bf16,fp16"
# Some of each kind: delta rules, those with chunk forms among them, decays, attention, states that no product makes.
LISTED = ("affine_linear_attention", "delta_product", "deltanet", "forgetting_attention", "gated_deltanet", "gdn2", "gla", "gsa", "hgrn2", "kda", "longhorn",
          "mamba2", "mdn", "native_sparse_attention", "rwkv7", "sink_attention", "softmax_attention", "titans")  # fmt: skip
CHECKED = ("gla", "kda", "rwkv7")  # quick ones, one with a chunk form
HEAD = """<!-- written by tools/dev/model_table.py --write -->
# Calibration of the model on programs

How far right algorithms of programs are from what evidence `model` expects, as [model.md](model.md) has it for the rooms. A program has no kernel of ours. Right are the
algorithms that follow from it: token by token in fp32, and the same with the operands of every product rounded, as tensor cores do. So are the chunk algorithms of
[mechanisms/forms](../mechanisms/forms), their marks in the precision and as wide as sums. Outputs and gradients leave in the precision. Three styles, 70 tokens, 2 heads,
16 dimensions; eighteen programs, some of each kind. Up to 2 (3 in fp32) is PASS, beyond 5 FAIL, between them UNDECIDED. Of your own program:
`assay-lab calibrate --model --mechanism gdn2.json --form gdn2_chunks.json`.

"""
COLUMNS = "| program | precision | tensors | median | 99% | largest | PASS | UNDECIDED | FAIL | VACUOUS |\n| --- | --- |" + " ---: |" * 8 + "\n"


def rows(tool, name):
    """The program's rows, or why there are none."""
    form = FORMS / f"{name}_chunks.json"
    command = [tool, "calibrate", "--model", "--mechanism", PROGRAMS / f"{name}.json", "--precision", PRECISIONS, "--format", "csv"]
    ran = subprocess.run([*map(str, command), *(("--form", str(form)) if form.exists() else ())], text=True, capture_output=True)
    found = list(csv.reader(ran.stdout.splitlines()))[1:]
    if not found:
        return [f"| {name} | {ran.stderr.strip()} |" + " |" * 8]
    return ["| " + " | ".join([name, *cells[1:]]) + " |" for cells in found]


def summary(lines):
    numbers = [[int(x) for x in (c[2], c[6], c[7], c[8])] for c in ([x.strip() for x in line.split("|")[1:-1]] for line in lines) if c[2]]
    tensors, passed, undecided, failed = map(sum, zip(*numbers))
    return f"{tensors} tensors: {passed} PASS, {undecided} UNDECIDED, {failed} FAIL.\n\n"


if __name__ == "__main__":
    sys.exit(program_table.main(__doc__, PAGE, LISTED, CHECKED, rows, lambda lines: HEAD + summary(lines) + COLUMNS + "\n".join(lines) + "\n"))
