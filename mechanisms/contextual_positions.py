from assay.language import cumsum, iota, maximum, mechanism, minimum, scan, sigmoid, size, softmax, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", e="P K : weight", scale=RSQRT)
def contextual_positions(q, k, v, e, scale):
    """Softmax attention with positions that count what gates let through: p_ij = sum_{j<=l<=i} sigmoid(q_i.k_l), s_ij + q_i.e[p_ij].

    Golovneva et al., Contextual Position Encoding, 2024, arXiv 2405.18719; between whole positions e is interpolated.
    """
    t = iota("T")

    def row(_, q, i):
        s = k @ q
        p = minimum(cumsum(where(t <= i, sigmoid(s), 0), reverse=True), size("P") - 1)
        near = maximum(1 - abs(p[:, None] - iota("P")), 0)
        return None, softmax(scale * s + near @ (e @ q), t <= i) @ v

    return {"o": scan(row, None, q, t)[1]}
