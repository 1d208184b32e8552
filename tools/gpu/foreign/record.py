#!/usr/bin/env python3
"""Records what published kernels answer on this machine's GPU: an answer for each case, its kernel, versions and device in the
metadata, and a line of recordings.jsonl with what fixtures/foreign/index.json keeps of it. Needs torch with CUDA and the
packages whose kernels are asked for.

    record.py --out FOLDER [--tool ASSAY] [--cases FOLDER] [KERNEL...]

Without a kernel, all. Cases are made by `assay case`, or read from --cases FOLDER where the machine has no assay: it takes
those of the kernel's mechanism. Each kernel runs twice; whether it answers the same bits is recorded.
"""
import argparse
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "proptests" / "foreign"))
from adapters import KERNELS  # noqa: E402
from cases import Case, write  # noqa: E402
from safetensors import safe_open  # noqa: E402

SHAPES = [("1,1,2,64", "bf16"), ("1,2,2,64", "bf16"), ("1,17,2,64", "fp16"), ("1,17,2,64", "fp32"), ("1,65,2,32", "bf16"), ("1,100,2,64", "bf16")]
DECODING = [(f"1,1/{keys},4/2,64", "bf16") for keys in (1, 17, 128, 300)]


def made_cases(tool, mechanism, decodes, folder):
    """Paths of the cases for a kernel."""
    for shape, precision in DECODING if decodes else SHAPES:
        path = folder / f"{mechanism}-{precision}-{shape.replace(',', '_').replace('/', 'of')}.safetensors"
        if not path.exists():
            command = [tool, "case", mechanism, "--shape", shape, "--precision", precision, "--seed", "5", "-o", str(path)]
            subprocess.run(command, check=True)
        yield path


def given_cases(mechanism, folder):
    """Those in the folder that are of the mechanism."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), "pt") as file:
            if (file.metadata() or {}).get("mechanism") == mechanism:
                yield path


def versions_of(package):
    """The versions that the kernel runs with."""
    found = {"torch": torch.__version__, "cuda": torch.version.cuda}
    names = {"torch": (), "fla-core": ("triton", "fla-core")}.get(package, (package,))
    return found | {name: importlib.metadata.version(name) for name in names}


def recorded(name, path, folder):
    """Runs the kernel twice on a case, writes its answer and says what the index keeps of it."""
    mechanism, package, function = KERNELS[name]
    answer = function(Case(str(path), "cuda"))
    again = function(Case(str(path), "cuda"))
    same = all(torch.equal(answer[tensor].nan_to_num(7), again[tensor].nan_to_num(7)) for tensor in answer)
    with safe_open(str(path), "pt") as file:
        case = file.metadata()
    ident = f"{name.replace('.', '-')}-{path.stem}"
    device, versions = torch.cuda.get_device_name(0), versions_of(package)
    write(str(folder / f"{ident}.safetensors"), answer, kernel=name, device=device, **versions)
    return {
        "id": ident, "mechanism": mechanism, "kernel": name, "source": package, "versions": versions, "device": device,
        "precision": case["precision"], "shape": case["shape"], "style": case["style"],
        "case": case["generator"].removeprefix("assay case "),
        "inputs": hashlib.sha256(case["sha256"].encode()).hexdigest(), "same_bits_again": same,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--tool", default=str(ROOT / "build" / "assay"))
    parser.add_argument("--cases", type=pathlib.Path)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = options.out / "cases"
    made.mkdir(exist_ok=True)
    failed = 0
    with open(options.out / "recordings.jsonl", "a") as index:
        for name in options.kernels or KERNELS:
            if name not in KERNELS:
                sys.exit(f"{name}: no kernel; expected one of {', '.join(KERNELS)}")
            mechanism = KERNELS[name][0]
            paths = given_cases(mechanism, options.cases) if options.cases else made_cases(
                options.tool, mechanism, "decoding" in name, made)
            for path in paths:
                try:
                    index.write(json.dumps(recorded(name, path, options.out)) + "\n")
                except Exception as error:  # of any kind: the next kernel may run all the same
                    failed += 1
                    print(f"{name} {path.stem}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
