#!/usr/bin/env python3
"""Runs kernels that others have published, or algorithms written for this, on random problems and judges their answers: what is healthy
must PASS, what has a known or a planted bug must not. Prints a line for each that does otherwise and a summary; exit code 1 if there is any.

    run.py [--kernels published|algorithms] [--runs N] [--seed S] [--dims 16,32,64] [--styles normal,... or all] [--mechanisms gla,mdn]
           [--device cuda] [--jobs N] [--seconds S] [--tool ASSAY] [--keep FOLDER] [--log FILE] [--again LOG] [--table]
        with algorithms, those of algorithms.py, which need NumPy alone; with cuda, kernels for GPUs; so many at a time, none begun after so
        many seconds; FOLDER keeps the case and the answer of each such run; FILE gets a line of JSON for every run, compressed if its name
        ends in .gz, and what it has already is not run again; --again runs those of LOG that went wrong, as they were drawn for it; --table
        adds the runs by mechanism and kernel, in Markdown
"""
import argparse
import collections
import functools
import gzip
import importlib
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
# `function` answers the case in one file into another and returns further arguments of `assay check`; `known`: tensors with a known defect,
# whose verdicts do not count, "*" being all
Run = collections.namedtuple("Run", "kernel function bug command known", defaults=((),))


def judged(tool, run, folder):
    """Overall verdict, and the rows of the tensors; None where a kernel does not take the problem."""
    case, out = folder / "case.safetensors", folder / "answer.safetensors"
    subprocess.run([tool, "case", *run.command, "-o", case], check=True, stderr=subprocess.DEVNULL)
    try:
        asked = run.function(case, out)
    except NotImplementedError:
        return None
    command = [tool, "check", case, out, "--format", "json", "--threads", "1", "--no-cache", *asked]
    checked = subprocess.run(command, capture_output=True, text=True)
    if checked.returncode not in (0, 1):
        raise RuntimeError(f"{run.kernel} {' '.join(run.command)}: {checked.stderr.strip()}")
    found = json.loads(checked.stdout)
    counted = [row["verdict"] in ("PASS", "UNSEEN") for row in found["rows"] if not {row["tensor"], "*"} & set(run.known)]
    return "PASS" if found["passed"] or run.known and all(counted) else "not PASS", found["rows"]


def wrongly(run, verdict):
    """Whether that is not the verdict that the run should have had."""
    return (verdict == "PASS") == bool(run.bug)


def told(run, rows):
    """A run that went another way than it should, in a line."""
    bug = f" with {run.bug}" if run.bug else ""
    found = ", ".join(f"{row['tensor']} {row['verdict']}" for row in rows if row["verdict"] not in ("PASS", "UNSEEN")) or "PASS"
    lines = [f"{run.kernel}{bug}: {found}", f"build/assay case {' '.join(run.command)} -o case.safetensors"]
    if "operands=" in run.kernel:
        lines.append(f'build/assay check case.safetensors --kernel "python3 proptests/foreign/algorithms.py {{case}} {{out}} {run.kernel}"')
    return "\n      ".join(lines)


def logged(number, run, verdict, rows):
    """The run as a line of JSON: of every tensor that does not pass, and of the one whose error is largest."""
    columns = ("tensor", "verdict", "model_excess", "contract_excess", "reason")
    excess = lambda row: row.get("model_excess") or 0
    worst = max(rows, key=excess)
    told = [{name: row[name] for name in columns if row.get(name)} for row in rows if row is worst or row["verdict"] != "PASS"]
    run = {"kernel": run.kernel, "bug": run.bug, "case": " ".join(run.command)}
    return {"run": number, **run, "verdict": verdict, "tensors": told}


def lines_of(log):
    """The lines of a log; the last one may be cut off."""
    lines = []
    with (gzip.open if log.suffix == ".gz" else open)(log, "rt") as file:
        try:
            lines += map(json.loads, file)
        except (EOFError, ValueError):
            pass
    return lines


def one(runs, options, end, number):
    """The number of the run, and its verdict and rows, or a sentence on why there are none."""
    if end and time.monotonic() > end:
        return number, "not begun in time"
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = judged(options.tool, runs[number], pathlib.Path(folder))
        except Exception as error:  # of whatever kind: the next kernel may run all the same
            said = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            print(f"{runs[number].kernel} {' '.join(runs[number].command)}: {said}", file=sys.stderr, flush=True)
            return number, "ended with an error"
        if options.keep and result and wrongly(runs[number], result[0]):
            shutil.copytree(folder, options.keep / str(number), dirs_exist_ok=True)
    return number, result or "not taken by the kernel"


def results(runs, numbers, options):
    """Number and outcome of every run, as they come."""
    end = time.monotonic() + options.seconds if options.seconds else None
    work = functools.partial(one, runs, options, end)
    if options.jobs == 1:
        yield from map(work, numbers)
        return
    work_of.call = work  # the functions of runs are closures: they reach the processes by fork, not by pickling
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        yield from pool.imap_unordered(work_of, numbers)


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


DRAWS = ("kernels", "runs", "seed", "dims", "styles", "mechanisms", "device")  # what decides which runs there are


def parsed():
    """The options; with --again those that decide about the runs are the log's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--tool", default=str(ROOT / "build" / "assay"))
    parser.add_argument("--kernels", choices=("published", "algorithms"), default="published")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dims", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--styles", default=["normal"], type=words)
    parser.add_argument("--mechanisms", type=words)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.numbers = None
    if options.again:
        head, *lines = lines_of(options.again)
        vars(options).update(head)
        options.numbers = [line["run"] for line in lines if (line["verdict"] == "PASS") == bool(line["bug"])]
    return options


def to_run(options):
    """The runs, the numbers of those to run, and what writes a line into the log."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is loaded: runs share the cores
    module, source = importlib.import_module(options.kernels), random.Random(options.seed)
    runs = [Run(*module.drawn(source, options)) for _ in range(options.runs)]
    numbers = range(options.runs) if options.numbers is None else options.numbers
    if not options.log:
        return runs, numbers, lambda line: None
    before = lines_of(options.log)[1:] if options.log.exists() else []
    file = (gzip.open if options.log.suffix == ".gz" else open)(options.log, "wt")
    write = lambda line: print(json.dumps(line), file=file, flush=True)
    for line in ({name: getattr(options, name) for name in DRAWS}, *before):
        write(line)
    done = {line["run"] for line in before}
    return runs, [number for number in numbers if number not in done], write


def main():
    options = parsed()
    counts, seen, wrong = collections.Counter(), collections.Counter(), 0
    runs, numbers, write = to_run(options)
    for number, result in results(runs, numbers, options):
        run = runs[number]
        if isinstance(result, str):
            counts[result] += 1
            wrong += result == "ended with an error"
            continue
        verdict, rows = result
        counts[("buggy, " if run.bug else "healthy, ") + verdict] += 1
        seen[run.command[0], run.kernel, bool(run.bug), verdict] += 1
        write(logged(number, run, verdict, rows))
        if wrongly(run, verdict):
            wrong += 1
            print(told(run, rows), flush=True)
    if options.table:
        print(table(seen))
    print(f"{len(numbers)} runs: " + "; ".join(f"{name}: {count}" for name, count in sorted(counts.items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
