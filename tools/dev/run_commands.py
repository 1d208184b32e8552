#!/usr/bin/env python3
"""Runs the commands of assay that pages show in indented lines, without what they print, in a folder with the files that they name: each
must end as the pages say, with exit code 0 or 1. Those in console blocks are compared with their output by walk_pages.py.

    run_commands.py --tool ASSAY [PAGE...]           exit code 1 if one does not

Then it misspells a flag of each, and demands that this is seen. Without pages it takes one page in three, and all with ASSAY_EVERY=1
in the environment.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages of mechanisms are made alike: one for all.
FOLDERS = ("*.md", "docs/*.md", "docs/guides/*.md", "docs/mechanisms/deltanet.md", "records/*.md")
# Words of commands in place of the reader's own, and of sizes that take minutes.
INSTEAD = {"NAME": "deltanet", "1,4096,8,128": "1,64,2,16", "python": sys.executable, "--healthy 1000": "--healthy 10", "--tokens 512": "--tokens 64"}
# Shorter forms of commands for all mechanisms or in all precisions, which `make report` and the records' own tests run.
SHORTER = {
    "report": ["--precision", "bf16"], "save": ["--seeds", "3"], "mutants": ["--mechanism", "value_averaging"],
    "suite": ["--no-cotangents", "--head-dim", "16"],  # the kernel that stands for the reader's has no gradients
    "calibrate": ["--mechanism", "value_averaging", "--precision", "bf16"],
}  # fmt: skip


def commands(page):
    """Indented lines that call assay; what follows a # is a remark."""
    return [line.strip().partition(" #")[0] for line in page.splitlines() if re.match(r"    (build/)?assay ", line)]


def runnable(command):
    for word, instead in INSTEAD.items():
        command = re.sub(rf"(?<![\w./-]){re.escape(word)}(?![\w.-])", instead, command)
    verb = re.sub(r"^(build/)?assay ", "build/assay ", command).replace("-o records/", "-o ")
    for name, more in SHORTER.items():
        if re.match(rf"build/assay (baseline )?{name}\b", verb) and not any(word in verb for word in (more[0], "--contract", "--merge")):
            verb += " " + " ".join(more)
    return verb


def prepare(folder, tool):
    """The files that pages name."""
    for name, target in (("build", pathlib.Path(tool).resolve().parent), ("fixtures", ROOT / "fixtures"), ("docs", ROOT / "docs"), ("records", ROOT / "records")):
        (folder / name).symlink_to(target)
    for case, tokens in (("case", 70), ("a", 70), ("b", 50)):
        run(f"build/assay case deltanet --shape 1,{tokens},2,16 --precision bf16 --no-cotangents --seed 3 -o {case}.safetensors", folder)
        answer = "out.safetensors" if case == "case" else f"{case}_out.safetensors"
        run(f"{sys.executable} docs/examples/deltanet.py {case}.safetensors {answer}", folder)
    shutil.copy(ROOT / "docs/examples/deltanet.py", folder / "my_kernel.py")
    shutil.copy(ROOT / "docs/examples/mine.json", folder / "mine.json")
    shutil.copy(pathlib.Path(tool).resolve().parent / "proptests/libplugin_deltanet.so", folder / "libkernel.so")
    rows = [["1", "0.5"], ["0.25", "-1"]]
    inputs = {"q": rows, "k": rows, "v": rows, "beta": ["0.5", "1"], "initial_state": [["0", "0"], ["0", "0"]]}
    case = {"id": "a", "mechanism": "deltanet", "params": {"scale": "0.5"}, "inputs": inputs, "cotangents": {}}
    (folder / "cases.json").write_text(json.dumps({"format": "assay-cases", "version": 1, "cases": [case]}))


def run(command, folder):
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": "/dev/null", "TMPDIR": str(folder)}
    return subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="of all that have such commands, one in three")
    options = parser.parse_args()
    failures = 0
    step = int(os.environ.get("ASSAY_EVERY", 3))
    every = [path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted(ROOT.glob(folder))]
    for name in options.pages or [name for name in every if commands((ROOT / name).read_text())][::step]:
        found = commands((ROOT / name).read_text())
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            prepare(folder, options.tool)
            for command in found:
                ran, misspelt = run(runnable(command), folder), run(runnable(command) + " --nosuchflag", folder)
                if ran.returncode not in (0, 1):
                    failures += 1
                    print(f"{name}: {command}: exit code {ran.returncode}\n{ran.stdout[-500:]}")
                if misspelt.returncode != 2:
                    failures += 1
                    print(f"{name}: {command}: a flag that is none is not seen")
        failures += not found
        print(f"{name}: {len(found)} commands.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
