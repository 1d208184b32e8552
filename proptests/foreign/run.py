#!/usr/bin/env python3
"""Runs kernels that others have published on random problems and judges their answers: what is healthy must PASS, what has a
known or a planted bug must not. Prints a line for each that does otherwise and a summary; exit code 1 if there is any.

    run.py [--runs N] [--seed S] [--dims 16,32,64] [--tool ASSAY] [--keep FOLDER] [--table]
        FOLDER keeps the case and the answer of each such run; --table adds the runs by mechanism and kernel, in Markdown
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import in_numpy
import torch
from cases import Case, write
from formulas import MECHANISMS, bugs_of, textbook
from kernels import DEFECTS, PUBLISHED

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS = (1, 2, 17, 63, 64, 65, 127, 128, 129, 200, 300)
OF_SCORES = ("scale_squared", "softmax_base2")
Run = collections.namedtuple("Run", "kernel function bug command")


def drawn(random, dims):
    """One run: a kernel, whether it has a bug, and the arguments of `assay case`."""
    mechanism, tokens = random.choice(MECHANISMS), random.choice(TOKENS)
    shape = f"{random.choice((1, 1, 2))},{tokens},{random.choice(('2', '4/2'))},{random.choice(dims)}"
    command = [mechanism, "--shape", shape, "--precision", random.choice(("bf16", "fp16", "fp32"))]
    command += ["--seed", str(random.randrange(1 << 31))]
    if mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", "causal=false"]
    elif mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", f"window={random.choice((1, 2, 16, 63, 64))}"]
    healthy = [(name, function, None) for name, function in PUBLISHED.get(mechanism, [])]
    healthy += [("textbook", textbook, None), ("textbook in NumPy", in_numpy.textbook, None)]
    buggy = [(name, function, "published") for name, function in DEFECTS.get(mechanism, [])]
    alone = "window=1" in command  # a query that sees one key answers its value, whatever the score
    for bug, least in bugs_of(mechanism).items():
        if tokens >= least and not (bug.startswith("mask") and len(command) > 7) and not (alone and bug in OF_SCORES):
            buggy.append(("textbook", lambda case, bug=bug: textbook(case, bug), bug))
    kernel, function, bug = random.choice(buggy if buggy and random.random() < 0.3 else healthy)
    return Run(kernel, function, bug, command)


def judged(tool, run, folder):
    """Overall verdict, and the tensors that do not pass; None where a kernel does not take the problem."""
    case, out = folder / "case.safetensors", folder / "answer.safetensors"
    subprocess.run([tool, "case", *run.command, "-o", case], check=True)
    try:
        answer = run.function(Case(str(case)))
    except NotImplementedError:
        return None
    except RuntimeError as error:
        if "No available kernel" in str(error):
            return None
        raise
    write(str(out), answer, kernel=run.kernel, torch=torch.__version__, device="cpu")
    command = [tool, "check", case, out, "--format", "json", "--threads", "1", "--tensor", ",".join(answer)]
    checked = subprocess.run(command, capture_output=True, text=True)
    if checked.returncode not in (0, 1):
        sys.exit(f"{run.kernel} {' '.join(run.command)}: {checked.stderr.strip()}")
    bad = {row["tensor"]: row["verdict"] for row in json.loads(checked.stdout)["rows"] if row["verdict"] != "PASS"}
    return "PASS" if not bad else "not PASS", bad


def told(run, bad):
    """What went another way than it should, in a line."""
    bug = f" with {run.bug}" if run.bug else ""
    found = ", ".join(f"{tensor} {verdict}" for tensor, verdict in bad.items()) or "PASS"
    return f"{run.kernel}{bug}: {found}\n      build/assay case {' '.join(run.command)} -o case.safetensors"


def table(seen):
    """Of each mechanism and kernel how many runs there were, and how many of them passed."""
    lines = ["| mechanism | kernel | healthy | PASS | with a bug | PASS |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for mechanism, kernel in sorted({key[:2] for key in seen}):
        counts = [seen[mechanism, kernel, bug, verdict] for bug in (False, True) for verdict in ("PASS", "not PASS")]
        cells = [mechanism, kernel, sum(counts[:2]), counts[0], sum(counts[2:]), counts[2]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build" / "assay"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dims", default="16,32,64", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    source, counts, seen, wrong = random.Random(options.seed), collections.Counter(), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.runs):
            run = drawn(source, options.dims)
            result = judged(options.tool, run, pathlib.Path(folder))
            if result is None:
                counts["not taken by the kernel"] += 1
                continue
            verdict, bad = result
            counts[("buggy, " if run.bug else "healthy, ") + verdict] += 1
            seen[run.command[0], run.kernel, bool(run.bug), verdict] += 1
            if (verdict == "PASS") == bool(run.bug):
                wrong += 1
                print(told(run, bad), flush=True)
                if options.keep:
                    shutil.copytree(folder, options.keep / str(number), dirs_exist_ok=True)
    if options.table:
        print(table(seen))
    print(f"{options.runs} runs: " + "; ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
