#!/usr/bin/env python3
"""usage: check_times.py [--tool build/assay] [--before OTHER_ASSAY]
Processor seconds of `assay check` on three cases with healthy answers, as the table in docs/check.md, "What a check costs":
with an empty cache, and once more. --before times another build, too, in the same run."""
import argparse
import os
import subprocess
import tempfile

from cost import timed

CASES = [
    ("gated_deltanet", "1,1024,4,64", True, ["o", "final_state", "d_q", "d_k", "d_v", "d_beta", "d_log_decay"]),
    ("softmax_attention", "1,1024,4,64", True, ["o", "d_q", "d_k", "d_v"]),
    ("gated_deltanet", "1,2048,8,128", False, ["o", "final_state"]),
]


def seconds(command, cache):
    """Processor time of a command that has to end with exit code 0."""
    used, _, done = timed(command, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": cache})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}")
    return f"{used:.1f}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--tool", default="build/assay")
    parser.add_argument("--before")
    options = parser.parse_args()
    columns = ["before"] * bool(options.before) + ["first", "again"]
    print("| case, bf16 | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for mechanism, shape, gradients, tensors in CASES:
        with tempfile.TemporaryDirectory() as folder:
            case, answer = os.path.join(folder, "case.safetensors"), os.path.join(folder, "answer.safetensors")
            cotangents = [] if gradients else ["--no-cotangents"]
            subprocess.run([options.tool, "case", mechanism, "--shape", shape, "--seed", "1", *cotangents, "-o", case],
                           check=True)
            subprocess.run([options.tool, "oracle", case, "--tier", "double", "--no-diagnostics", "-o", answer],
                           check=True)
            check = ["check", case, answer, *(word for name in tensors for word in ("--tensor", name))]
            times = [seconds([options.before, *check], "/dev/null")] if options.before else []
            times += [seconds([options.tool, *check], folder) for _ in range(2)]
        print(f"| {mechanism} {shape}{', with gradients' if gradients else ''} | " + " | ".join(times) + " |")


if __name__ == "__main__":
    main()
