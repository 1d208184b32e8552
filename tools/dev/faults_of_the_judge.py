#!/usr/bin/env python3
"""Plants the faults of proptests/judge/planted_faults.json, one after the other, and says which of them the tests notice.

    faults_of_the_judge.py build [--build build-faults]       the tree once more, with all faults in it, asleep
    faults_of_the_judge.py reach                              which tests come to which fault, and how long they take
    faults_of_the_judge.py run [NAME ...] [-o records/planted-faults.md]
                                                              exit code 1 if fewer than 95% are noticed

A fault is a piece of a source file and what stands there instead. All are compiled into one build, each behind a question
for the environment variable ASSAY_PLANTED_FAULT; a test runs with one of them awake. Of the tests that come to it the
shortest run first, until one fails. What noticed a fault is kept in BUILD/killed.json and tried first the next time. Each page
of proptests/transcripts is a test; those of the Python package, of the other pages' commands and of program.sh do not run.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import second_tree

ROOT = second_tree.ROOT
FAULTS = ROOT / "proptests" / "judge" / "planted_faults.json"
PROGRAMS = ["hostile", "fixtures", "judge", "arguments", "words", "language", "core", "tools", "oracles", "rooms", "kernels"]
TRANSCRIPTS = "transcripts"
PARTS = [*PROGRAMS, TRANSCRIPTS]
BATCHES = [5, 60, float("inf")]  # seconds of tests that run one after the other before it is looked whether one failed
LONGEST = 900  # seconds of a batch: what hangs is noticed
ASKS = """#pragma once
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
inline bool assay_planted_fault(const char* name) {
  static const char *const awake = std::getenv("ASSAY_PLANTED_FAULT"), *const reached = std::getenv("ASSAY_FAULTS_REACHED");
  if (reached != nullptr) {
    static std::mutex guard;
    static std::set<std::string> met;
    const std::lock_guard lock(guard);
    if (met.insert(name).second)
      if (std::FILE* file = std::fopen(reached, "a")) std::fprintf(file, "%s\\n", name), std::fclose(file);
  }
  return awake != nullptr && std::string(awake) == name;
}
"""


def is_statements(piece):
    return piece.rstrip().endswith((";", "}"))


def obstacle(text, fault):
    """Why the fault cannot be planted in `text`, or "".

    >>> obstacle("x; x;", {"name": "n", "file": "f", "from": "x;"})
    'n: its piece stands 2 times in f, not once; write the new text.'
    >>> [bool(obstacle(p, {"name": "n", "file": "f", "from": p})) for p in ("return x", "a = 1", "a &&", "a ? b", "a ? b : c", "return x;", "a == b")]
    [True, True, True, True, False, False, False]
    """
    piece, count = fault["from"], text.count(fault["from"])
    if count != 1:
        return f"{fault['name']}: its piece stands {count} times in {fault['file']}, not once; write the new text."
    if not is_statements(piece) and re.search(r"^return\b|\w = |[&|?]$|\?[^:]*$", piece):
        return f"{fault['name']}: its piece is neither an expression nor whole statements."
    return ""


def planted(text, faults):
    """`text` with every fault in it, asleep.

    >>> planted("f(a < b);", [{"name": "n", "from": "a < b", "to": "a <= b"}])
    'f((assay_planted_fault("n") ? (a <= b) : (a < b)));'
    >>> planted("x; y;", [{"name": "n", "from": "y;", "to": ""}])
    'x; if (assay_planted_fault("n")) {  } else { y; }'
    >>> planted("x; x;", [{"name": "n", "file": "f", "from": "x;", "to": ""}])
    Traceback (most recent call last):
    SystemExit: n: its piece stands 2 times in f, not once; write the new text.
    """
    for fault in faults:
        name, old, new = fault["name"], fault["from"], fault["to"]
        if why := obstacle(text, fault):
            sys.exit(why)
        form = 'if ({}) {{ {} }} else {{ {} }}' if is_statements(old) else "({} ? ({}) : ({}))"
        text = text.replace(old, form.format(f'assay_planted_fault("{name}")', new, old))
    return text


def build(folder, faults, jobs):
    header, source = folder / "planted_fault.hpp", folder / "source"
    folder.mkdir(parents=True, exist_ok=True)
    if not header.exists() or header.read_text() != ASKS:
        header.write_text(ASKS)

    def change(name, content):
        own = [f for f in faults if f["file"] == name]
        return f'#include "{header}"\n#line 1\n{planted(content.decode(), own)}'.encode() if own else content

    missing = {f["file"] for f in faults} - second_tree.copied(source, change)
    if missing:
        sys.exit(f"no such files: {', '.join(sorted(missing))}")
    tree = source / "build"
    subprocess.run(["cmake", "-S", source, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DASSAY_WERROR=ON"],
                   check=True)
    targets = ["assay", "assay-lab"] + [f"test_{part}" for part in PROGRAMS]
    subprocess.run(["cmake", "--build", tree, f"-j{jobs}", "--target", *targets], check=True)


def command_of(programs, part, tests):
    if part == TRANSCRIPTS:
        walk = [sys.executable, ROOT / "tools" / "dev" / "walk_pages.py", "--tool", programs.parent / "assay"]
        return [*walk, *(f"proptests/{TRANSCRIPTS}/{name}.md" for name in tests)]
    return [programs / f"test_{part}", "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={':'.join(tests)}"]


def ran(programs, part, tests, **own):
    """The process that ended, or None after LONGEST seconds."""
    with tempfile.TemporaryDirectory() as cache:  # a cache of the judge's would outlive the fault
        own = {"XDG_CACHE_HOME": cache, "ASSAY_SEED": "planted", **own}
        try:
            return subprocess.run(command_of(programs, part, tests), cwd=programs, env=os.environ | own, capture_output=True, text=True, errors="replace",
                                  timeout=LONGEST, check=False)
        except subprocess.TimeoutExpired:
            return None


def tests_of(programs, part):
    if part == TRANSCRIPTS:
        return sorted(page.stem for page in (ROOT / "proptests" / TRANSCRIPTS).glob("*.md"))
    return named(subprocess.run([programs / f"test_{part}", "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout)


def named(listed):
    """Names of tests, as a program lists them.

    >>> named("Suite.\\n  one\\n  two  # GetParam() = 2\\nEvery/Other.\\n  x\\n")
    ['Suite.one', 'Suite.two', 'Every/Other.x']
    """
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if not line.startswith(" "):
            suite = name
        else:
            names.append(suite + name.strip())
    return names


def reach(folder, programs, jobs):
    """Runs every test alone, with no fault awake, and keeps what it comes to."""
    def one(part, test):
        with tempfile.NamedTemporaryFile() as file:
            start = time.monotonic()
            done = ran(programs, part, [test], ASSAY_FAULTS_REACHED=file.name)
            met = sorted(set(pathlib.Path(file.name).read_text().split()))
        return done is not None and done.returncode == 0, time.monotonic() - start, met

    found, broken = {}, []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(one, part, test): (part, test) for part in PARTS for test in tests_of(programs, part)}
        for run in concurrent.futures.as_completed(runs):
            passed, seconds, met = run.result()
            if not passed:
                broken.append(": ".join(runs[run]))
            elif met:
                found[": ".join(runs[run])] = [round(seconds, 2), met]
    (folder / "reached.json").write_text(json.dumps(found, indent=0))
    print(f"{len(runs)} tests, {len(found)} come to a fault" + "".join(f"\nfails with no fault awake: {name}" for name in broken))
    return bool(broken)


def batches(tests):
    """Those of one program after the other, the shortest first.

    >>> list(batches({"a: x": 4, "a: y": 0.5, "b: z": 7, "b: w": 0.5}))
    [('a', ['y', 'x']), ('b', ['w']), ('b', ['z'])]
    """
    left = sorted(tests, key=tests.get)
    for limit in BATCHES:
        taken, total = {}, 0
        while left and (not taken or total + tests[left[0]] <= limit):
            total += tests[left[0]]
            part, _, test = left.pop(0).partition(": ")
            taken.setdefault(part, []).append(test)
        for part, names in taken.items():  # a command line has an end
            yield from ((part, names[at : at + 500]) for at in range(0, len(names), 500))


def first_failed(printed):
    """The name of the first test that failed, or "".

    >>> first_failed("[  FAILED  ] Suite.one (3 ms)"), first_failed("a.md: 3 commands, 0 differences.\\nb/check.md: 9 commands, 2 differences.")
    ('Suite.one', 'check')
    """
    failed = re.search(r"\[  FAILED  \] ([^ ,\n]+)|(\w+)\.md: \d+ commands, [1-9]", printed)
    return (failed[1] or failed[2]) if failed else ""


def killer(programs, fault, known, reached):
    """The test that fails with the fault awake, or ""."""
    name, tests = fault["name"], {test: seconds for test, (seconds, met) in reached.items() if fault["name"] in met}
    before = [(known.partition(": ")[0], [known.partition(": ")[2]])] if known in tests else []
    for part, batch in [*before, *batches(tests)]:
        done = ran(programs, part, batch, ASSAY_PLANTED_FAULT=name)
        if done is None or done.returncode != 0:
            failed = first_failed(done.stdout) if done else ""
            return f"{part}: {failed or (batch[0] if len(batch) == 1 else 'ends or hangs')}"
    return ""


def table(faults, killed):
    lines = ["<!-- written by `tools/dev/faults_of_the_judge.py run` -->", "", "# Faults planted in the judge", "",
             "Each is a mistake in the code that reads, evaluates or judges (proptests/judge/planted_faults.json has the pieces). The tests",
             "of `make test` run with one of them awake, those of the Python package and of pages in docs excepted. Those that are held out",
             "were written by somebody who had not seen the tests. When they were first run (2026-11-25, at 74c6278) 52 of 90 were noticed, 30",
             "of the 45 held out: that is the rate to expect of faults that nobody has thought of. The tests for the others were written then.", ""]
    for words, chosen in (("in all", faults), ("held out", [f for f in faults if f["held_out"]])):
        noticed = sum(bool(killed.get(f["name"])) for f in chosen)
        lines.append(f"- {words}: {noticed} of {len(chosen)} noticed")
    lines += ["", "| fault | file | noticed by |", "| --- | --- | --- |"]
    for f in faults:
        lines.append(f"| {f['name']}{' (held out)' if f['held_out'] else ''} | {f['file']} | {killed.get(f['name']) or 'none: ' + f['effect']} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "reach", "run"])
    parser.add_argument("names", nargs="*", help="of faults; without any, all that have not been noticed yet")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true", help="run those that were noticed before, too")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the table of all that have run")
    options = parser.parse_args()
    faults = json.loads(FAULTS.read_text())
    if options.what == "build":
        return build(options.build, faults, options.jobs)
    kept, programs = options.build / "killed.json", options.build / "source" / "build" / "proptests"
    killed = json.loads(kept.read_text()) if kept.exists() else {}
    wanted = [f for f in faults if f["name"] in options.names or not options.names and (options.again or not killed.get(f["name"]))]
    if options.names and len(wanted) != len(options.names):
        sys.exit(f"no such fault: {', '.join(set(options.names) - {f['name'] for f in wanted})}")
    if options.what == "reach":
        return reach(options.build, programs, options.jobs)
    reached = json.loads((options.build / "reached.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(killer, programs, f, killed.get(f["name"], ""), reached): f["name"] for f in wanted}
        for run in concurrent.futures.as_completed(runs):
            killed[runs[run]] = run.result()
            kept.write_text(json.dumps(killed, indent=1))
            print(f"{runs[run]:40} {run.result() or 'NOT NOTICED'}", flush=True)
    if options.output:
        options.output.write_text(table(faults, killed))
    # A run of named faults only reports them: it does not fail.
    return not options.names and 20 * sum(bool(killed.get(f["name"])) for f in faults) < 19 * len(faults)


if __name__ == "__main__":
    sys.exit(main())
