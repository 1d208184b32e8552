from assay.language import exp, iota, maximum, mechanism, scan, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", scale=RSQRT, eps="param = 1e-6")
def softpick_attention(q, k, v, scale, eps):
    """o_i = sum_j relu(e^{x_ij} - 1) v_j / (sum_j |e^{x_ij} - 1| + eps), x_ij = scale q_i.k_j, j <= i.

    Zuhri, Fuadi and Aji, Softpick: No Attention Sink, No Massive Activations with Rectified Softmax, 2025, arXiv 2504.20966.
    """

    def row(_, q, i):
        e = where(iota("T") <= i, exp(scale * (k @ q)) - 1, 0)
        return None, (maximum(e, 0) / (abs(e).sum() + eps)) @ v

    return {"o": scan(row, None, q, iota("T"))[1]}
