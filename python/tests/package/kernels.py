"""Kernels in NumPy with seeded bugs, and none."""
import ml_dtypes
import numpy as np


def delta_rule(q, k, v, beta, initial_state, log_decay=None, scale=None, *, forgets=lambda t: False, to=ml_dtypes.bfloat16):
    """The delta rule, decayed or not, token by token in fp32."""
    q, k, v, beta, state = (x.astype(np.float32) for x in (q, k, v, beta, initial_state))
    group = v.shape[2] // k.shape[2]
    o = np.empty_like(v)
    for b, h in np.ndindex(v.shape[0], v.shape[2]):
        S = state[b, h]
        for t in range(v.shape[1]):
            key = k[b, t, h // group]
            if log_decay is not None:
                S *= np.exp(log_decay[b, t, h])
            S += np.outer(key, beta[b, t, h] * (v[b, t, h] - key @ S))
            o[b, t, h] = (1 if forgets(t) else np.float32(scale)) * (q[b, t, h // group] @ S)
    return o.astype(to), state


def attention(q, k, v, scale, d_o=None):
    """Causal softmax attention of as many queries as keys, and its gradients if there is a cotangent; in fp64."""
    dtype = q.dtype
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = scale * q @ k.swapaxes(-1, -2)
    scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    found = {"o": p @ v}
    if d_o is not None:
        d_o = d_o.astype(np.float64).transpose(0, 2, 1, 3)
        dp = d_o @ v.swapaxes(-1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True))
        found |= {"d_q": scale * ds @ k, "d_k": scale * ds.swapaxes(-1, -2) @ q, "d_v": p.swapaxes(-1, -2) @ d_o}
    return {name: x.transpose(0, 2, 1, 3).astype(dtype) for name, x in found.items()}


def kda_in_chunks(q, k, v, beta, log_decay, initial_state, scale, *, chunk=32, leaks=0.0):
    """KDA in chunks, in fp32: decays as ratios of running sums, the triangular system by substitution."""
    o, state = np.zeros(v.shape, np.float32), initial_state.copy()
    group = v.shape[2] // k.shape[2]
    for b, h in np.ndindex(v.shape[0], v.shape[2]):
        S = state[b, h]
        for first in range(0, v.shape[1], chunk):
            rows = slice(first, first + chunk)
            gate = log_decay[b, rows, h if log_decay.shape[2] == v.shape[2] else h // group]
            c, K, Q = np.cumsum(gate, 0, dtype=np.float32), k[b, rows, h // group], q[b, rows, h // group]
            ratio = np.exp(np.minimum(c[:, None] - c, 0))
            A = beta[b, rows, h, None] * np.einsum("ix,jx,ijx->ij", K, K, ratio)
            U = beta[b, rows, h, None] * (v[b, rows, h] - (K * np.exp(c)) @ S)
            for i in range(len(U)):
                U[i] -= A[i, :i] @ U[:i]
            o[b, rows, h] = np.float32(scale) * ((Q * np.exp(c)) @ S + np.tril(np.einsum("ix,jx,ijx->ij", Q, K, ratio)) @ U)
            S[:] = np.exp(c[-1] - np.float32(leaks))[:, None] * S + (K * np.exp(c[-1] - c)).T @ U
    return o, state
