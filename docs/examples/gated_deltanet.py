"""Gated DeltaNet's forward in numpy: packed sequences, V-first states, raw gates, normalised keys: python gated_deltanet.py CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def unit(x, params):
    return x / numpy.sqrt(x @ x + float(params["l2_eps"])) if "l2_norm" in params else x


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def answer(path, out):
    case = {name: x if x.dtype.kind in "ib" else x.astype(numpy.float32) for name, x in load_file(path).items()}
    with safe_open(path, "numpy") as file:
        params = json.loads(file.metadata()["params"])
    q, k, v = case["q"], case["k"], case["v"]
    B, T, H = v.shape[:3]
    group, scale = H // k.shape[2], float(params.get("scale", q.shape[3] ** -0.5))
    starts = case.get("cu_seqlens")
    sequences = [(b, 0, T) for b in range(B)] if starts is None else [(0, a, e) for a, e in zip(starts, starts[1:])]
    turned = params.get("state_layout") == "v_first"
    state = case["initial_state"].copy()
    o = numpy.zeros(v.shape, numpy.float32)
    for n, (b, first, end) in enumerate(sequences):
        for h in range(H):
            S = state[n, h].T if turned else state[n, h]
            for t in range(first, end):
                key, query = unit(k[b, t, h // group], params), unit(q[b, t, h // group], params)
                beta = float(params.get("beta_scale", 1)) * sigmoid(case["b"][b, t, h]) if "b" in case else case["beta"][b, t, h]
                if "a" in case:
                    gate = -numpy.exp(case["a_log"][h]) * numpy.logaddexp(0, case["a"][b, t, h] + case["dt_bias"][h])
                else:
                    gate = case["log_decay"][b, t, h]
                S *= numpy.exp(gate)
                S += numpy.outer(key, beta * (v[b, t, h] - key @ S))
                o[b, t, h] = scale * (query @ S)
    save_file({"o": o.astype(ml_dtypes.bfloat16), "final_state": state}, out)


if __name__ == "__main__":
    answer(*sys.argv[1:])
