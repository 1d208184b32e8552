#!/usr/bin/env python3
"""Compares what `assay-lab emit PROGRAM.json --gradient -o NAME.cu` writes on this machine's GPU with the same source compiled for the
host, bit by bit, and times it. Needs cupy and a C++ compiler (CXX, or g++).

    emitted_check.py [--write PAGE] NAME.cu...
    emitted_check.py --verify PAGE --tool assay-lab

Prints a table. Exit code 1: a number differs. --verify needs no GPU: exit code 1 if the page's sources are not what is written today.
"""
import argparse
import ctypes
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy

try:
    import cupy
except ImportError:  # --verify does without
    cupy = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
# struct Launch of the sources (language/emit/prelude.cpp).
LAUNCH = numpy.dtype([("inputs", "u8"), ("outputs", "u8"), ("workspace", "u8"), ("length", "i4", 4), ("heads", "i4"), ("segment", "i4")])
HEADER = ("program", "source", "T", "K, V", "heads", "draws", "numbers", "differ", "compiled, s", "host, ms", "device, ms")
# T, K, V, heads, draws, steps between checkpoints, and whether the host computes it, too.
SIZES = [(65, 40, 33, 2, 2, 16, True), (512, 64, 64, 4, 4, 64, True), (4096, 128, 128, 16, 16, 64, False)]


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def verify(page, tool):
    """The differences from the page, a line each."""
    for name, digest in sorted(set(re.findall(r"^\| (\w+) \| ([0-9a-f]{12}) ", page.read_text(), re.MULTILINE))):
        written = subprocess.run([tool, "emit", ROOT / "mechanisms" / "json" / f"{name}.json", "--gradient"], capture_output=True, text=True, check=True)
        if digest_of(written.stdout) != digest:
            yield f"{page}: {name} is written otherwise today ({digest_of(written.stdout)}, not {digest}): run it again on a GPU"


def arrays_of(source, kind, sizes):
    """(name, numbers a block) of the inputs or outputs, in order."""
    found = re.findall(rf"launch\.{kind}\[\d+\] \+ \w+ \* \(1L((?: \* \w+)*)\);  // (\w+)", source)
    return [(name, int(numpy.prod([sizes.get(axis[2:]) or int(axis) for axis in axes.split(" * ")[1:]], initial=1))) for axes, name in found]


def drawn(name, shape, K):
    random = numpy.random.default_rng(3)
    if "decay" in name:
        return -random.uniform(0.001, 0.2, shape)
    if name in ("beta", "eta", "alpha"):
        return random.uniform(0.1, 0.9, shape)
    return random.standard_normal(shape) / (K**0.5 if name in ("q", "k", "scale") else 1)


def on_host(name, text, macros, launch, inputs, outputs, folder):
    """Runs all heads of one draw, writes into `outputs`; seconds."""
    library = pathlib.Path(folder, f"{name}-{'-'.join(macros)}.so")
    compiler = [os.environ.get("CXX", "g++"), "-x", "c++", "-std=c++20", "-O2", "-ffp-contract=off", "-shared", "-fPIC", *macros]
    subprocess.run([*compiler, "-o", library, "-"], input=text, text=True, check=True)
    entry = getattr(ctypes.CDLL(str(library)), f"assay_{name}")
    lists = [numpy.array([array.ctypes.data for array in arrays], "u8") for arrays in (inputs, outputs)]
    launch = launch.copy()
    launch["inputs"], launch["outputs"] = (addresses.ctypes.data for addresses in lists)
    workspace = numpy.empty(int(launch["workspace"]))
    launch["workspace"] = workspace.ctypes.data
    start = time.perf_counter()
    for head in range(int(launch["heads"])):
        entry(ctypes.c_void_p(launch.ctypes.data), head)
    return time.perf_counter() - start


def row_of(path, T, K, V, heads, draws, segment, compares, folder):
    name, text, sizes = path.stem.replace("-", "_"), path.read_text(), {"T": T, "K": K, "V": V}
    macros = [f"-DASSAY_K={K}", f"-DASSAY_V={V}"]
    start = time.perf_counter()
    module = cupy.RawModule(code=text, options=("--std=c++17", "--fmad=false", *macros), backend="nvrtc")
    kernel, ask = module.get_function(f"assay_{name}"), module.get_function(f"assay_{name}_workspace")
    compiled = time.perf_counter() - start
    threads, shared = cupy.ndarray((2,), cupy.int64, module.get_global(f"assay_{name}_block")).get()
    kernel.max_dynamic_shared_size_bytes = int(8 * shared)

    inputs = [drawn(of, (heads, size), K) for of, size in arrays_of(text, "inputs", sizes)]
    outputs = [cupy.full((heads * draws, size), cupy.nan) for _, size in arrays_of(text, "outputs", sizes)]
    there = [cupy.asarray(array) for array in inputs]
    lists = [cupy.asarray(numpy.array([array.data.ptr for array in arrays], "u8")) for arrays in (there, outputs)]
    launch = numpy.zeros((), LAUNCH)
    launch["inputs"], launch["outputs"] = (addresses.data.ptr for addresses in lists)
    launch["length"][0], launch["heads"], launch["segment"] = T, heads, segment
    needed = cupy.zeros(1, cupy.int64)
    ask((1,), (1,), (launch[()], needed))
    numbers = max(1, int(needed.get()[0]))
    workspace = cupy.empty(numbers * heads * draws)
    launch["workspace"] = workspace.data.ptr
    first, last = cupy.cuda.Event(), cupy.cuda.Event()
    for event in (first, last):  # the first launch warms up
        first.record()
        kernel((heads * draws,), (int(threads),), (launch[()],), shared_mem=int(8 * shared))
        last.record()
        last.synchronize()
    took, compared, differ, host = cupy.cuda.get_elapsed_time(first, last), 0, 0, ""
    if compares:
        expected = [numpy.full((heads, array.shape[1]), numpy.nan) for array in outputs]
        launch["workspace"] = numbers * heads
        host = f"{1000 * on_host(name, text, macros, launch, inputs, expected, folder):.1f}"
        for array, want in zip(outputs, expected):
            got = array.get().reshape(draws, *want.shape)
            assert numpy.isfinite(want).all(), f"{name}: not finite"
            compared, differ = compared + got.size, differ + int((got.view("u8") != want.view("u8")).sum())
    return differ, (path.stem, digest_of(text), T, f"{K}, {V}", heads, draws, compared or "", differ if compares else "", f"{compiled:.1f}", host, f"{took:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--verify", type=pathlib.Path)
    parser.add_argument("--tool")
    options = parser.parse_args()
    if options.verify:
        found = list(verify(options.verify, options.tool))
        print(*found, sep="\n", end="\n" if found else "")
        return bool(found)
    with tempfile.TemporaryDirectory() as folder:
        rows = [row_of(path, *size, folder) for path in options.sources for size in SIZES]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (HEADER, ("---",) * len(HEADER), *(row for _, row in rows))]
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    page = f"""<!-- written by `tools/gpu/emitted_check.py --write records/emitted.md`, on a GPU -->

# Programs as device code

Each row is a program of gradients as `assay-lab emit --gradient` writes it, in double: compiled by NVRTC and run on an {device}, a block
for each head of each draw, beside the same source compiled for the host, one thread. **Differ** counts numbers whose bits are not the
host's. Draws are copies so far: operands are not perturbed yet.

""" + "\n".join(lines) + "\n"
    print(page, end="")
    if options.write:
        options.write.write_text(page)
    return any(differ for differ, _ in rows)


if __name__ == "__main__":
    sys.exit(main())
