from assay.language import cumsum, iota, mechanism, scan, softmax
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", log_decay="T", scale=RSQRT)
def forgetting_attention(q, k, v, log_decay, scale):
    """FoX: o_i = sum_j softmax_j(scale q_i.k_j + sum of log f over j+1..i) v_j over j <= i.

    Lin et al., Forgetting Transformer, 2025, arXiv 2503.02130, equation (6), f = exp(log_decay). Closed gates (-inf) have no such sum.
    """
    total, j = cumsum(log_decay), iota("T")

    def row(_, q, c, i):
        return None, softmax(scale * (k @ q) + c - total, j <= i) @ v

    return {"o": scan(row, None, q, total, j)[1]}
