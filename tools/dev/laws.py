#!/usr/bin/env python3
"""Runs every law for its share of some time, and says how many cases each had: part of `make nightly`.

    laws.py --build BUILD [--seconds 3600] [--seed SEED] [--jobs 2]      exit code 1 if one fails

A law is a property of RapidCheck, one of proptests/laws/every_form.cpp on one form, or a test that tries a share of its cases
(proptests/core/share.hpp). The seed is the time of day without --seed, and printed: the command of a failure repeats it.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from faults_of_the_judge import named

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROPERTY = re.compile(r"ASSAY_PROPERTY\((\w+), (\w+)\)")
SHARED = re.compile(r"^TEST(?:_[FP])?\((\w+), (\w+)\) \{(?:(?!^\}).)*?\bShare \w+\(", re.MULTILINE | re.DOTALL)


def laws_of(program, properties):
    """Names of the program's laws."""

    def is_law(test):
        suite, _, name = test.partition(".")
        own = {test, f"{suite}.law", f"{suite.split('/')[-1]}.{name.split('/')[0]}"}  # the second a macro's, the third of one parameter
        return suite == "Every/Forms" or name == "is_separate" or properties & own

    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    return list(filter(is_law, named(listed)))


def run(program, law, seconds, seed):
    """Its cases, and what it printed where it failed."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        own = {"ASSAY_SECONDS": str(seconds), "ASSAY_SEED": seed, "XDG_CACHE_HOME": "/dev/null"}
        command = [program, f"--gtest_filter={law}", f"--gtest_output=xml:{report.name}"]
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
        if done.returncode != 0:
            return 0, done.stdout + done.stderr
        cases = [x.get("value") for x in ElementTree.parse(report.name).iter("property") if x.get("name") == "cases"]
        return int(cases[0]) if cases else None, ""  # a test beside them


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", default=time.strftime("%Y%m%d%H%M%S"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    sources = [path.read_text() for path in (ROOT / "proptests").rglob("*.cpp")]
    properties = {".".join(found) for text in sources for kind in (PROPERTY, SHARED) for found in kind.findall(text)}
    programs = sorted(p for p in (options.build / "proptests").glob("test_*") if p.is_file() and os.access(p, os.X_OK))
    laws = [(program, law) for program in programs for law in laws_of(program, properties)]
    seconds = options.seconds * options.jobs / len(laws)
    print(f"{len(laws)} laws, {seconds:.2g} s each, ASSAY_SEED={options.seed}", flush=True)
    counts, failures = {}, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (_, law), (cases, said) in zip(laws, pool.map(lambda x: run(*x, seconds, options.seed), laws)):
            counts[law] = cases
            if said:
                failures.append(law)
                print(f"FAIL {law}\n{said}", flush=True)
    counts = {law: cases for law, cases in counts.items() if cases is not None}
    for law, cases in sorted(counts.items(), key=lambda x: x[1]):
        print(f"{cases:9d}  {law}")
    print(f"{sum(counts.values())} cases of {len(counts)} laws, {len(failures)} failed", *failures)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
