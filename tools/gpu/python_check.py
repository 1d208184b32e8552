#!/usr/bin/env python3
"""Judges our kernels (assay.kernels), and those of torch and of flash-linear-attention through assay.adapters, in process, on tensors
of this machine's GPU: healthy ones, and ones with an error planted in them, in how they are called or in a line of their Triton source. Needs assay's wheel, torch
and fla-core in this Python.

    python_check.py [--write PAGE [--keep PAGE]] [--only NAME]... [--device cpu]

Prints a table. Exit code 1: a healthy kernel does not pass, or an error is not found. --device cpu: what runs there, torch's own and,
with TRITON_INTERPRET=1, a kernel of fla.
"""
import argparse
import datetime
import importlib.metadata
import importlib.util
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

# In the order of what they say, for a machine may be lent for less time than all take.
FLA = ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule", "chunk_delta_rule", "chunk_kda", "chunk_gla", "chunk_simple_gla")
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


def name_of(backend):
    return "sdpa " + backend.removesuffix("_ATTENTION").lower()


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
        name = name_of(backend)
        for shape, dtype, more in cases:
            yield name, adapters.torch.of_backend(backend), "softmax_attention", shape, dtype, more, ""
        shape, dtype, more = cases[0]
        for error, function in (scaled, noncausal):
            yield name, changed(adapters.torch.of_backend(backend), function), "softmax_attention", shape, dtype, more, error


def jobs_of_ours(device):
    """assay.kernels, on a GPU."""
    for name in assay.kernels.__all__ if device == "cuda" else ():
        more = {"normalization": "none"} if name == "linear_attention" else {}
        yield f"assay.kernels.{name}", getattr(assay.kernels, name), name, (2, 200, "4/2", 64), "bf16", more, ""


def tuner_of(kernel):
    """The autotuner of a Triton kernel, whatever it is wrapped in."""
    while not hasattr(kernel, "configs"):
        kernel = kernel.fn
    return kernel


def tune_no_more():
    """Autotuners take the first of their configurations: they are judged, not timed."""
    from triton.runtime.autotuner import Autotuner

    every = Autotuner.prune_configs
    Autotuner.prune_configs = lambda self, kwargs: every(self, kwargs)[:1]


def guarded():
    """Whether fla refuses gradients of gated kernels here: issue 640, wrong results of Triton 3.4 to 3.7 on Hopper."""
    from fla.ops.common import chunk_o

    return chunk_o.IS_NVIDIA_HOPPER and chunk_o.TRITON_ABOVE_3_4_0 and not chunk_o.TRITON_ABOVE_3_7_1


def jobs_without_guard(first):
    """The gradients that fla refuses here, in the first of the configurations that it would try, or in all others: some are known to
    be wrong."""
    from fla.ops.common import chunk_o

    kernel, tuner = adapters.fla.chunk_gated_delta_rule, tuner_of(chunk_o.chunk_bwd_kernel_dqkwg)
    every = list(tuner.configs)
    jobs = [(shape, config) for shape in ((2, 130, "4/2", 64), (1, 130, 2, 128)) for config in every]
    for shape, config in jobs[:1] if first else jobs[1:]:
        chunk_o.TRITON_ABOVE_3_7_1, tuner.configs = True, [config]
        said = f"fla's guard of its issue 640 off: {config.num_warps} warps, {config.num_stages} stages"
        yield kernel.name, kernel, kernel.mechanism, shape, "bf16", {}, said
        chunk_o.TRITON_ABOVE_3_7_1, tuner.configs = False, every


def jobs_of_fla(device, chosen, planted=None):
    """As above; of a kernel whose sources have an error planted, that one alone."""
    if device == "cpu":  # the interpreter's bf16 arithmetic is wrong, and it runs no kernel that loops over chunks
        names = FLA[1:2] if os.environ.get("TRITON_INTERPRET") == "1" else ()
    else:
        names = chosen
    refused = bool(names) and guarded()
    for name in names:
        kernel = getattr(adapters.fla, name)
        gated = refused and name in ("chunk_gated_delta_rule", "chunk_simple_gla")
        outputs = {"cotangents": False} if gated else {}
        shape, dtype = ((2, 130, "4/2" if kernel.groups else 2, 64), "bf16") if device == "cuda" else ((1, 40, "4/2", 16), "fp32")
        if planted:
            if name == planted[1]:
                yield name, kernel, kernel.mechanism, shape, dtype, {"cotangents": False}, planted[0]
            continue
        yield name, kernel, kernel.mechanism, shape, dtype, outputs, ""
        if name == "chunk_gated_delta_rule":
            if refused:
                yield from jobs_without_guard(True)
            yield name, kernel, kernel.mechanism, (1, 130, 2, 64), "bf16", {"layout": "thd", "cu_seqlens": [0, 37, 130], **outputs}, ""
            dropped = changed(kernel, lambda given: {**given, "initial_state": torch.zeros_like(given["initial_state"])})
            yield name, dropped, kernel.mechanism, shape, "bf16", outputs, "the initial state dropped"

def row_of(name, kernel, mechanism, shape, dtype, more, error, device):
    """A line of the table, and whether it says what it should."""
    said = {"cotangents": "outputs alone"}
    shown = [name, dtype, ",".join(map(str, shape)) + "".join(f" {said.get(key, key)}" for key in more), error]
    start = time.monotonic()
    try:
        case = assay.case(mechanism, shape, dtype, seed=7, device=device, **more)
        alone = ("o", "final_state") if name == "assay.kernels.linear_attention" else None  # it has no normalizers
        report = assay.check(case, kernel, outputs=alone, device=device, raises=False)
    except Exception as problem:  # whatever a kernel of others raises is a line of the table
        words = f"{type(problem).__name__}: {problem}".splitlines()[0]
        return [*shown, "ERROR", "", "", "", f"{time.monotonic() - start:.1f}", words[:160]], False
    again = [fault for fault in report.faults if "other bits when the kernel is run again" in fault]
    faults = [fault for fault in report.faults if fault not in again]
    failed = [row["tensor"] for row in report.rows if row["verdict"] == "FAIL"]
    verdict = "FAIL" if failed or faults else next((row["verdict"] for row in report.rows if row["verdict"] != "PASS"), "PASS")
    said = [*faults, *(line for line in report.explanation().splitlines() if line.startswith(("FAIL", "looks like", "d_", "o ")))]
    excess = max((row["model_excess"] for row in report.rows if row["model_excess"] is not None), default=0)
    right = bool(failed) if error else verdict == "PASS"
    right = right or "guard" in error and verdict == "PASS"  # some configurations are right
    found = [verdict, str(len(report.rows)), f"{excess:.3g}", "other bits" if again else "same bits", f"{time.monotonic() - start:.1f}"]
    return [*shown, *found, "; ".join(said[:2]) if verdict != "PASS" else ""], right


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(x).replace("|", "\\|") for x in line) + " |" for line in lines)


def versions(device):
    """The device, and what runs on it."""
    names = ("torch", "triton", "fla-core", "numpy")
    here = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names if importlib.util.find_spec(name.split("-")[0]))
    where = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    return f"{where}, {here}, CPython {sys.version.split()[0]}, assay {assay.__version__}, {datetime.date.today()}"


def page(rows, device, earlier):
    healthy, open_ones = [row for row in rows if not row[3]], [row for row in rows if "guard" in row[3]]
    wrong = [row for row in rows if row[3] and row not in open_ones]
    passed, found = sum(row[4] == "PASS" for row in healthy), sum(row[4] == "FAIL" for row in wrong)
    unguarded = f"""
fla refuses gradients of gated kernels with Triton 3.4 to 3.7 on Hopper, where they have been seen to be wrong (its issue 640). With the guard off, every configuration of
that kernel on two problems: {sum(row[4] == "FAIL" for row in open_ones)} of {len(open_ones)} FAIL. That acquits these configurations on these problems, not the compiler.
""" if open_ones else ""  # fmt: skip
    return f"""<!-- written by `tools/gpu/python_check.py --write records/from-python.md`, on a GPU -->

# Kernels from Python

`assay.check(assay.case(..., device="{device}"), kernel)` on tensors of the device, in the process that called it: `assay.kernels`, and functions of torch and flash-linear-attention as
they are ({passed} of {len(healthy)} pass). With an error planted {found} of {len(wrong)} are found: in their arguments, or in a line of their Triton source. Of every Triton kernel the first configuration is judged.
{unguarded}
{versions(device)}{earlier}. **Excess**: of what evidence `model`
expects of a kernel of this precision; up to 2, in fp32 up to 3, is PASS ([model.md](model.md)). **Again**: whether a second call gave the same bits; atomics do not, and these were judged all the same. Seconds are of case, two calls, compilation, and judging.

{markdown(HEADER, rows)}
"""


def kept(path, rows):
    """The lines of an earlier page about kernels that are not in these, and what ran there."""
    lines = path.read_text().splitlines() if path else []
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]
    ran = next((line.partition(". **Excess**")[0] for line in lines if ". **Excess**" in line), "")
    return [line for line in cells[2:] if line[0] not in {row[0] for row in rows}], ran and f"; lines from before: {ran}"


def planted(device, only, errors):
    """Lines of fla with an error in its sources: a copy of the package, in a process of its own."""
    home = pathlib.Path(importlib.util.find_spec("fla").origin).parent
    for error, kernel, file, was, instead in errors:
        if not kernel.startswith(only) or (device == "cpu" and kernel != FLA[1]):
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


def judged(jobs, device, only):
    return (row_of(*job, device) for job in jobs if job[0].startswith(only))


def every_line(device, only, in_triton):
    yield from judged(jobs_of_ours(device), device, only)
    yield from judged(jobs_of_torch(device), device, only)
    yield from judged(jobs_of_fla(device, FLA[:3]), device, only)
    if in_triton:
        yield from planted(device, only, PLANTED[:2])
    if device == "cuda":
        if guarded() and FLA[0].startswith(only):
            yield from judged(jobs_without_guard(False), device, only)
        yield from judged(jobs_of_fla(device, FLA[3:]), device, only)
    if in_triton:
        yield from planted(device, only, PLANTED[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", action="append", default=[], help="kernels whose names begin so")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a page whose lines about other kernels go into the one that is written")
    parser.add_argument("--planted", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("python_check.py: torch finds no GPU here; --device cpu judges what runs on a CPU")
    only, in_triton = tuple(options.only or [""]), options.device == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if in_triton:
        tune_no_more()
    if options.planted:
        lines = judged(jobs_of_fla(options.device, FLA, options.planted), options.device, only)
    else:
        lines = every_line(options.device, only, in_triton)
    rows, right = [], True
    for row, good in lines:
        rows, right = [*rows, row], right and good
        print(f"{good}\t" + "\t".join(row) if options.planted else f"{'  ' if good else '! '}" + "  ".join(row), flush=True)
        if options.write:  # after each, for a machine may be lent for less time than this takes
            earlier, ran = kept(options.keep, rows)
            options.write.write_text(page([*earlier, *rows], options.device, ran))
    return 0 if right and rows else 1


if __name__ == "__main__":
    sys.exit(main())
