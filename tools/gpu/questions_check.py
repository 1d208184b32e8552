#!/usr/bin/env python3
"""Asks kernels of torch and of flash-linear-attention, on this machine's GPU, the questions of docs/questions-2026.md: for the same bits in
other words (assay.invariance), in a graph of CUDA with other inputs (check(graph=True)), two of them against one truth (assay.pair), and
with chosen keys. Healthy ones must answer all; with an error planted they must not. Needs assay's wheel, torch and fla-core in this Python;
FlashMLA is asked where it is installed.

    questions_check.py [--write PAGE] [--only NAME]... [--jobs 6] [--device cpu]

Exit code 1: a healthy kernel is not right, or an error is not found. --device cpu: torch's own, without graphs and streams.
"""
import argparse
import concurrent.futures
import functools
import importlib.util
import multiprocessing
import pathlib
import sys

import assay
import torch
from assay import adapters
from python_check import FLA, changed, markdown, name_of, row_of, tune_no_more, versions

BACKENDS = ("MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION")


def kernels(device):
    """(name, kernel, mechanism, shape, dtype) of all that are asked for the same bits and are replayed."""
    for backend in BACKENDS if device == "cuda" else BACKENDS[:1]:
        yield name_of(backend), adapters.torch.of_backend(backend), "softmax_attention", "2,192,4,64", "bf16" if device == "cuda" else "fp32"
    for name in FLA if device == "cuda" else ():
        kernel = getattr(adapters.fla, name)
        yield name, kernel, kernel.mechanism, "2,130,2,64", "bf16"


def attend_to_chosen(q, k, v, topk_indices, topk_length, scale, length_counts=True, none_counts=False):
    """scaled_dot_product_attention with a causal mask of the chosen keys; [B, T, H, d], lists [B, T, H or less, n]. Keys that nobody
    chose hold NaN: they are zeros here."""
    lists, keys = topk_indices.long(), k.shape[1]
    counts = (lists >= 0) | none_counts
    if length_counts:
        counts &= torch.arange(lists.shape[-1], device=q.device) < topk_length.long()[..., None, None]
    at = torch.where(counts & (lists < keys), lists.clamp(min=0), keys)
    seen = torch.zeros(*lists.shape[:-1], keys + 1, dtype=torch.bool, device=q.device).scatter(-1, at, True)[..., :keys].transpose(1, 2)
    seen = (seen & torch.ones_like(seen).tril(keys - q.shape[1])).repeat_interleave(q.shape[2] // lists.shape[2], 1)
    some = seen.any(-1, keepdim=True)  # a row without keys is NaN otherwise
    q, k, v = (x.nan_to_num().transpose(1, 2) for x in (q, k, v))
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen | ~some, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    return (o * some).transpose(1, 2)


def jobs_of_chosen(device):
    """As python_check's: keys, or blocks of keys, that every row has a list of. FlashMLA takes lists of a multiple of 128 entries."""
    shape, dtype = ((1, 130, "4/2", 64), "bf16") if device == "cuda" else ((1, 40, 2, 16), "fp32")
    errors = {"": {}, "topk_length ignored": {"length_counts": False}, "-1 taken for key 0": {"none_counts": True}}
    for error, how in errors.items():
        kernel = functools.partial(attend_to_chosen, **how)
        yield "sdpa, a mask of lists", kernel, "softmax_attention", shape, dtype, {"topk_indices": True, "topk_length": True}, error
    kernel, keys = adapters.fla.naive_dsa, {"topk_indices": True}  # a row without keys is NaN to fla's
    before = changed(kernel, lambda given: {**given, "indices": given["indices"].roll(1, 1)})
    for error, how in (("", kernel), ("lists of the row before", before)):
        yield kernel.name, how, kernel.mechanism, (1, 130, "4/1", 64), "bf16", keys, error
    if device != "cuda":
        return
    kernel, blocks = adapters.fla.parallel_nsa, {"topk_indices": "4", "topk_block_size": 16}
    fewer = changed(kernel, lambda given: {**given, "block_counts": given["block_counts"].clamp(max=3)})
    for error, how, more in (
        ("", kernel, {}),
        ("the last block of a list left out", fewer, {}),
        ("its own: a row of which no block counts is 0 / 0", kernel, {"topk_length": True}),
        ("its own: tokens behind an empty sequence read that", kernel, {"layout": "thd", "cu_seqlens": [0, 37, 37, 130]}),
    ):
        yield kernel.name, how, kernel.mechanism, (1, 130, "32/2", 64), dtype, {**blocks, **more}, error
    if importlib.util.find_spec("flash_mla") is None:
        return
    kernel = adapters.flash_mla.flash_mla_sparse_fwd
    more = {"topk_indices": "128", "topk_length": True, "value_dim": 512, "causal": False, "cotangents": False}
    for error, change in (
        ("", lambda given: given),
        ("topk_length ignored", lambda given: {**given, "topk_length": None}),
        ("-1 taken for key 0", lambda given: {**given, "indices": given["indices"].clamp(min=0)}),
    ):
        yield kernel.name, changed(kernel, change), kernel.mechanism, (1, "4/140", "64/1", 576), dtype, more, error


def invariant(name, device):
    """A column of the table: what came of each way."""
    _, kernel, *problem = next(job for job in kernels(device) if job[0] == name)
    found = assay.invariance(assay.case(*problem, seed=7, cotangents=False, device=device), kernel, device=device, raises=False)
    marks = {row.way: row.verdict if row.verdict == "FAIL" else "=" if row.same else f"{max(one.most for one in row.apart):.2g}" for row in found.rows if row.asked}
    return [([name, problem[2], problem[1], "", marks], found.passed)]


def stale(kernel):
    """A plan that is made too early: while a graph is captured the kernel works on copies of what the call before was given."""
    inner, kept = kernel.resolved(), {}

    def planned(**given):
        if torch.cuda.is_current_stream_capturing():
            return inner(**{**given, **kept})
        kept.update({name: x.clone() for name, x in given.items() if isinstance(x, torch.Tensor)})
        return inner(**given)

    return kernel.using(planned)


def replayed(name, device):
    """A line about a graph of CUDA that is replayed, of the kernel as it is and with a stale plan."""
    _, kernel, *problem = next(job for job in kernels(device) if job[0] == name)
    case, lines = assay.case(*problem, seed=7, cotangents=False, device=device), []
    for error, one in (("", kernel), ("a plan of the inputs before", stale(kernel))):
        report = assay.check(case, one, device=device, raises=False, graph=True)
        verdict = "FAIL" if report.faults else report.verdict
        lines.append(([name, problem[2], problem[1], error, verdict, next(iter(report.faults), "")[:160]], verdict == ("FAIL" if error else "PASS")))
    return lines


def paired(names, device):
    """A line about two kernels of one mechanism."""
    jobs = {name: job for name, *job in kernels(device)}
    (a, *problem), (b, *_) = (jobs[name] for name in names)
    found = assay.pair(assay.case(*problem, seed=7, cotangents=False, device=device), a, b, device=device, raises=False)
    return [(["; ".join(names), problem[2], problem[1], found.verdict], found.passed)]


PAIRS = [("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"), ("sdpa math", "sdpa flash"), ("sdpa flash", "sdpa cudnn")]


def chosen(number, device):
    row, good = row_of(*list(jobs_of_chosen(device))[number], device)
    return [([*row[:8], row[9]], good)]


def tasks(device, only):
    """(function, what it is about)."""
    names = [job[0] for job in kernels(device) if job[0].startswith(only)]
    yield from ((invariant, name) for name in names)
    yield from ((replayed, name) for name in names if device == "cuda")
    yield from ((paired, pair) for pair in PAIRS if set(pair) <= set(names))
    yield from ((chosen, i) for i, job in enumerate(jobs_of_chosen(device)) if job[0].startswith(only))


def done(task):
    """What a task found, [(cells, whether it is as it should be)]; whatever a kernel of others raises is a line of the page."""
    function, about, device = task
    try:
        return function(about, device)
    except Exception as problem:
        return [([str(about), "", "", "", "ERROR", f"{type(problem).__name__}: {problem}".splitlines()[0][:160]], False)]


def page(found, device):
    """The page of [(function, what it is about, lines)]."""
    parts = {function: [cells for one, _, lines in found if one is function for cells, _ in lines] for function in (invariant, replayed, paired, chosen)}
    columns = [(cells[0], cells[4]) for cells in parts[invariant] if isinstance(cells[4], dict)]
    ways = list(dict.fromkeys(way for _, marks in columns for way in marks))
    answers = markdown(["way", *(name for name, _ in columns)], [[way, *(marks.get(way, "") for _, marks in columns)] for way in ways])
    about = ["kernel", "precision", "shape B,T,H,K", "error planted", "verdict"]
    return f"""<!-- written by `tools/gpu/questions_check.py --write records/invariance.md`, on a GPU -->

# The same answer, asked otherwise, of kernels of others

{versions(device)}. Functions of torch and flash-linear-attention as they are; of every Triton kernel
the first configuration.

## The same bits

`assay.invariance(case, kernel)` ([ways](../docs/guides/invariance.md#the-ways)) of cases in bf16 with outputs alone. `=`: the same bits. A number: other bits, a right answer, and how far apart they are at
most; two right kernels may be 1. Empty: not asked, since the kernel refuses it or the case has no such thing.

{answers}

## Replayed

`assay.check(case, kernel, graph=True)`: captured with other inputs, outputs filled with NaN, the case's inputs written in place, replayed.

{markdown([*about, "what is said"], parts[replayed])}

## Two kernels, one truth

`assay.pair(case, a, b)`, outputs alone.

{markdown(["kernels", *about[1:3], "who is wrong"], parts[paired])}

## Chosen keys

{markdown([*about[:3], "error, planted or its own", "verdict", "tensors", "excess", "again", "what is said"], parts[chosen])}
"""


def started():
    if torch.cuda.is_available():
        tune_no_more()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", action="append", default=[], help="kernels whose names begin so")
    parser.add_argument("--jobs", type=int, default=6, help="processes at a time")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("questions_check.py: torch finds no GPU here; --device cpu asks what runs on a CPU")
    every = list(tasks(options.device, tuple(options.only or [""])))
    found, context = [], multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context, initializer=started) as pool:
        for (function, about), lines in zip(every, pool.map(done, [(*task, options.device) for task in every])):
            found.append((function, about, lines))
            for cells, good in lines:
                print(f"{'  ' if good else '! '}" + "  ".join(map(str, cells)), flush=True)
            if options.write:  # after each, for a machine may be lent for less time than this takes
                options.write.write_text(page(found, options.device))
    return 0 if found and all(good for _, _, lines in found for _, good in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
