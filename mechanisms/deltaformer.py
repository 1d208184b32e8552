from assay.language import iota, mechanism, scan, softmax, where, zeros
from common import RSQRT


@mechanism(q="T K", k="T K", w="T K : key", v="T V", beta="T", scale=RSQRT)
def deltaformer(q, k, w, v, beta, scale):
    """u_i = v_i - beta_i sum_{j<i} softmax_j(scale w_i.k_j) u_j, then softmax attention over u: a delta rule with softmax for its kernel.

    Zhong et al., Understanding Transformer from the Perspective of Associative Memory (DeltaFormer), 2025, arXiv 2505.19488.
    """
    t = iota("T")

    def step(U, q, w, v, b, i):
        u = v - b * (softmax(scale * (k @ w), t < i) @ U)
        U = where((t == i)[:, None], u, U)
        return U, softmax(scale * (k @ q), t <= i) @ U

    return {"o": scan(step, zeros("T", "V"), q, w, v, beta, t)[1]}
