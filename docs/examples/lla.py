"""Local linear attention in numpy, query by query, forward and backward, as a kernel under test: python lla.py CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

case = {name: x.astype(numpy.float64) for name, x in load_file(sys.argv[1]).items()}
with safe_open(sys.argv[1], "numpy") as file:
    bandwidth = float(json.loads(file.metadata()["params"])["bandwidth"])
q, k, v, d_o = case["q"], case["k"], case["v"], case["d_o"]
group = q.shape[2] // k.shape[2]
ridge = case["lambda"]  # in units of the mass of the weights
if ridge.ndim != 2:
    sys.exit("this kernel takes one lambda for every head")
o, d_q, d_k, d_v = numpy.empty_like(d_o), numpy.empty_like(q), numpy.zeros_like(k), numpy.zeros_like(v)
d_lambda, d_bandwidth = numpy.zeros_like(ridge), numpy.zeros(())

for b, i, h in numpy.ndindex(q.shape[:3]):
    kv, n = h // group, k.shape[1] - q.shape[1] + i + 1
    K, V, query, g = k[b, :n, kv], v[b, :n, kv], q[b, i, h], d_o[b, i, h]
    score = K @ query / bandwidth
    p = numpy.exp(score - score.max())
    p /= p.sum()
    mean_k, mean_v = p @ K, p @ V
    keys, values = K - mean_k, V - mean_v
    system = keys.T @ (p[:, None] * keys) + ridge[b, h] * numpy.eye(len(query))
    offset = mean_k - query
    covariance = values.T @ (p[:, None] * keys)
    y = numpy.linalg.solve(system, offset)
    o[b, i, h] = mean_v - covariance @ y

    x = numpy.linalg.solve(system, -covariance.T @ g)
    along, along_x, along_y = values @ g, keys @ x, keys @ y
    D = p * (V @ g - g @ o[b, i, h] - along_y * along + along_x - along_x * along_y + x @ offset)
    d_ridge = -(x @ y)
    d_q[b, i, h] = D @ K / bandwidth - x
    d_k[b, :n, kv] += numpy.outer(D, query) / bandwidth + p[:, None] * (
        x - numpy.outer(along, y) - numpy.outer(along_y, x) - numpy.outer(along_x, y)
    )
    d_v[b, :n, kv] += numpy.outer(p * (1 - along_y), g)
    d_lambda[b, h] += d_ridge
    d_bandwidth -= D @ score / bandwidth

answer = {name: x.astype(ml_dtypes.bfloat16) for name, x in (("o", o), ("d_q", d_q), ("d_k", d_k), ("d_v", d_v))}
save_file({**answer, "d_lambda": d_lambda, "d_bandwidth": d_bandwidth}, sys.argv[2])
