from assay.language import dot, mechanism, outer, scan


@mechanism(q="T K", k="T K", v="T V", beta="T", initial_state="K V = 0", scale='param = 1 / sqrt(size("K"))')
def implicit_delta(q, k, v, beta, initial_state, scale):
    """S_t = argmin_S |S - S_{t-1}|^2 + beta_t |S^T k_t - v_t|^2, o_t = scale S_t^T q_t: a delta rule whose step is never too large.

    Liu et al., Longhorn, 2024, before its diagonal approximation.
    """

    def step(S, q, k, v, b):
        d = b / (1 + b * dot(k, k))
        S = S + outer(k, d * (v - k @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
