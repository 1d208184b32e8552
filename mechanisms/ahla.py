from assay.language import dot, mechanism, outer, scan, zeros


@mechanism(q="T K", k="T K", v="T V", eps="param = 0")
def ahla(q, k, v, eps, normalization=("none", "linear")):
    """o_t = E_t^T q_t, P_t = P_{t-1} + k_t v_t^T, E_t = E_{t-1} + k_t (P_t^T q_t)^T: asymmetric second-order linear attention.

    The causal weights W = L * (Q K^T) twice in a row, o = W W V; with normalization over W W's row sums + eps. Zhang, Qin, Gu,
    Higher-order Linear Attention, 2025, arXiv 2510.27258, theorem 6.1, without decay.
    """

    def step(state, q, k, v):
        P, E, *sums = state
        P = P + outer(k, v)
        E = E + outer(k, q @ P)
        o = q @ E
        if normalization == "linear":
            m, n = sums
            m = m + k
            n = n + dot(q, m) * k
            o, sums = o / (dot(q, n) + eps), (m, n)
        return (P, E, *sums), o

    start = zeros("K", "V"), zeros("K", "V"), *([zeros("K"), zeros("K")] if normalization == "linear" else [])
    return {"o": scan(step, start, q, k, v)[1]}
