from assay.language import cumsum, dot, iota, mechanism, scan, softmax, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", w="T K : key", beta="T", log_decay="T = 0", scale=RSQRT)
def path_attention(q, k, v, w, beta, log_decay, scale):
    """Softmax attention with positions by Householder steps: s_ij = k_j^T (prod_{s=j+1..i} (1 - beta_s w_s w_s^T)) q_i, plus forgetting.

    Yang et al., PaTH Attention, 2025, arXiv 2505.16381. The query goes back from its token, a reflection at each.
    """
    t, total = iota("T"), cumsum(log_decay)

    def row(_, q, i, c):
        def back(x, k, w, b, j):
            return where(j <= i, x - b * dot(w, x) * w, x), dot(k, x)

        s = scan(back, q, k, w, beta, t, reverse=True)[1]
        return None, softmax(scale * (s + c - total), t <= i) @ v

    return {"o": scan(row, None, q, t, total)[1]}
