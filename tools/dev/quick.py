#!/usr/bin/env python3
"""Runs what a developer runs between edits: what failed last, then the cheapest tests, as many as fit into the time.

What a test costs is what ctest wrote down when it last ran here, so run all once (`make test`). A test without a cost is
new, and runs.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def last_runs(build):
    """The runs that ctest keeps: seconds by name of every test that has run, and the names of those that failed last."""
    path = build / "Testing" / "Temporary" / "CTestCostData.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    end = lines.index("---") if "---" in lines else len(lines)
    told = (line.rsplit(" ", 2) for line in lines[:end])
    seconds = {name: float(cost) for name, runs, cost in told if int(runs) > 0}
    if not seconds:
        sys.exit(f"quick: {path} says of no test what it costs: run all once (make test)")
    return seconds, set(lines[end + 1:])


def chosen(names, seconds, failed, budget):
    """Those of `names` that run, as numbers from 1: what failed or is new, then the cheapest while the budget lasts.

    >>> chosen(["dear", "cheap", "broken", "new", "fair"], {"dear": 9, "cheap": 1, "broken": 3, "fair": 2}, {"broken"}, 6)
    [2, 3, 4, 5]
    >>> chosen(["dear", "cheap"], {"dear": 9, "cheap": 1}, set(), 0.5)
    []
    """
    first = [i for i, name in enumerate(names) if name in failed or name not in seconds]
    rest = sorted((seconds[name], i) for i, name in enumerate(names) if name in seconds and name not in failed)
    left = budget - sum(seconds.get(names[i], 0) for i in first)
    for cost, i in rest:
        left -= cost
        if left < 0:
            break
        first.append(i)
    return sorted(i + 1 for i in first)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seconds", type=float, default=45, help="on all cores together (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    shown = subprocess.run(["ctest", "--test-dir", options.build, "--show-only=json-v1"], capture_output=True, text=True)
    if shown.returncode != 0:
        sys.exit(shown.stderr.strip())
    names = [test["name"] for test in json.loads(shown.stdout)["tests"]]
    numbers = chosen(names, *last_runs(options.build), options.seconds * options.jobs)
    if not numbers:
        sys.exit(f"quick: none of {len(names)} tests costs less than {options.seconds:g} seconds")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("0,0,0," + ",".join(map(str, numbers)))
        listed.flush()
        ran = subprocess.run(["ctest", "--test-dir", options.build, "--parallel", str(options.jobs), "--progress",
                              "--output-on-failure", "-I", listed.name])
    print(f"quick: {len(numbers)} of {len(names)} tests; `make test` runs all", file=sys.stderr)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
