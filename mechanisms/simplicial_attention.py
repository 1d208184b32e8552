from assay.language import iota, logsumexp, mechanism, scan, softmax
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", k2="T K : key", v2="T V : value", scale=RSQRT)
def simplicial_attention(q, k, v, k2, v2, scale):
    """Softmax over pairs of keys: s_ijl = scale sum_c q_ic k_jc k2_lc, o_i = sum_jl p_ijl v_j * v2_l.

    Roy et al., Fast and Simplex: 2-Simplicial Attention, 2025, arXiv 2507.02754; p is a softmax over j times one over l.
    """
    t = iota("T")

    def row(_, q, i):
        s, both = scale * ((k * q) @ k2.T), (t <= i)[:, None] & (t <= i)
        p = softmax(logsumexp(s, both), t <= i)[:, None] * softmax(s, both)
        return None, (p @ v2 * v).sum(0)

    return {"o": scan(row, None, q, t)[1]}
