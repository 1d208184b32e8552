"""Candidates for tasks of flashinfer-bench, KernelBench and SOL-ExecBench, in NumPy; each with one that is wrong."""
import ml_dtypes
import numpy as np
from kernels import attended, delta_rule

BF16 = ml_dtypes.bfloat16


def softmax_and_lse(q, k, v, scale, causal):
    """[..., T, d], and the logarithm of the sum of exponentials to the base 2, [..., T]."""
    o, lse, _ = attended(scale * (q @ k.swapaxes(-1, -2)), v, causal=causal)
    return o, (lse / np.log(2)).astype(np.float32)


def of_sequences(q, sequences, sm_scale, causal):
    """Attention of packed queries; of each sequence first and last query, keys [n, heads, d] and values."""
    o, lse = [], []
    for a, b, keys, values in sequences:
        group = q.shape[1] // keys.shape[1]
        keys, values = (np.repeat(x.astype(np.float32), group, 1).transpose(1, 0, 2) for x in (keys, values))
        found = softmax_and_lse(q[a:b].astype(np.float32).transpose(1, 0, 2), keys, values, sm_scale, causal)
        o.append(found[0].transpose(1, 0, 2)), lse.append(found[1].T)
    return np.concatenate(o).astype(BF16), np.concatenate(lse)


def ragged_attention(q, k, v, qo_indptr, kv_indptr, sm_scale):
    packed = [(a, b, k[c:d], v[c:d]) for a, b, c, d in zip(qo_indptr, qo_indptr[1:], kv_indptr, kv_indptr[1:])]
    return of_sequences(q, packed, sm_scale, True)


def rows_of(cache, pages, last):
    """The rows of these pages, the last one up to its length."""
    return np.concatenate([cache[p] for p in pages])[: (len(pages) - 1) * cache.shape[1] + last]


def paged_decode(q, k_cache, v_cache, kv_indptr, kv_indices, sm_scale):
    return paged_prefill(q, k_cache, v_cache, np.arange(len(q) + 1), kv_indptr, kv_indices, np.full(len(q), k_cache.shape[1]), sm_scale)


def paged_prefill(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, kv_last_page_len, sm_scale):
    found = []
    for n, last in enumerate(kv_last_page_len):
        pages = kv_indices[kv_indptr[n] : kv_indptr[n + 1]]
        found.append((qo_indptr[n], qo_indptr[n + 1], rows_of(k_cache, pages, last), rows_of(v_cache, pages, last)))
    return of_sequences(q, found, sm_scale, True)


def paged_prefill_wrong(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, kv_last_page_len, sm_scale):
    """Reads the rest of the last page."""
    return paged_prefill(q, k_cache, v_cache, qo_indptr, kv_indptr, kv_indices, 0 * kv_last_page_len + k_cache.shape[1], sm_scale)


def latent_prefill(q_nope, q_pe, ckv_cache, kpe_cache, qo_indptr, kv_indptr, kv_indices, sm_scale):
    q, cache = np.concatenate([q_nope, q_pe], -1), np.concatenate([ckv_cache, kpe_cache], -1)[:, :, None]
    full = np.full(len(qo_indptr) - 1, cache.shape[1])
    return paged_prefill(q, cache, cache[..., : q_nope.shape[-1]], qo_indptr, kv_indptr, kv_indices, full, sm_scale)


def latent_decode(q_nope, q_pe, ckv_cache, kpe_cache, kv_indptr, kv_indices, sm_scale):
    return latent_prefill(q_nope, q_pe, ckv_cache, kpe_cache, np.arange(len(q_nope) + 1), kv_indptr, kv_indices, sm_scale)


def latent_decode_wrong(*given):
    o, lse = latent_decode(*given)
    return o, lse * np.float32(np.log(2))


def sparse_attention(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale):
    q, rows = np.concatenate([q_nope, q_pe], -1), np.concatenate([ckv_cache, kpe_cache], -1)
    rows = rows.reshape(-1, 1, rows.shape[-1])
    chosen = [rows[line[line >= 0]] for line in sparse_indices]
    return of_sequences(q, [(t, t + 1, keys, keys[..., : q_nope.shape[-1]]) for t, keys in enumerate(chosen)], sm_scale, False)


def sparse_attention_wrong(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices, sm_scale):
    """An entry of -1 is the last row."""
    return sparse_attention(q_nope, q_pe, ckv_cache, kpe_cache, sparse_indices % (ckv_cache.shape[0] * ckv_cache.shape[1]), sm_scale)


def gdn_prefill_ready_made(q, k, v, state, g, beta, cu_seqlens, scale):
    o, states = np.empty(v.shape, BF16), []
    for n, (a, b) in enumerate(zip(cu_seqlens, cu_seqlens[1:])):
        rows = (x[None, a:b] for x in (q, k, v, beta))
        o[a:b], last = delta_rule(*rows, state[None, n].swapaxes(-1, -2), scale, np.log(g[None, a:b]))
        states.append(last[0].swapaxes(-1, -2))
    return o, np.stack(states)


def gates(A_log, a, dt_bias, b):
    a, dt_bias, b = (x.astype(np.float64) for x in (a, dt_bias, b))
    return np.exp(-np.exp(A_log.astype(np.float64)) * np.logaddexp(0, a + dt_bias)), (1 / (1 + np.exp(-b))).astype(np.float32)


def gdn_prefill(q, k, v, state, A_log, a, dt_bias, b, cu_seqlens, scale):
    return gdn_prefill_ready_made(q, k, v, state, *gates(A_log, a, dt_bias, b), cu_seqlens, scale)


def gdn_decode(q, k, v, state, A_log, a, dt_bias, b, scale):
    g, beta = gates(A_log, a, dt_bias, b)
    o, last = delta_rule(q, k, v, beta, state.swapaxes(-1, -2), scale, np.log(g))
    return o, np.ascontiguousarray(last.swapaxes(-1, -2))


def doubled(kernel):
    """Wrong in one output, by what the judge names without a long search."""
    return lambda *x: (lambda o, other: ((2 * o).astype(o.dtype), other))(*kernel(*x))


ragged_attention_wrong, gdn_prefill_ready_made_wrong, gdn_prefill_wrong = map(doubled, (ragged_attention, gdn_prefill_ready_made, gdn_prefill))


def gdn_decode_wrong(q, k, v, state, A_log, a, dt_bias, b, scale):
    o, last = gdn_decode(q, k, v, state, A_log, a, dt_bias, b, scale)
    return o, np.ascontiguousarray(last.swapaxes(-1, -2))


class Attention:
    def __call__(self, Q, K, V):
        return softmax_and_lse(Q, K, V, Q.shape[-1] ** -0.5, False)[0].astype(Q.dtype)


class AttentionWrong:
    def __call__(self, Q, K, V):
        return np.broadcast_to(V.mean(2, keepdims=True), V.shape).copy()


def scan(X, A, B, C, S):
    """Mamba-2's output and last state, [batch, heads, head_dim, state_size]."""
    Y, S = delta_rule(C, B, X, np.ones(X.shape[:3]), S.swapaxes(-1, -2), 1, A, predicts=lambda *_: 0, to=np.float32)
    return Y, S.swapaxes(-1, -2)


def chunk_scan(hidden_states, A, B, C, D, initial_states):
    """043_mamba_chunk_scan_with_segsum of SOL-ExecBench."""
    X, A, D = (x.astype(np.float32) for x in (hidden_states, A, D))
    Y, S = scan(X, A.swapaxes(1, 2), B, C, initial_states)
    return (Y + D[:, None] * X).reshape(*X.shape[:2], -1).astype(BF16), S.astype(BF16)


def chunk_scan_wrong(hidden_states, A, B, C, D, initial_states):
    """Lets a token's own decay wait for the next token."""
    return chunk_scan(hidden_states, np.concatenate([0 * A[..., :1], A[..., :-1]], -1), B, C, D, initial_states)


class Mamba:
    def __init__(self, batch, tokens, heads, head, state, block):
        self.A = np.zeros((batch, tokens, heads), np.float32)
        self.B, self.C = (np.zeros((batch, tokens, heads, state), np.float32) for _ in "BC")

    def both(self, X):
        return scan(X, self.A, self.B, self.C, np.zeros((*X.shape[:1], X.shape[2], X.shape[3], self.B.shape[3]), np.float32))


class MambaY(Mamba):
    __call__ = lambda self, X: self.both(X)[0]


class MambaState(Mamba):
    __call__ = lambda self, X: self.both(X)[1]


class MambaYWrong(Mamba):
    __call__ = lambda self, X: self.both(X)[0] * np.float32(1.001)


class MambaStateWrong(Mamba):
    def __call__(self, X):
        self.A = 0 * self.A
        return self.both(X)[1]


class Kda:
    """02_kda_cutlass of kernelbench.com."""

    def __init__(self, B, T, H, K, V, chunk_size=64):
        self.scale = K**-0.5

    def __call__(self, q, k, v, g, beta, **bug):
        state = np.zeros((*q.shape[:1], *q.shape[2:], v.shape[3]))
        return delta_rule(q, k, v, beta, state, self.scale, g, to=BF16, **bug)[0]


class KdaWrong(Kda):
    def __call__(self, *given):
        """Reads the state before it has decayed."""
        return super().__call__(*given, predicts=lambda key, S, decayed: key @ S)


class PagedDecode:
    """03_paged_attention of kernelbench.com: keys and values lie side by side."""

    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        self.page = page_size

    def __call__(self, query, kv_cache, block_table, seq_lens):
        k_cache, v_cache = np.split(kv_cache, 2, -1)
        counts = -(-seq_lens // self.page)
        indices = np.concatenate([row[:n] for row, n in zip(block_table, counts)])
        last = seq_lens - (counts - 1) * self.page
        starts = np.concatenate([[0], np.cumsum(counts)])
        return self.attend(query, k_cache, v_cache, np.arange(len(query) + 1), starts, indices, last, query.shape[-1] ** -0.5)[0]

    attend = staticmethod(paged_prefill)


class PagedDecodeWrong(PagedDecode):
    attend = staticmethod(paged_prefill_wrong)


class ChosenBlocks:
    """02_deepseek_nsa of kernelbench.com with three blocks of four keys, by the means of their scores, and a window of six."""

    size, most, window = 4, 3, 6

    def __init__(self, B, H, S, D):
        self.scale, self.t = D**-0.5, np.arange(S)

    def __call__(self, q, k, v):
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
        s, past = self.scale * (q @ k.swapaxes(-1, -2)), self.t <= self.t[:, None]
        member = (self.t[:, None] // self.size == np.arange(-(-len(self.t) // self.size))).astype(np.float32)
        count = past @ member
        score = np.where(count > 0, self.scores(np.where(past, s, 0) @ member / np.maximum(count, 1), count), -np.inf)
        chosen = np.zeros(score.shape, np.float32)
        np.put_along_axis(chosen, self.order(score)[..., : self.most], 1, -1)
        reads = past & ((chosen @ member.T > 0) | (self.t[:, None] - self.window < self.t))
        p = np.where(reads, np.exp(s), 0)
        return (p @ v / p.sum(-1, keepdims=True)).astype(BF16)

    def scores(self, means, count):
        return means

    def order(self, score):
        return np.argsort(-score, -1, kind="stable")


class ChosenBlocksBackwards(ChosenBlocks):
    """Of equal blocks the last."""

    def order(self, score):
        return score.shape[-1] - 1 - np.argsort(-score[..., ::-1], -1, kind="stable")


class ChosenBlocksWrong(ChosenBlocks):
    """Blocks of another size."""

    size, most = 6, 2


class ChosenBlocksPast(ChosenBlocks):
    """The query's own block is no candidate, and leaves its place to another."""

    def scores(self, means, count):
        return np.where(np.arange(count.shape[-1]) < self.t[:, None] // self.size, means, -np.inf)


class ChosenBlocksSum(ChosenBlocks):
    """Sums in place of means: blocks that are not whole are scored too low, or too high."""

    def scores(self, means, count):
        return means * count


class ChosenBlocksRounded(ChosenBlocks):
    """Scores are rounded before they are compared."""

    def scores(self, means, count):
        return means.astype(BF16).astype(np.float32)


class ChosenBlocksNarrow(ChosenBlocks):
    """A window of one token less."""

    window = 5
