from assay.language import cumsum, exp, iota, mechanism, scan, softmax, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", log_decay="T K", scale=RSQRT, window='int = size("T")')
def wall_attention(q, k, v, log_decay, scale, window):
    """Softmax attention with a decay for every channel inside of the score: s_ij = scale sum_c q_ic k_jc e^{decays of c over j+1..i}.

    Tilde Research, Wall attention, 2026 (blog.tilderesearch.com/blog/wall-attn), as flash-linear-attention has it.
    """
    t, total = iota("T"), cumsum(log_decay)

    def row(_, q, i, c):
        seen = (t <= i) & (i - window < t)
        s = (k * exp(where(seen[:, None], c - total, 0))) @ q
        return None, softmax(scale * s, seen) @ v

    return {"o": scan(row, None, q, t, total)[1]}
