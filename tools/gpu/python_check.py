#!/usr/bin/env python3
"""Judges kernels of torch and of flash-linear-attention in process, on tensors of this machine's GPU, through assay.adapters: healthy
ones, and ones with an error planted in them, in how they are called or in a line of their Triton source. Needs assay's wheel, torch
and fla-core in this Python.

    python_check.py [--write PAGE] [--only NAME]... [--device cpu]

Prints a table. Exit code 1: a healthy kernel does not pass, or an error is not found. --device cpu: what runs there, torch's own and,
with TRITON_INTERPRET=1, a kernel of fla.
"""
import argparse
import datetime
import importlib.metadata
import importlib.util
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import assay
import torch
from assay import adapters
from torch.nn.attention import SDPBackend, sdpa_kernel

FLA = ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_kda", "chunk_delta_rule", "chunk_gla", "chunk_simple_gla")
# Errors in fla's sources: (name, kernel, file, what is there, what stands there instead). Each line is the first of its kind in the file.
RECURRENT, CHUNKS, SCORES = "ops/gated_delta_rule/fused_recurrent.py", "ops/common/chunk_delta_h.py", "ops/common/chunk_o.py"
PLANTED = [
    ("the state kept as it is from chunk to chunk", FLA[0], CHUNKS, "            b_h1 *= b_g_last\n", "            b_h1 *= 1.0\n"),
    ("the mask of a chunk one token short", FLA[0], SCORES, "m_A = (o_t[:, None] >= o_t[None, :])", "m_A = (o_t[:, None] > o_t[None, :])"),
    ("decays of the chunk's scores left out", FLA[0], SCORES, "b_A = b_A * exp2(b_g[:, None] - b_g[None, :])", "b_A = b_A * 1.0"),
    ("the error correction missing", FLA[1], RECURRENT, "b_v = b_beta * (b_v - tl.sum(b_h * b_k[:, None], 0))", "b_v = b_beta * b_v"),
    ("the state not decayed", FLA[1], RECURRENT, "            b_h *= exp(b_g)\n", "            b_h *= 1.0\n"),
]  # fmt: skip
HEADER = ("kernel", "precision", "shape B,T,H,K", "error planted", "verdict", "tensors", "excess", "again", "seconds", "what is said")


def sdpa(backend):
    """scaled_dot_product_attention by that backend alone."""

    def attention(*args, **kwargs):
        with sdpa_kernel([getattr(SDPBackend, backend)]):
            return torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)

    return adapters.torch.scaled_dot_product_attention.using(attention)


def changed(kernel, function):
    """The same adapter around the function with its arguments changed."""
    inner = kernel.resolved()
    return kernel.using(lambda **given: inner(**function(given)))


def jobs_of_torch(device):
    """(name, kernel, mechanism, shape, dtype, what else the case has, the planted error)."""
    every = [
        ("MATH", [((2, 100, "4/2", 64), "bf16", {}), ((1, 70, 2, 64), "fp32", {}), ((1, 70, 2, 64), "bf16", {"mask": True})]),
        ("EFFICIENT_ATTENTION", [((2, 100, 2, 64), "bf16", {}), ((1, 70, 2, 64), "fp32", {}), ((1, 70, 2, 64), "bf16", {"mask": True})]),
        ("FLASH_ATTENTION", [((2, 100, "4/2", 64), "bf16", {}), ((1, 130, 2, 128), "fp16", {}), ((1, "24/100", 2, 64), "bf16", {"causal": False})]),
        ("CUDNN_ATTENTION", [((2, 128, 2, 64), "bf16", {})]),
    ]  # fmt: skip
    scaled = ("the scale of heads padded by 8", lambda given: {**given, "scale": ((keys := given["query"].shape[-1]) / (keys + 8)) ** 0.5 * given["scale"]})
    noncausal = ("no causal mask", lambda given: {**given, "is_causal": False, "attn_mask": None})
    for backend, cases in every if device == "cuda" else every[:1]:
        name = "sdpa " + backend.removesuffix("_ATTENTION").lower()
        for shape, dtype, more in cases:
            yield name, sdpa(backend), "softmax_attention", shape, dtype, more, ""
        shape, dtype, more = cases[0]
        for error, function in (scaled, noncausal):
            yield name, changed(sdpa(backend), function), "softmax_attention", shape, dtype, more, error


def jobs_of_fla(device, planted=None):
    """As above; of a kernel whose sources have an error planted, that one alone."""
    if device == "cpu":  # the interpreter's bf16 arithmetic is wrong, and it runs no kernel that loops over chunks
        names = FLA[1:2] if os.environ.get("TRITON_INTERPRET") == "1" else ()
    else:
        names = FLA
    for name in names:
        kernel, error = getattr(adapters.fla, name), ""
        cases = [((2, 130, "4/2" if kernel.groups else 2, 64), "bf16", {})] if device == "cuda" else [((1, 40, "4/2", 16), "fp32", {})]
        if planted:
            error, chosen = planted
            if name == chosen:
                yield name, kernel, kernel.mechanism, *cases[0], error
            continue
        if name == "chunk_gated_delta_rule":
            cases += [((1, 100, 2, 64), "fp16", {}), ((1, 130, 2, 64), "bf16", {"layout": "thd", "cu_seqlens": [0, 37, 130]})]
        if name == "chunk_kda":
            cases += [((1, 100, 2, 64), "bf16", {"gate": "softplus"})]
        for shape, dtype, more in cases:
            yield name, kernel, kernel.mechanism, shape, dtype, more, error
        if name in ("chunk_gated_delta_rule", "chunk_kda"):
            dropped = changed(kernel, lambda given: {**given, "initial_state": torch.zeros_like(given["initial_state"])})
            yield name, dropped, kernel.mechanism, cases[0][0], "bf16", {}, "the initial state dropped"


def row_of(name, kernel, mechanism, shape, dtype, more, error, device):
    """A line of the table, and whether it says what it should."""
    shown = [name, dtype, ",".join(map(str, shape)) + "".join(f" {key}" for key in more), error]
    start = time.monotonic()
    try:
        case = assay.case(mechanism, shape, dtype, seed=7, device=device, **more)
        report = assay.check(case, kernel, device=device, raises=False)
    except Exception as problem:  # whatever a kernel of others raises is a line of the table
        words = f"{type(problem).__name__}: {problem}".splitlines()[0]
        return [*shown, "ERROR", "", "", "", f"{time.monotonic() - start:.1f}", words[:160]], False
    again = [fault for fault in report.faults if "other bits when the kernel is run again" in fault]
    faults = [fault for fault in report.faults if fault not in again]
    failed = [row["tensor"] for row in report.rows if row["verdict"] == "FAIL"]
    verdict = "FAIL" if failed or faults else next((row["verdict"] for row in report.rows if row["verdict"] != "PASS"), "PASS")
    said = [*faults, *(line for line in report.explanation().splitlines() if line.startswith(("first wrong", "looks like", "d_", "o ")))]
    excess = max((row["model_excess"] for row in report.rows if row["model_excess"] is not None), default=0)
    right = bool(failed) if error else verdict == "PASS"
    found = [verdict, str(len(report.rows)), f"{excess:.3g}", "other bits" if again else "same bits", f"{time.monotonic() - start:.1f}"]
    return [*shown, *found, "; ".join(said[:2]) if verdict != "PASS" else ""], right


def markdown(rows):
    lines = [HEADER, ["---"] * len(HEADER), *rows]
    return "\n".join("| " + " | ".join(str(x).replace("|", "\\|") for x in line) + " |" for line in lines)


def page(rows, device):
    names = ("torch", "triton", "fla-core", "numpy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names if importlib.util.find_spec(name.split("-")[0]))
    where = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    healthy = [row for row in rows if not row[3]]
    passed = sum(row[4] == "PASS" for row in healthy)
    found = sum(row[4] == "FAIL" for row in rows if row[3])
    return f"""<!-- written by `tools/gpu/python_check.py --write records/from-python.md`, on a GPU -->

# Kernels of others, from Python

`assay.check(assay.case(..., device="{device}"), kernel)` on tensors of the device, in the process that called it: functions of torch and flash-linear-attention as
they are ({passed} of {len(healthy)} pass), and with an error planted ({found} of {len(rows) - len(healthy)} found): in their arguments, or in a line of their Triton source.

{where}, {versions}, CPython {sys.version.split()[0]}, assay {assay.__version__}, {datetime.date.today()}. **Excess**: of what evidence `model`
expects of a kernel of this precision; up to 2, in fp32 up to 3, is PASS ([model.md](model.md)). **Again**: whether a second call gave the same bits; atomics do not, and these were judged all the same. Seconds are of case, two calls, compilation, and judging.

{markdown(rows)}
"""


def planted(device):
    """Lines of fla with an error in its sources: a copy of the package, in a process of its own."""
    home = pathlib.Path(importlib.util.find_spec("fla").origin).parent
    for error, kernel, file, was, instead in PLANTED:
        if device == "cpu" and kernel != FLA[1]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(home, pathlib.Path(folder, "fla"), ignore=shutil.ignore_patterns("__pycache__"))
            source = pathlib.Path(folder, "fla", file)
            text = source.read_text()
            if was not in text:
                sys.exit(f"python_check.py: {file} of this fla has no line {was.strip()!r}")
            source.write_text(text.replace(was, instead, 1))
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
            words = [sys.executable, "-B", __file__, "--planted", error, kernel, "--device", device]
            ran = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE)
            lines = [line for line in ran.stdout.splitlines() if line.startswith(("True\t", "False\t"))]
            yield from ((line.split("\t")[1:], line.startswith("True")) for line in lines)
            if not lines:
                yield [kernel, "", "", error, "ERROR", "", "", "", "", f"exit code {ran.returncode}"], False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", action="append", default=[], help="kernels whose names begin so")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--planted", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("python_check.py: torch finds no GPU here; --device cpu judges what runs on a CPU")
    of_torch = [] if options.planted else jobs_of_torch(options.device)
    jobs = itertools.chain(of_torch, jobs_of_fla(options.device, options.planted))
    lines = (row_of(*job, options.device) for job in jobs if job[0].startswith(tuple(options.only or [""])))
    if not options.planted and not options.only and (options.device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"):
        lines = itertools.chain(lines, planted(options.device))
    rows, right = [], True
    for row, good in lines:
        rows, right = [*rows, row], right and good
        print(f"{good}\t" + "\t".join(row) if options.planted else f"{'  ' if good else '! '}" + "  ".join(row), flush=True)
        if options.write:  # after each, for a machine may be lent for less time than this takes
            options.write.write_text(page(rows, options.device))
    return 0 if right and rows else 1


if __name__ == "__main__":
    sys.exit(main())
