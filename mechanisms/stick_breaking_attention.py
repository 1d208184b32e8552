from assay.language import cumsum, exp, iota, mechanism, scan, softplus, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", scale=RSQRT)
def stick_breaking_attention(q, k, v, scale):
    """A_ij = sigmoid(s_ij) prod_{j<l<i} (1 - sigmoid(s_il)) over j < i: the nearest key takes its part first. Rest: what is left.

    Tan et al., Scaling Stick-Breaking Attention, 2024, arXiv 2410.17980, in logarithms: log sigmoid(s) = -softplus(-s).
    """
    t = iota("T")

    def row(_, q, i):
        s = scale * (k @ q)
        keep = where(t < i, -softplus(s), 0)
        a = where(t < i, exp(cumsum(keep, reverse=True) - keep - softplus(-s)), 0)
        return None, (a @ v, exp(keep.sum()))

    o, rest = scan(row, None, q, t)[1]
    return {"o": o, "rest": rest}
