from assay.language import dot, mechanism, outer, scan, zeros


@mechanism(q="T K", k="T K", v="T V", eps="param = 0")
def hla(q, k, v, eps, normalization=("none", "linear")):
    """o_t = q_t^T (S_t C_t - G_t), S_t = sum k k^T, C_t = sum q v^T, G_t = G_{t-1} + k_t k_t^T C_{t-1}: second-order attention.

    The causal weights W = L * (Q K^T) taken twice, o = ((W W^T) * L) V; with normalization over W W^T's row sums + eps. Zhang, Qin, Gu,
    Higher-order Linear Attention, 2025, arXiv 2510.27258, theorem 3.1, equations (3.3) and (3.4), without decay or ridge.
    """

    def step(state, q, k, v):
        S, C, G, *sums = state
        S, G, C = S + outer(k, k), G + outer(k, k @ C), C + outer(q, v)
        u = q @ S
        o = u @ C - q @ G
        if normalization == "linear":
            m, h = sums
            h, m = h + dot(k, m) * k, m + q
            o, sums = o / (dot(u, m) - dot(q, h) + eps), (m, h)
        return (S, C, G, *sums), o

    start = zeros("K", "K"), zeros("K", "V"), zeros("K", "V"), *([zeros("K"), zeros("K")] if normalization == "linear" else [])
    return {"o": scan(step, start, q, k, v)[1]}
