#!/usr/bin/env python3
"""Walks through pages as their readers do: runs the commands of their console blocks in a folder of its own, one after the
other, and compares what they print with what the page says. A line of three dots stands for any number of lines. Python
blocks that begin with "# NAME.py" are files there. Commands about torch are left out where there is none, and the few that
take minutes (LONG) unless ASSAY_EVERY=1 is in the environment or the page is written. A transcript, a page of TRANSCRIPTS,
says more of a command than readers see: what goes to standard error is behind "! " at the end, and an exit code that is
not 0 comes last. There `assay`, `assay-lab` and the commands of commands.py are on the path. Those of
python/tests/transcripts need the package.

    walk_pages.py --tool ASSAY [PAGE...]           exit code 1 if they differ
    walk_pages.py --tool ASSAY [PAGE...] --write   puts what they print into the pages

Then it falsifies the page, line by line, and demands that each is seen.
"""
import argparse
import difflib
import functools
import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/check.md", "docs/contracts.md", "docs/drift.md", "docs/guides/bf16-drifts.md", "docs/guides/it-fails.md", "docs/judge.md",
         "docs/own-mechanism.md", "docs/papers.md", "docs/published-bugs.md", "docs/report.md", "docs/tutorial.md")
TRANSCRIPTS = ROOT / "proptests" / "transcripts"

# Shorter tests take samples of these: PublishedThreads.AreFound.
LONG = ("build/assay-lab mutants --published",)

# pytest says more than a minute in hours, too.
LONGER = re.compile(r"(?<=s) \(\d+:\d\d:\d\d\)$")
SECONDS = re.compile(r"\bin \d+\.\d s\b")
# The order of numpy's sums depends on the processor, and so do the numbers that are said of its kernels.
NUMBER = re.compile(r"-?\b\d[\d.]*(e[+-]\d+)?%?")


def steps(page, has_numpy=True):
    """Commands, each with the lines that it prints and whether numpy has computed what these are about."""
    found, made = [], []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        lines = iter(block.splitlines())
        for line in lines:
            if line.startswith("$ "):
                while line.endswith("\\"):
                    line += "\n" + next(lines)
                command = line[2:]
                found.append((command, [], has_numpy and ("python" in command or any(file in command for file in made))))
                if command.startswith("python "):
                    made.append(command.split()[-1])
            else:
                found[-1][1].append(line)
    return found


def left_out(command, has_torch, takes_long):
    """Whether a walk passes this command by, and what the page says of it.

    >>> left_out("python torch_kernel.py", False, True), left_out("build/assay-lab mutants --published", True, False)
    (True, True)
    >>> left_out("build/assay-lab mutants --published FA#2402", True, False), left_out("build/assay-lab mutants --published", True, True)
    (False, False)
    """
    return ("torch" in command and not has_torch) or (command in LONG and not takes_long)


def comparable(line, by_numpy):
    """
    >>> comparable("4 passed in 4.55s", True) == comparable("4 passed in 81.17s (0:01:21)", True)
    True
    """
    line = LONGER.sub("", line)
    line = SECONDS.sub("in # s", line.rstrip())
    if by_numpy and not line.startswith("exit code"):
        line = re.sub(r"\s+", " ", NUMBER.sub("#", line))
    return line


def matches(said, got):
    """Whether `got` is `said`, with any number of lines where that has three dots."""
    if not said:
        return not got
    if said[0] == "...":
        return any(matches(said[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and said[0] == got[0] and matches(said[1:], got[1:])


def patient(command):
    """The same with time for --why: what a page shows of a usual machine a slow one finds, too, only later.

    >>> patient("assay check case out --why | grep why")
    'assay check case out --why --why-limit 600 | grep why'
    >>> patient("assay check case out --why --why-limit 60")
    'assay check case out --why --why-limit 600'
    """
    return re.sub(r" --why(?: --why-limit \d+)?(?=\s|$)", " --why --why-limit 600", command)


def files(page):
    """Python files that the page shows, by name."""
    return {name: text for text, name in re.findall(r"^```python\n(# ([\w.]+\.py)\n.*?)^```$", page, re.MULTILINE | re.DOTALL)}


def put_on_path(folder, transcript):
    """A folder of programs: the Python that runs this, and for transcripts the tools and what is called beside them."""
    scripts = {"python": [sys.executable]}
    if transcript:
        scripts |= {name: [f"build/{name}"] for name in ("assay", "assay-lab")}  # as pages call them
        scripts |= {name: [sys.executable, "-S", TRANSCRIPTS / "commands.py", name] for name in ("edit", "tell", "pick", "rewrite", "terminal")}
    folder.mkdir()
    for name, words in scripts.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {" ".join(shlex.quote(str(word)) for word in words)} "$@"\n')
        program.chmod(0o755)


def marked(ran):
    """The output of a command of a transcript, with its stream, and how it ended."""
    code = [f"exit code {ran.returncode}"] if ran.returncode else []
    lines = [*ran.stdout.splitlines(), *("! " + line for line in ran.stderr.splitlines()), *code]
    return [line.rstrip() for line in lines]


def run_all(commands, tool, shown=None, transcript=False):
    """The output of each, in a folder where build/assay, fixtures, docs, mechanisms, records, and a transcript's tools and Python are what
    they are in the tree, with the files shown. They share what `check` keeps."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as kept:
        for name, text in (shown or {}).items():
            pathlib.Path(folder, name).write_text(text)
        tool = pathlib.Path(tool).resolve()
        shared = ("fixtures", "docs", "mechanisms", "records", *(["tools", "python"] if transcript else []))
        for name, target in (("build", tool.parent), *((name, ROOT / name) for name in shared)):
            os.symlink(target, pathlib.Path(folder, name))
        programs = pathlib.Path(folder, "bin")
        put_on_path(programs, transcript)
        # Programs that are installed beside this Python are found, too. A page that exports its PATH has to find all by that.
        exports = [command for command in commands if command.startswith("export PATH=")]
        path = os.environ["PATH"] if exports else f"{programs}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        # pytest prints its summary in full where one of these says that it runs in continuous integration: readers see it cut off.
        own = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER", "COLUMNS", "PYTEST_ADDOPTS")}
        # Its threads are a third of the time that a kernel in numpy takes to begin.
        environment = {**own, "LC_ALL": "C.UTF-8", "PATH": path, "XDG_CACHE_HOME": kept, "TMPDIR": folder, "OPENBLAS_NUM_THREADS": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"} if transcript else {}  # the tree stays as it is
        exported = ""
        for command in commands:
            exported += command.replace("$PWD/build/python/", f"{ROOT}/build/python/") + "; " if command in exports else ""
            words = ["bash", "-o", "pipefail", "-c", command] if transcript else ["sh", "-c", exported + patient(command)]
            ran = subprocess.run(words, cwd=folder, env=environment, text=True, errors="replace", stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE if transcript else subprocess.STDOUT)
            yield marked(ran) if transcript else ran.stdout.splitlines()


def unfolded(lines):
    """Lines as they were before the tools folded them: where depends on how many digits a number has.

    >>> unfolded(["FAIL  o is", "      wrong", "      where: all", "      heads", "      assay check case", "..."])
    ['FAIL  o is wrong', '      where: all heads', '      assay check case', '...']
    """
    whole = []
    for line in lines:
        goes_on = re.match(r" {6}(?!where: |(build/)?assay )\S", line) and whole and whole[-1] != "..."
        whole[-1:] = [whole[-1] + line[5:]] if goes_on else [*whole[-1:], line]
    return whole


def too_wide(walked, printed):
    """Lines of verdicts that are wider than text_width of tools/print/escape.hpp: no row of a table, no command and no word as long.

    >>> line, path, row = "FAIL  " + 50 * "o ", 6 * " " + 100 * "o", 20 * "bf16  "
    >>> [len(list(too_wide([(command, [], False)], [[line, path, row, "reproduce: " + line]]))) for command in ("assay report", "assay case")]
    [1, 0]
    """
    for (command, *_), got in zip(walked, printed):
        if re.search("assay (check|report|suite) ", command + " ") and not re.search("--format|--help|--write-cases|assay contract", command):
            for line in got:
                can_fold = len(line) > 100 and line.rfind(" ", 0, 101) >= len(line) - len(line.lstrip()) and len(re.findall(r"\S {2,}\S", line)) < 4
                if can_fold and not re.match("! |assay: |reproduce: | +(build/)?assay ", line):
                    yield f"wider than 100: {line!r} of {command!r}"


def differences(walked, printed):
    for (command, said, by_numpy), got in zip(walked, printed):
        said, got = (unfolded(said), unfolded(got)) if by_numpy else (said, got)
        expected, actual = ([comparable(line, by_numpy) for line in lines] for lines in (said, got))
        if not matches(expected, actual):
            yield "\n".join([f"$ {command}", *difflib.unified_diff(expected, actual, "the page", "the tool", lineterm="")])


def shortened(lines):
    """The lines that the page shows: no legend, and no command that reproduces a verdict."""
    if lines and lines[0].startswith("assay check:"):
        lines = ["...", *lines[lines.index("") + 1 if "" in lines else 1 :]]
    shown = []
    for line in lines:
        left_out = re.match("reproduce:| {6}(build/)?assay check", line)
        if not left_out or shown[-1:] != ["..."]:
            shown.append("..." if left_out else line)
    return shown


def abridged(said, got):
    """The printed lines, with three dots where the page had them: lines between them are those most like the page's. A line more costs
    half of one that is alike, and little where a line above goes on.

    >>> abridged(["columns  a b", "1 case: PASS", "..."], ["columns  a", "         b", "1 case: PASS", "1 tensor"])
    ['columns  a', '         b', '1 case: PASS', '...']
    """

    def likeness(line, other):
        a, b = line.split(), other.split()
        return sum(x == y for x, y in zip(a, b)) / max(len(a), len(b), 1)

    @functools.cache
    def best(i, j):
        if i == len(said) and j == len(got):
            return 0, ()
        ways = []
        if i < len(said) and said[i] == "...":
            ways += [(0, "...", best(i + 1, k)) for k in range(j, len(got) + 1)]
        elif i < len(said):
            ways += [(likeness(said[i], got[j]), got[j], best(i + 1, j + 1))] if j < len(got) else []
            ways.append((-0.5, None, best(i + 1, j)))
        if j < len(got) and not (i < len(said) and said[i] == "..."):
            ways.append((-0.05 if got[j].startswith("      ") else -0.5, got[j], best(i, j + 1)))
        score, line, (rest, lines) = max(ways, key=lambda way: way[0] + way[2][0])
        return score + rest, (line, lines)

    lines, chain = [], best(0, 0)[1]
    while chain:
        lines += [chain[0]] if chain[0] is not None else []
        chain = chain[1]
    return lines


def rewritten_lines(said, got):
    """The output of a command, abridged as the page had it."""
    return (abridged(said, got) if "..." in said else got) if said else shortened(got)


def rewritten(page, printed, has_torch=True):
    """The page with what its commands have printed, abridged as it was. The lines under commands left out stay.

    >>> page = "```console\\n$ make torch\\nPASS\\n$ make\\nold\\n```"
    >>> print(rewritten(page, [["new"]], has_torch=False).replace("```", ""))
    console
    $ make torch
    PASS
    $ make
    new
    <BLANKLINE>
    """
    outputs = iter(printed)

    def filled(block):
        text = ""
        for command, lines, _ in steps(block[0]):
            if not left_out(command, has_torch, takes_long=True):
                lines = rewritten_lines(lines, next(outputs))
            text += "\n".join(["$ " + command, *lines]) + "\n"
        return "```console\n" + text + "```"

    return re.sub(r"^```console\n(.*?)^```$", filled, page, flags=re.MULTILINE | re.DOTALL)


def unseen(walked, printed):
    """Lines of the page that could say something else without a test that sees it."""
    for step, (command, said, by_numpy) in enumerate(walked):
        for number, line in enumerate(said):
            falsified = [(command, [*said[:number], line + " not", *said[number + 1 :]], by_numpy)]
            if line != "..." and not list(differences(falsified, printed[step : step + 1])):
                yield f"not seen: {line!r} of {command!r}"


def main():
    sys.setrecursionlimit(20_000)  # abridged goes one deeper for a line
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--write", action="store_true")
    transcripts = sorted(str(path.relative_to(ROOT)) for path in TRANSCRIPTS.glob("*.md"))
    parser.add_argument("pages", nargs="*", default=[*PAGES, *transcripts], metavar="PAGE")
    options = parser.parse_args()
    failures, has_torch = 0, importlib.util.find_spec("torch") is not None
    if not os.access(options.tool, os.X_OK):
        sys.exit(f"walk_pages.py: {options.tool}: no program")
    for name in options.pages:
        page = ROOT / name
        takes_long = options.write or os.environ.get("ASSAY_EVERY") == "1"
        is_transcript = page.parent.name == TRANSCRIPTS.name
        walked = [step for step in steps(page.read_text(), not is_transcript) if not left_out(step[0], has_torch, takes_long)]
        commands = [command for command, *_ in walked]
        printed = list(run_all(commands, options.tool, files(page.read_text()), is_transcript))
        if options.write:
            page.write_text(rewritten(page.read_text(), printed, has_torch))
            continue
        found = [*differences(walked, printed), *unseen(walked, printed), *too_wide(walked, printed)]
        failures += len(found) + (not walked)
        print("\n\n".join([*found, f"{name}: {len(walked)} commands, {len(found)} differences."]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
