"""Kernels in NumPy with seeded bugs, and none."""
import numpy as np


def delta_rule(q, k, v, beta, initial_state, scale, log_decay=None, *, to=None, work=np.float32, tokens=None, forgets=lambda t: False,
               predicts=lambda key, S, decayed: key @ decayed, keep=lambda S: S):  # fmt: skip
    """The delta rule, decayed or not, token by token in `work`; outputs are `to` (as q), the state fp32. Bugs: the scale is forgotten, what
    the state predicts is another, the state does not stay what it is, or tokens behind the first so many are left out."""
    to = to or q.dtype
    q, k, v, beta, state = (np.array(x, work) for x in (q, k, v, beta, initial_state))
    o, group = np.zeros_like(v), v.shape[2] // k.shape[2]
    for b, h in np.ndindex(v.shape[0], v.shape[2]):
        S = state[b, h]
        for t in range(v.shape[1])[:tokens]:
            key = k[b, t, h // group]
            decayed = S if log_decay is None else np.exp(log_decay[b, t, h])[..., None] * S
            S[:] = keep(decayed + np.outer(key, beta[b, t, h] * (v[b, t, h] - predicts(key, S, decayed))))
            o[b, t, h] = (1 if forgets(t) else work(scale)) * (q[b, t, h // group] @ S)
    return o.astype(to), state.astype(np.float32)


def after(change):
    """The delta rule, and what `change` makes of its arguments, outputs and state."""
    return lambda **x: change(x, *delta_rule(**x))


def attended(scores, values, *, causal=True, sink=None):
    """Of scores [..., T, S] the softmax of each row times the values, the logarithm of its sum, [..., T], and the weights."""
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)  # there may be no rows
    p = np.exp(scores - top)
    total = p.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink - top))
    return p / total @ values, (top + np.log(total))[..., 0], p / total


def attention(q, k, v, scale, d_o=None):
    """Causal softmax attention of as many queries as keys, and its gradients if there is a cotangent; in fp64."""
    dtype = q.dtype
    q, k, v = (x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    o, _, p = attended(scale * q @ k.swapaxes(-1, -2), v)
    found = {"o": o}
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
