"""DeltaNet's forward in numpy, token by token, as a kernel under test: python deltanet.py CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def answer(path, out):
    case = {name: x.astype(numpy.float32) for name, x in load_file(path).items()}
    with safe_open(path, "numpy") as file:
        scale = numpy.float32(json.loads(file.metadata()["params"])["scale"])

    q, k, v, beta = case["q"], case["k"], case["v"], case["beta"]
    group = v.shape[2] // k.shape[2]
    state = case["initial_state"].copy()
    o = numpy.empty_like(v)
    for b, h in numpy.ndindex(v.shape[0], v.shape[2]):
        S = state[b, h]
        for t in range(v.shape[1]):
            key = k[b, t, h // group]
            S += numpy.outer(key, beta[b, t, h] * (v[b, t, h] - key @ S))
            o[b, t, h] = scale * (q[b, t, h // group] @ S)

    save_file({"o": o.astype(ml_dtypes.bfloat16), "final_state": state.astype(ml_dtypes.bfloat16)}, out)


if __name__ == "__main__":
    answer(*sys.argv[1:])
