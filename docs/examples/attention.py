"""Softmax attention's forward in numpy with what kernels take beside q, k and v: python attention.py CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def scores(case, params, n, h, i, Tq, Tk, q, k):
    """s_ij of one row, -inf where it sees nothing."""
    c, j = i + Tk - Tq, numpy.arange(Tk)
    if params.get("causal_align") == "start":
        c = i
    s = float(params.get("scale", 1 / float(params.get("bandwidth", 1)))) * (k @ q)
    if "soft_cap" in params:
        cap = float(params["soft_cap"])
        s = cap * numpy.tanh(s / cap)
    if "bias" in case:
        s = s + case["bias"][h, i, :Tk]
    if "alibi_slopes" in case:
        s = s - case["alibi_slopes"][h] * abs(c - j)
    visible = j <= c if params.get("causal", True) else j >= 0
    if "window_left" in params:
        visible = visible & (j >= c - params["window_left"])
    if "mask" in case:
        visible = visible & case["mask"][i].astype(bool)
    if "documents_q" in case:
        visible = visible & (case["documents_q"][i] == case.get("documents_k", case["documents_q"]))
    if "topk_indices" in case:
        lists = case["topk_indices"][n, i]
        entries = lists[h * len(lists) // case["q"].shape[2]]
        length = case["topk_length"][n, i] if "topk_length" in case else len(entries)
        visible = visible & numpy.isin(j, entries[:length])
    return numpy.where(visible, s, -numpy.inf)


def dequantised(case, params, x):
    """Queries, keys or values times their scales, each of a token or of some channels of it."""
    if f"{x}_scale" not in case:
        return case[x]
    scale, pages = case[f"{x}_scale"], "page_table" in case and x != "q"
    if pages:
        scale = scale.swapaxes(1, 2)  # [pages, H, S, ...]
    if scale.ndim == (3 if pages else 2):
        scale = scale[..., None]
    if x == "v" and params.get("scale_layout") == "swizzled_4x4":
        *outer, T, n = scale.shape
        scale = numpy.moveaxis(scale.reshape(*outer, T // 4, 4, n // 4, 4), -1, -3).reshape(*outer, T, n)
    scale = numpy.repeat(scale, case[x].shape[-1] // scale.shape[-1], -1)
    return case[x] * (scale.swapaxes(1, 2) if pages else scale.swapaxes(0, 1).reshape(case[x].shape))


def keys_of(case, n, Tk):
    """Keys and values of sequence n, from their pages where there are some."""
    if "page_table" not in case:
        return case["k"][n, :Tk], case["v"][n, :Tk]
    S = case["k"].shape[1]
    slots = [(case["page_table"][n, j // S], j % S) for j in range(Tk)]
    return tuple(numpy.array([case[x][slot] for slot in slots]).reshape(Tk, *case[x].shape[2:]) for x in "kv")


def sequences(case):
    """n, b, first query, first key, and how many there are of both."""
    if "cu_seqlens" in case:
        for n, (first, end) in enumerate(zip(case["cu_seqlens"], case["cu_seqlens"][1:])):
            yield n, 0, first, first, end - first, end - first
        return
    B, T = case["q"].shape[:2]
    for b in range(B):
        lengths = case.get("lengths_k", [case["k"].shape[1]] * B)
        yield b, b, 0, 0, T, lengths[b]


def answer(path, out):
    case = {name: x if x.dtype.kind in "ib" else x.astype(numpy.float32) for name, x in load_file(path).items()}
    with safe_open(path, "numpy") as file:
        params = json.loads(file.metadata()["params"])
    case.update({x: dequantised(case, params, x) for x in "qkv"})
    q, heads = case["q"], case["q"].shape[2]
    o = numpy.zeros((*q.shape[:3], case["v"].shape[-1]), numpy.float32)
    lse = numpy.zeros(q.shape[:3], numpy.float32)
    for n, b, first, first_key, Tq, Tk in sequences(case):
        k, v = keys_of(case, n, Tk) if "cu_seqlens" not in case else (case["k"][0, first_key:], case["v"][0, first_key:])
        k, v = k[:Tk], v[:Tk]
        group = heads // k.shape[1]
        for h, i in numpy.ndindex(heads, int(Tq)):
            s = scores(case, params, n, h, i, Tq, Tk, q[b, first + i, h], k[:, h // group])
            if "sink" in case:
                s = numpy.append(s, case["sink"][h])
            most = s.max(initial=-numpy.inf)
            total = numpy.exp(s - most).sum() if most > -numpy.inf else 0
            lse[b, first + i, h] = most + numpy.log(total) if total > 0 else -numpy.inf
            if total > 0:
                p = numpy.exp(s[:Tk] - most) / total
                values = v[:, h // group]
                if "topk_indices" in case:  # what nobody chose may be NaN
                    values = numpy.where(p[:, None] > 0, values, 0)
                o[b, first + i, h] = p @ values
    save_file({"o": o.astype(ml_dtypes.bfloat16), "lse": lse}, out)


if __name__ == "__main__":
    answer(*sys.argv[1:])
