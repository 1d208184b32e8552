#!/usr/bin/env python3
"""usage: language_speed.py [--tool build/assay] [--shape 1,1024,4,64] [--runs 3] [PROGRAM...]

What a program of mechanisms/ costs beside the engine of its room, in seconds of processor time: truth with gradients, in
two words, on one thread; the least of some runs, which take turns. Prints the table of docs/mechanism-language.md."""
import argparse
import os
import pathlib
import subprocess
import tempfile

from cost import timed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("deltanet", "gated_deltanet", "kda", "mdn", "softmax_attention")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build/assay"))
    parser.add_argument("--shape", default="1,1024,4,64")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    print("| program | its room's engine | the program | times |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case.safetensors")
        for name in options.programs:
            least = [float("inf")] * 2
            subprocess.run([options.tool, "case", name, "--shape", options.shape, "-o", case], check=True)
            oracle = [options.tool, "oracle", case, "--tier", "w2", "--threads", "1", "-o", os.path.join(folder, "truth")]
            program = [*oracle, "--mechanism", str(ROOT / "mechanisms/json" / f"{name}.json")]
            for _ in range(options.runs):
                least = [min(known, timed(command, check=True, stdout=subprocess.DEVNULL)[0]) for known, command in zip(least, (oracle, program))]
            print(f"| `{name}` | {least[0]:.2f} | {least[1]:.2f} | {least[1] / least[0]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
