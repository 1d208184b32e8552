"""The implicit delta rule's forward in numpy, in chunks of 64 tokens and fp32, as a kernel under test: python ... CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

case = {name: x.astype(numpy.float32) for name, x in load_file(sys.argv[1]).items()}
with safe_open(sys.argv[1], "numpy") as file:
    params = json.loads(file.metadata()["params"])
scale = numpy.float32(params.get("scale", case["q"].shape[-1] ** -0.5))
state, o = case["initial_state"].copy(), numpy.empty_like(case["v"])
for b, h in numpy.ndindex(o.shape[0], o.shape[2]):
    S = state[b, h]
    for start in range(0, o.shape[1], 64):
        q, k, v, beta = (case[name][b, start : start + 64, h] for name in ("q", "k", "v", "beta"))
        d = beta / (1 + beta * (k * k).sum(-1))
        system = numpy.eye(len(k), dtype=k.dtype) + numpy.tril(d[:, None] * (k @ k.T), -1)
        error = numpy.linalg.solve(system, d[:, None] * (v - k @ S))
        o[b, start : start + 64, h] = scale * (q @ S + numpy.tril(q @ k.T, -1) @ error)
        S += k.T @ error
save_file({"o": o.astype(ml_dtypes.bfloat16), "final_state": state}, sys.argv[2])
