"""Momentum DeltaNet's forward in numpy, in chunks of 64 tokens and fp32, as a kernel under test: python mdn.py CASE OUT"""
import json
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def log_domain_weights(log_alpha, log_mu, beta):
    """MDN (9)-(13): what the write of token j weighs after token i, and what the momentum before the chunk does."""
    la, lm = numpy.cumsum(log_alpha), numpy.cumsum(log_mu)
    lc = numpy.logaddexp.accumulate(numpy.log(beta) + lm - la)
    earlier = numpy.append(numpy.float32(-numpy.inf), lc[:-1])
    weights = numpy.exp(la[:, None] - lm + lc[:, None]) * (1 - numpy.exp(earlier - lc[:, None]))
    return numpy.tril(weights), numpy.exp(la + lc)


def linear_weights(log_alpha, log_mu, beta):
    """The same by their recurrence: no logarithm, no quotient, no difference."""
    alpha, mu = numpy.exp(log_alpha), numpy.exp(log_mu)
    weights, of_momentum = numpy.zeros((len(beta), len(beta)), beta.dtype), numpy.zeros_like(beta)
    for i in range(len(beta)):
        decay = numpy.append(numpy.cumprod(mu[i:0:-1])[::-1], numpy.float32(1))  # of the momentum, from token j to i
        weights[i] = alpha[i] * weights[i - 1]
        weights[i, : i + 1] += beta[i] * decay
        of_momentum[i] = alpha[i] * of_momentum[i - 1] + beta[i] * decay[0] * mu[0]
    return weights, of_momentum


chunk_weights = log_domain_weights

case = {name: x.astype(numpy.float32) for name, x in load_file(sys.argv[1]).items()}
with safe_open(sys.argv[1], "numpy") as file:
    scale = numpy.float32(json.loads(file.metadata()["params"])["scale"])
group = case["v"].shape[2] // case["k"].shape[2]
state, momentum = case["initial_state"].copy(), case["initial_momentum"].copy()
o = numpy.empty_like(case["v"])


def before(rows, first):
    """Row i is what held before token i."""
    return numpy.concatenate([numpy.full_like(rows[:1], first), rows[:-1]])


for b, h in numpy.ndindex(o.shape[0], o.shape[2]):
    S, M = state[b, h], momentum[b, h]
    for start in range(0, o.shape[1], 64):
        q, k, p = (case[name][b, start : start + 64, h // group] for name in ("q", "k", "p"))
        v, log_alpha, log_mu, beta, eta = (
            case[name][b, start : start + 64, h] for name in ("v", "log_alpha", "log_mu", "beta", "eta")
        )
        Gamma, of_M = chunk_weights(log_alpha, log_mu, beta)
        of_S, lm = numpy.exp(numpy.cumsum(log_alpha)), numpy.cumsum(log_mu)
        system = numpy.eye(len(v), dtype=v.dtype) + numpy.tril(p @ k.T, -1) * before(Gamma, 0) * eta
        read = before(of_S, 1)[:, None] * (p @ S) - before(of_M, 0)[:, None] * (p @ M)
        error = numpy.linalg.solve(system, v - read)
        written = numpy.tril(q @ k.T) * Gamma * eta
        o[b, start : start + 64, h] = scale * (of_S[:, None] * (q @ S) - of_M[:, None] * (q @ M) + written @ error)
        S[:] = of_S[-1] * S - of_M[-1] * M + k.T @ ((eta * Gamma[-1])[:, None] * error)
        M[:] = numpy.exp(lm[-1]) * M - k.T @ ((eta * numpy.exp(lm[-1] - lm))[:, None] * error)

save_file({"o": o.astype(ml_dtypes.bfloat16), "final_state": state, "final_momentum": momentum}, sys.argv[2])
