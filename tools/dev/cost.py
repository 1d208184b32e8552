#!/usr/bin/env python3
"""What a cold build and all tests cost, in seconds of processor on the machine that budgets are counted on: `make cost`.

    cost.py build [--tree build-cost]     configures and builds a copy of the working tree, as `make report` and then
                                          `make test` do, without anything that a compiler cache knows
    cost.py test [--tree build-cost]      runs all tests of the working tree's own build, which has the Python packages
    cost.py page [-o records/cost.md]     writes what both have measured

Seconds are those of all processes, user and system, over this machine's factor: how much longer it takes for 500 million
dependent multiplications and one compilation than the machine of the budgets (0.37 s and 1.7 s).
"""
import argparse
import collections
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import second_tree

MULTIPLY = """#include <cstdio>
int main(int c, char**) { double x = 1.0 + c * 1e-9, y = x; for (long i = 0; i < 500000000; ++i) y *= x; std::printf("%g\\n", y); }
"""
COMPILE = """#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
int main() { std::regex r("a+(b|c)*"); std::map<std::string, std::function<int(int)>> m; m["x"] = [](int i) { return i; };
  std::unordered_map<std::string, int> u; return std::regex_match("ab", r) + m["x"](1) + u["y"]; }
"""
BUDGETS = {"report": 500, "test": 800}


def processor():
    """Seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(command, **how):
    """Seconds of processor and of the clock."""
    before, start = processor(), time.monotonic()
    done = subprocess.run(command, **how)
    return processor() - before, time.monotonic() - start, done


def factor():
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "x.cpp"), pathlib.Path(folder, "x")
        source.write_text(MULTIPLY)
        subprocess.run(["g++", "-O1", "-o", program, source], check=True)
        multiply = timed([program], stdout=subprocess.DEVNULL, check=True)[0]
        source.write_text(COMPILE)
        compiling = timed(["g++", "-std=c++20", "-O1", "-c", "-o", program, source], check=True)[0]
    return (multiply / 0.37 + compiling / 1.7) / 2


def launch(log, command):
    """Runs what the build runs, and notes what it took."""
    used, _, done = timed(command, check=False)
    with open(log, "a") as file:
        file.write(json.dumps([target_of(command), used]) + "\n")
    return done.returncode


def target_of(command):
    """The library or program that a command of the build is for.

    >>> target_of(["c++", "-o", "proptests/CMakeFiles/test_core.dir/core/x.cpp.o", "-c", "x.cpp"]), target_of(["ld", "-o", "assay"])
    ('test_core', 'links')
    """
    output = next((word for at, word in enumerate(command) if at > 0 and command[at - 1] == "-o"), "")
    found = re.search(r"CMakeFiles/([^/]+)\.dir/", output)
    return found[1] if found else "links"


def build(tree, kept, jobs):
    source, log = tree / "source", tree / "commands.jsonl"
    second_tree.copied(source)
    launcher = f"{sys.executable} {__file__} launch {log} --"
    (tree / "launch.cmake").write_text("".join(
        f'set_property(GLOBAL PROPERTY RULE_LAUNCH_{what} "{launcher}")\n' for what in ("COMPILE", "LINK")))
    folder, own = source / "build", os.environ | {"CCACHE_RECACHE": "1"}
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    f"-DCMAKE_PROJECT_INCLUDE={tree}/launch.cmake"], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "clean"], check=True)
    kept["factor"] = factor()
    for what, targets in (("report", ["assay"]), ("test", ["all"])):
        log.unlink(missing_ok=True)
        used, clock, done = timed(["cmake", "--build", folder, f"-j{jobs}", "--target", *targets], env=own, check=False)
        if done.returncode != 0:
            sys.exit(f"cost: building {targets[0]} failed")
        targets = collections.Counter()
        for line in log.read_text().splitlines():
            name, seconds = json.loads(line)
            targets[name] += seconds
        kept[what] = {"processor": used, "clock": clock, "targets": targets}
    kept["factor"] = (kept["factor"] + factor()) / 2  # it changes within minutes


def test(tree, kept, jobs):
    folder, report = second_tree.ROOT / "build", tree / "tests.xml"
    kept["factor of tests"] = factor()
    used, clock, done = timed(["ctest", "--test-dir", folder, f"-j{jobs}", "--output-junit", report], capture_output=True, text=True, check=False)
    labels = dict(re.findall(r"^(\w+) +=+ +([\d.]+) sec\*proc", done.stdout, re.M))
    kept["factor of tests"] = (kept["factor of tests"] + factor()) / 2
    tests = re.findall(r'<testcase name="([^"]*)"[^>]* time="([\d.]+)"', report.read_text())
    kept["tests"] = {"processor": used, "clock": clock, "labels": {k: float(v) for k, v in labels.items()}, "count": len(tests),
                     "longest": sorted(((float(s), name) for name, s in tests), reverse=True)[:25]}
    return done.returncode


def rows(title, values, scale):
    lines = [f"| {title} | s |", "| --- | ---: |"]
    return lines + [f"| {name} | {value / scale:.0f} |" for name, value in sorted(values, key=lambda x: -x[1]) if value / scale >= 1]


def page(kept):
    scale, own, jobs = kept["factor"], kept["factor of tests"], os.cpu_count()
    report, rest, tests = kept["report"], kept["test"], kept["tests"]
    both = (rest["processor"] / scale + tests["processor"] / own)
    lines = ["<!-- written by `make cost` -->", "", "# What building and testing costs", "",
             "Seconds of processor, user and system, of everything that runs, over this machine's factor; the clock as it was here,",
             f"with {jobs} cores. tools/dev/cost.py says what the factor is.", "",
             "| cold | processor | budget | clock here |", "| --- | ---: | ---: | ---: |",
             f"| `make report`: the build | {report['processor'] / scale:.0f} | {BUDGETS['report']} | {report['clock']:.0f} |",
             f"| `make test` after it | {both:.0f} | {BUDGETS['test']} | {rest['clock'] + tests['clock']:.0f} |",
             f"| its build alone | {rest['processor'] / scale:.0f} | | {rest['clock']:.0f} |",
             f"| its {tests['count']} tests | {tests['processor'] / own:.0f} | | {tests['clock']:.0f} |", "",
             f"The factor: {scale:.2f} while it built, {own:.2f} while it tested.", "", "## Where the build's time is", ""]
    targets = collections.Counter(report["targets"]) + collections.Counter(rest["targets"])
    lines += rows("library or program", targets.items(), scale) + ["", "## Where the tests' time is", ""]
    lines += rows("label", tests["labels"].items(), own) + ["", "A test's seconds are of the clock, over the factor.", ""]
    lines += rows("test", [(f"`{name}`", s) for s, name in tests["longest"]], own)
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["launch"]:
        return launch(sys.argv[2], sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "test", "page"])
    parser.add_argument("--tree", type=lambda p: pathlib.Path(p).resolve(), default=second_tree.ROOT / "build-cost")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=pathlib.Path, default=second_tree.ROOT / "records" / "cost.md")
    options = parser.parse_args()
    options.tree.mkdir(parents=True, exist_ok=True)
    path, code = options.tree / "cost.json", 0
    kept = json.loads(path.read_text()) if path.exists() else {}
    if options.what == "page":
        options.output.write_text(page(kept))
    else:
        code = {"build": build, "test": test}[options.what](options.tree, kept, options.jobs)
        path.write_text(json.dumps(kept, indent=1))
    return code


if __name__ == "__main__":
    sys.exit(main())
