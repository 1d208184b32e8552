from assay.language import cumsum, exp, iota, mechanism, scan, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", log_decay="T = 0", scale=RSQRT, eps="param = 0")
def power_attention(q, k, v, log_decay, scale, eps, power=2):
    """Linear attention whose weights are an even power: w_ij = (scale q_i.k_j)^p e^{decays over j+1..i}, over their sum.

    Gelada et al., Scaling Context Requires Rethinking Attention, 2025, arXiv 2507.04239; with p = 2 and no decay ReBased, Aksenov et
    al., 2024, arXiv 2402.10644.
    """
    t, total = iota("T"), cumsum(log_decay)

    def row(_, q, i, c):
        w = where(t <= i, (scale * (k @ q)) ** power * exp(where(t <= i, c - total, 0)), 0)
        return None, w @ v / (w.sum() + eps)

    return {"o": scan(row, None, q, t, total)[1]}
