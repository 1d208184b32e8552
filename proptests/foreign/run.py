#!/usr/bin/env python3
"""Runs kernels that others have published on random problems and judges their answers: what is healthy must PASS, what has a
known or a planted bug must not. Prints a line for each that does otherwise and a summary; exit code 1 if there is any.

    run.py [--runs N] [--seed S] [--dims 16,32,64] [--styles normal] [--mechanisms gla,mdn] [--device cuda] [--jobs N]
           [--seconds S] [--tool ASSAY] [--keep FOLDER] [--log FILE] [--table]
        with cuda, kernels for GPUs; so many at a time, none begun after so many seconds; FOLDER keeps the case and the answer of
        each such run; FILE gets a line of JSON for every run; --table adds the runs by mechanism and kernel, in Markdown
"""
import argparse
import collections
import functools
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import in_numpy
import on_device
import torch
from cases import Case, write
from formulas import MECHANISMS, bugs_of, textbook
from kernels import DEFECTS, PUBLISHED

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENS = (1, 2, 17, 63, 64, 65, 127, 128, 129, 200, 300)
OF_SCORES = ("scale_squared", "softmax_base2")
# How kernels say that they do not take a problem: torch, fla (the last: gradients that its issue 640 is about), flex_attention.
REFUSALS = ("No available kernel", "does not support float32", "requires bf16 or fp16", "produces incorrect results", "NoValidChoicesError")
# `known`: tensors with a known defect, whose verdicts do not count; `judged_as`: in place of the case's precision
Run = collections.namedtuple("Run", "kernel function bug command known judged_as", defaults=((), None))


def drawn(random, dims, styles=("normal",), mechanisms=MECHANISMS, device="cpu"):
    """One run: a kernel, whether it has a bug, and the arguments of `assay case`."""
    style = [] if styles == ("normal",) else ["--style", random.choice(styles)]  # seeds of before draw what they drew
    if device == "cuda":
        name, function, command, known, judged_as = on_device.run_of(random, TOKENS, dims)
        return Run(name, function, None, command + style, known, judged_as)
    mechanism, tokens = random.choice(mechanisms), random.choice(TOKENS)
    if mechanism == "mesanet":  # a system of equations for every token
        shape = f"1,{min(tokens, 65)},2,{min(dims)}"
    else:
        shape = f"{random.choice((1, 1, 2))},{tokens},{random.choice(('2', '4/2'))},{random.choice(dims)}"
    command = [mechanism, "--shape", shape, "--precision", random.choice(("bf16", "fp16", "fp32"))]
    command += ["--seed", str(random.randrange(1 << 31))]
    if mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", "causal=false"]
    elif mechanism == "softmax_attention" and random.random() < 0.3:
        command += ["--param", f"window={random.choice((1, 2, 16, 63, 64))}"]
    masked = len(command) > 7
    command += style
    healthy = [(name, function, None) for name, function in PUBLISHED.get(mechanism, [])]
    if mechanism in MECHANISMS:
        healthy += [("textbook", textbook, None), ("textbook in NumPy", in_numpy.textbook, None)]
    buggy = [(name, function, "published") for name, function in DEFECTS.get(mechanism, [])]
    alone = "window=1" in command  # a query that sees one key answers its value, whatever the score
    for bug, least in bugs_of(mechanism).items() if mechanism in MECHANISMS else ():
        if tokens >= least and not (bug.startswith("mask") and masked) and not (alone and bug in OF_SCORES):
            buggy.append(("textbook", lambda case, bug=bug: textbook(case, bug), bug))
    kernel, function, bug = random.choice(buggy if buggy and random.random() < 0.3 else healthy)
    return Run(kernel, function, bug, command)


def judged(tool, run, folder, device):
    """Overall verdict, and the rows of the tensors; None where a kernel does not take the problem."""
    case, out = folder / "case.safetensors", folder / "answer.safetensors"
    subprocess.run([tool, "case", *run.command, "-o", case], check=True)
    try:
        answer = run.function(Case(str(case), device))
    except Exception as error:  # each package refuses in its own way
        if isinstance(error, NotImplementedError) or any(words in str(error) for words in REFUSALS):
            return None
        raise
    write(str(out), answer, kernel=run.kernel, torch=torch.__version__, device=device)
    command = [tool, "check", case, out, "--format", "json", "--threads", "1", "--no-cache", "--tensor", ",".join(answer)]
    command += ["--precision", run.judged_as] if run.judged_as else []
    checked = subprocess.run(command, capture_output=True, text=True)
    if checked.returncode not in (0, 1):
        raise RuntimeError(f"{run.kernel} {' '.join(run.command)}: {checked.stderr.strip()}")
    rows = json.loads(checked.stdout)["rows"]
    counted = [row for row in rows if row["tensor"] not in run.known and on_device.ALL not in run.known]
    return "PASS" if all(row["verdict"] == "PASS" for row in counted) else "not PASS", rows


def wrongly(run, verdict):
    """Whether that is not the verdict that the run should have had."""
    return (verdict == "PASS") == bool(run.bug)


def told(run, rows):
    """A run that went another way than it should, in a line."""
    bug = f" with {run.bug}" if run.bug else ""
    found = ", ".join(f"{row['tensor']} {row['verdict']}" for row in rows if row["verdict"] != "PASS") or "PASS"
    return f"{run.kernel}{bug}: {found}\n      build/assay case {' '.join(run.command)} -o case.safetensors"


def logged(number, run, verdict, rows):
    """The run as a line of JSON."""
    columns = ("tensor", "verdict", "model_excess", "contract_excess", "reason")
    told = [{name: row[name] for name in columns if row.get(name) is not None} for row in rows]
    run = {"kernel": run.kernel, "bug": run.bug, "case": " ".join(run.command)}
    return json.dumps({"run": number, **run, "verdict": verdict, "tensors": told})


def one(runs, options, end, number):
    """The number of the run, and its verdict and rows, or a sentence on why there are none."""
    if end and time.monotonic() > end:
        return number, "not begun in time"
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = judged(options.tool, runs[number], pathlib.Path(folder), options.device)
        except Exception as error:  # of whatever kind: the next kernel may run all the same
            said = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{runs[number].kernel} {' '.join(runs[number].command)}: {said}", file=sys.stderr, flush=True)
            return number, "ended with an error"
        if options.keep and result and wrongly(runs[number], result[0]):
            shutil.copytree(folder, options.keep / str(number), dirs_exist_ok=True)
    return number, result or "not taken by the kernel"


def results(runs, options):
    """Number and outcome of every run, as they come."""
    end = time.monotonic() + options.seconds if options.seconds else None
    work = functools.partial(one, runs, options, end)
    if options.jobs == 1:
        yield from map(work, range(len(runs)))
        return
    work_of.call = work  # the functions of runs are closures: they reach the processes by fork, not by pickling
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        yield from pool.imap_unordered(work_of, range(len(runs)))


def work_of(number):
    """The work of a process of the pool."""
    return work_of.call(number)


def table(seen):
    """The table of runs: for each mechanism and kernel how many there were, and how many of them passed."""
    lines = ["| mechanism | kernel | healthy | PASS | with a bug | PASS |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for mechanism, kernel in [*sorted({key[:2] for key in seen}), ("all", "")]:
        ours = {key[2:]: 0 for key in seen}
        for key, count in seen.items():
            ours[key[2:]] += count if mechanism == "all" or key[:2] == (mechanism, kernel) else 0
        counts = [ours.get((bug, verdict), 0) for bug in (False, True) for verdict in ("PASS", "not PASS")]
        cells = [mechanism, kernel, sum(counts[:2]), counts[0], sum(counts[2:]), counts[2]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build" / "assay"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dims", default="16,32,64", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--styles", default=("normal",), type=lambda text: tuple(text.split(",")))
    parser.add_argument("--mechanisms", default=MECHANISMS, type=lambda text: tuple(text.split(",")))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--log", type=argparse.FileType("w"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.device == "cuda":
        on_device.tune_no_more()
    source, counts, seen, wrong = random.Random(options.seed), collections.Counter(), collections.Counter(), 0
    runs = [drawn(source, options.dims, options.styles, options.mechanisms, options.device) for _ in range(options.runs)]
    for number, result in results(runs, options):
        run = runs[number]
        if isinstance(result, str):
            counts[result] += 1
            wrong += result == "ended with an error"
            continue
        verdict, rows = result
        counts[("buggy, " if run.bug else "healthy, ") + verdict] += 1
        seen[run.command[0], run.kernel, bool(run.bug), verdict] += 1
        if options.log:
            print(logged(number, run, verdict, rows), file=options.log, flush=True)
        if wrongly(run, verdict):
            wrong += 1
            print(told(run, rows), flush=True)
    if options.table:
        print(table(seen))
    print(f"{options.runs} runs: " + "; ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
