"""Candidates for tasks of flashinfer-bench and KernelBench, in NumPy; each with one that is wrong."""
import ml_dtypes
import numpy as np
from kernels import delta_rule

BF16 = ml_dtypes.bfloat16


def softmax(q, k, v, scale, causal):
    """[..., T, d]"""
    scores = scale * (q @ k.swapaxes(-1, -2))
    if causal:
        scores = np.where(np.tri(scores.shape[-2], scores.shape[-1], scores.shape[-1] - scores.shape[-2], dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v


def ragged_attention(q, k, v, qo_indptr, kv_indptr, sm_scale):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    o, group = np.empty_like(q), q.shape[1] // k.shape[1]
    for a, b, c, d in zip(qo_indptr, qo_indptr[1:], kv_indptr, kv_indptr[1:]):
        keys, values = (np.repeat(x[c:d], group, 1).transpose(1, 0, 2) for x in (k, v))
        o[a:b] = softmax(q[a:b].transpose(1, 0, 2), keys, values, sm_scale, True).transpose(1, 0, 2)
    return o.astype(BF16), np.zeros(o.shape[:2], np.float32)


def ragged_attention_wrong(q, k, v, qo_indptr, kv_indptr, sm_scale):
    return ragged_attention(q, k, v, qo_indptr, kv_indptr, 2 * sm_scale)


def gdn_prefill_ready_made(q, k, v, state, g, beta, cu_seqlens, scale):
    o, states = np.empty(v.shape, BF16), []
    for n, (a, b) in enumerate(zip(cu_seqlens, cu_seqlens[1:])):
        rows = (x[None, a:b] for x in (q, k, v, beta))
        o[a:b], last = delta_rule(*rows, state[None, n].swapaxes(-1, -2), np.log(g[None, a:b]), scale)
        states.append(last[0].swapaxes(-1, -2))
    return o, np.stack(states)


def gates(A_log, a, dt_bias, b):
    a, dt_bias, b = (x.astype(np.float64) for x in (a, dt_bias, b))
    return np.exp(-np.exp(A_log.astype(np.float64)) * np.logaddexp(0, a + dt_bias)), (1 / (1 + np.exp(-b))).astype(np.float32)


def gdn_prefill(q, k, v, state, A_log, a, dt_bias, b, cu_seqlens, scale):
    return gdn_prefill_ready_made(q, k, v, state, *gates(A_log, a, dt_bias, b), cu_seqlens, scale)


def gdn_decode(q, k, v, state, A_log, a, dt_bias, b, scale):
    g, beta = gates(A_log, a, dt_bias, b)
    o, last = delta_rule(q, k, v, beta, state.swapaxes(-1, -2), np.log(g), scale)
    return o, np.ascontiguousarray(last.swapaxes(-1, -2))


def gdn_prefill_ready_made_wrong(q, k, v, state, g, beta, cu_seqlens, scale):
    return gdn_prefill_ready_made(q, k, v, state, np.exp(g), beta, cu_seqlens, scale)


def gdn_prefill_wrong(q, k, v, state, A_log, a, dt_bias, b, cu_seqlens, scale):
    return gdn_prefill(q, k, v, state, A_log, a, 0 * dt_bias, b, cu_seqlens, scale)


def gdn_decode_wrong(q, k, v, state, A_log, a, dt_bias, b, scale):
    o, last = gdn_decode(q, k, v, state, A_log, a, dt_bias, b, scale)
    return o, np.ascontiguousarray(last.swapaxes(-1, -2))


class Attention:
    def __call__(self, Q, K, V):
        return softmax(Q, K, V, Q.shape[-1] ** -0.5, False).astype(Q.dtype)


class AttentionWrong:
    def __call__(self, Q, K, V):
        return np.broadcast_to(V.mean(2, keepdims=True), V.shape).copy()


class Mamba:
    def __init__(self, batch, tokens, heads, head, state, block):
        self.A = np.zeros((batch, tokens, heads), np.float32)
        self.B, self.C = (np.zeros((batch, tokens, heads, state), np.float32) for _ in "BC")

    def both(self, X):
        S = np.zeros((*X.shape[:1], X.shape[2], X.shape[3], self.B.shape[3]), np.float32)
        Y = np.empty_like(X)
        for t in range(X.shape[1]):
            S = np.exp(self.A[:, t])[..., None, None] * S + X[:, t, :, :, None] * self.B[:, t, :, None, :]
            Y[:, t] = np.einsum("bhpn,bhn->bhp", S, self.C[:, t])
        return Y, S


class MambaY(Mamba):
    def __call__(self, X):
        return self.both(X)[0]


class MambaState(Mamba):
    def __call__(self, X):
        return self.both(X)[1]


class MambaYWrong(Mamba):
    def __call__(self, X):
        return self.both(X)[0] * np.float32(1.001)


class MambaStateWrong(Mamba):
    def __call__(self, X):
        self.A = 0 * self.A
        return self.both(X)[1]
