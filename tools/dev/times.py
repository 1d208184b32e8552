#!/usr/bin/env python3
"""What checks and programs cost, in seconds of processor time, as tables of pages.

    times.py check [--before OTHER_ASSAY]    `assay check` of three cases with healthy answers, as in docs/check.md, "What a check
                                             costs": with an empty cache, and once more. --before times another build in the same run
    times.py programs [PROGRAM...]           programs of mechanisms/ beside the engines of their rooms, as in docs/mechanism-language.md:
                                             truth with gradients, in two words, on one thread; the least of three runs, which take turns
"""
import argparse
import os
import pathlib
import subprocess
import tempfile

from cost import timed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = [
    ("gated_deltanet", "1,1024,4,64", True, ["o", "final_state", "d_q", "d_k", "d_v", "d_beta", "d_log_decay"]),
    ("softmax_attention", "1,1024,4,64", True, ["o", "d_q", "d_k", "d_v"]),
    ("gated_deltanet", "1,2048,8,128", False, ["o", "final_state"]),
]
PROGRAMS = ("deltanet", "gated_deltanet", "kda", "mdn", "softmax_attention")


def seconds(command, cache="/dev/null"):
    """Processor time of a command that has to end with exit code 0."""
    return timed(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": cache})[0]


def checks(options, case, answer):
    columns = ["before"] * bool(options.before) + ["first", "again"]
    print("| case, bf16 | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for mechanism, shape, gradients, tensors in CASES:
        cotangents = [] if gradients else ["--no-cotangents"]
        subprocess.run([options.tool, "case", mechanism, "--shape", shape, "--seed", "1", *cotangents, "-o", case], check=True)
        subprocess.run([options.tool, "oracle", case, "--tier", "double", "--no-diagnostics", "-o", answer], check=True)
        check = ["check", case, answer, *(word for name in tensors for word in ("--tensor", name))]
        times = [seconds([options.before, *check])] if options.before else []
        with tempfile.TemporaryDirectory() as cache:
            times += [seconds([options.tool, *check], cache) for _ in range(2)]
        print(f"| {mechanism} {shape}{', with gradients' if gradients else ''} | " + " | ".join(f"{x:.1f}" for x in times) + " |")


def programs(options, case, answer):
    print("| program | its room's engine | the program | times |\n|---|---|---|---|")
    for name in options.programs or PROGRAMS:
        subprocess.run([options.tool, "case", name, "--shape", "1,1024,4,64", "-o", case], check=True)
        oracle = [options.tool, "oracle", case, "--tier", "w2", "--threads", "1", "-o", answer]
        commands = (oracle, [*oracle, "--mechanism", ROOT / "mechanisms/json" / f"{name}.json"])
        engine, program = map(min, zip(*([seconds(command) for command in commands] for _ in range(3))))
        print(f"| `{name}` | {engine:.2f} | {program:.2f} | {program / engine:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "programs"])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--tool", default=ROOT / "build/assay")
    parser.add_argument("--before", metavar="OTHER_ASSAY")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"check": checks, "programs": programs}[options.what](options, f"{folder}/case.safetensors", f"{folder}/answer.safetensors")


if __name__ == "__main__":
    main()
