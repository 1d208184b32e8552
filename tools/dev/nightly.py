#!/usr/bin/env python3
"""What is too long for every change: `make nightly`, or some of its parts: `make nightly PARTS="laws fuzz" SECONDS=600`.

Every part runs, whatever those before it said; a table at the end has their time and what they counted. What a part
prints goes to build/nightly/PART.log. Exit code 1 if one fails.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUZZ = """cmake --preset clang >/dev/null && cmake --build build-clang --target fuzz && mkdir -p build/nightly/corpus &&
build-clang/proptests/fuzz --seeds build/nightly/corpus &&
build-clang/proptests/fuzz -rss_limit_mb=1024 -timeout=10 -max_total_time={seconds} -jobs={jobs} -workers={jobs} build/nightly/corpus;
code=$?; cat fuzz-*.log; rm -f fuzz-*.log; exit $code"""
# The command of each part, the pattern of its size in its output, and whether it is given seconds.
PARTS = {
    "laws": ("tools/dev/laws.py --build build --jobs {jobs} --seconds {seconds}", r"\d+ cases of \d+ laws"),
    "fuzz": (FUZZ, r"#(\d+)\s+DONE"),
    "install": ("tools/dev/clean_install", r"pip install .*"),
    "faults": ("f=tools/dev/faults_of_the_judge.py; $f build && $f reach && $f run --again -o records/planted-faults.md;"
               " code=$?; sed -n '/^- /p' records/planted-faults.md; exit $code", r"- in all: .*"),
    "clang": ("make clang CMAKE_ARGS=-DASSAY_WERROR=ON", r"\d+% tests passed[^\n]*"),
    "asan": ("make asan", r"\d+% tests passed[^\n]*"),
    "lint": ("make lint", r"lint: .*"),
    "foreign": ("make foreign", r"\d+ runs[^\n]*"),
    "roots": ("tools/dev/clean_root bookworm && tools/dev/clean_root trixie", r"\w+, g\+\+ .*"),
}


def counted(pattern, text):
    """The last of what the part says of its size.

    >>> counted(PARTS["laws"][1], "x\\n14017 cases of 401 laws, 0 failed")
    '14017 cases of 401 laws'
    """
    found = re.findall(pattern, text)
    return found[-1] if found else ""


def fuzzed(text, kept):
    """The executions of all workers, and with those of the nights before: `kept` has their sum, which goes with the corpus.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         fuzzed("#900\\tDONE   cov: 7\\n#1200\\tDONE   cov: 9", pathlib.Path(folder, "executions"))
    '2,100 executions, 2,100 of this corpus'
    '2,100 executions, 4,200 of this corpus'
    """
    new = sum(int(count) for count in re.findall(PARTS["fuzz"][1], text))
    total = new + (int(kept.read_text()) if kept.exists() else 0)
    kept.write_text(f"{total}\n")
    return f"{new:,} executions, {total:,} of this corpus"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--seconds", type=int, default=3600, help="of the laws; libFuzzer has a sixth (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        sys.exit(f"nightly: there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    folder, rows, failed = ROOT / "build" / "nightly", [], False
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.parts or PARTS:
        command, pattern = PARTS[name]
        seconds = options.seconds // 6 if name == "fuzz" else options.seconds
        log, start = folder / f"{name}.log", time.monotonic()
        print(f"nightly: {name} ...", file=sys.stderr, flush=True)
        with log.open("w") as file:
            ran = subprocess.run(command.format(seconds=seconds, jobs=options.jobs), shell=True, cwd=ROOT, stdout=file,
                                 stderr=subprocess.STDOUT, check=False)
        text = log.read_text(errors="replace")
        failed |= ran.returncode != 0
        verdict = "passed" if ran.returncode == 0 else f"FAILED, exit code {ran.returncode}: {log.relative_to(ROOT)}"
        size = fuzzed(text, folder / "corpus.executions") if name == "fuzz" else counted(pattern, text)
        rows.append(f"{name:8} {time.monotonic() - start:6.0f} s  {verdict:8} {size}".rstrip())
        print(rows[-1], flush=True)
        if ran.returncode != 0:
            print("".join(line + "\n" for line in text.splitlines()[-20:]), file=sys.stderr)
    print("\nnightly\n" + "\n".join(rows))
    return failed


if __name__ == "__main__":
    sys.exit(main())
