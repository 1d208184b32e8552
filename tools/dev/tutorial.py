#!/usr/bin/env python3
"""Walks through docs/tutorial.md as its readers do: runs the commands of its console blocks in a folder of its own, one after
the other, and compares what they print with what the page says. A line of three dots stands for any number of lines.

    tutorial.py --tool ASSAY               exit code 1 if they differ
    tutorial.py --tool ASSAY --write       puts what they print into the page
    tutorial.py --tool ASSAY --self-test   falsifies the page, line by line, and demands that it is seen
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"

SECONDS = re.compile(r"\bin \d+\.\d s\b")
# What numpy adds up in which order is the processor's affair, and with it the numbers that are said of its kernels.
NUMBER = re.compile(r"-?\b\d[\d.]*(e[+-]\d+)?%?")


def steps(page):
    """Pairs of a command and the lines that it prints."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        lines = iter(block.splitlines())
        for line in lines:
            if line.startswith("$ "):
                while line.endswith("\\"):
                    line += "\n" + next(lines)
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def comparable(line, in_python):
    line = SECONDS.sub("in # s", line.rstrip())
    if in_python and not line.startswith("exit code"):
        line = re.sub(r"\s+", " ", NUMBER.sub("#", line))
    return line


def matches(said, got):
    """Whether `got` is `said`, with any number of lines where that has three dots."""
    if not said:
        return not got
    if said[0] == "...":
        return any(matches(said[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and said[0] == got[0] and matches(said[1:], got[1:])


def run_all(commands, tool):
    """What each prints, in a folder where build/assay, fixtures and docs are what they are in the tree."""
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("build", pathlib.Path(tool).resolve().parent), ("fixtures", ROOT / "fixtures"), ("docs", ROOT / "docs")):
            os.symlink(target, pathlib.Path(folder, name))
        python = pathlib.Path(folder, "bin", "python")
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
        for command in commands:
            ran = subprocess.run(
                command, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            yield ran.stdout.splitlines()


def differences(walked, printed):
    for (command, said), got in zip(walked, printed):
        in_python = "python" in command
        expected, actual = ([comparable(line, in_python) for line in lines] for lines in (said, got))
        if not matches(expected, actual):
            yield "\n".join([f"$ {command}", *difflib.unified_diff(expected, actual, "the page", "the tool", lineterm="")])


def shortened(lines):
    """What the page shows: no legend, and no command that reproduces a verdict."""
    if lines and lines[0].startswith("assay check:"):
        lines = ["...", *lines[lines.index("") + 1 :]]
    shown = []
    for line in lines:
        left_out = line.startswith(("      build/assay check", "reproduce:"))
        if not left_out or shown[-1:] != ["..."]:
            shown.append("..." if left_out else line)
    return shown


def rewritten(page, printed):
    """The page with what its commands have printed."""
    outputs = iter(printed)

    def filled(block):
        commands = [command for command, _ in steps(block[0])]
        return "```console\n" + "".join("\n".join(["$ " + c, *shortened(next(outputs))]) + "\n" for c in commands) + "```"

    return re.sub(r"^```console\n(.*?)^```$", filled, page, flags=re.MULTILINE | re.DOTALL)


def self_test(walked, printed):
    """Lines of the page that could say something else without anybody seeing it, as a count."""
    failures = 0
    for step, (command, said) in enumerate(walked):
        for number, line in enumerate(said):
            falsified = [*walked[:step], (command, [*said[:number], line + " not", *said[number + 1 :]]), *walked[step + 1 :]]
            if line != "..." and not list(differences(falsified, printed)):
                failures += 1
                print(f"not seen: {line!r} of {command!r}")
    print(f"tutorial: {failures} failures.")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    walked = steps(PAGE.read_text())
    printed = list(run_all([command for command, _ in walked], options.tool))
    if options.write:
        PAGE.write_text(rewritten(PAGE.read_text(), printed))
        return 0
    if options.self_test:
        return 1 if self_test(walked, printed) else 0
    found = list(differences(walked, printed))
    print("\n\n".join(found + [f"tutorial: {len(walked)} commands, {len(found)} differ."]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
