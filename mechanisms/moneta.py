from assay.language import mechanism, outer, scan, sqrt, zeros


@mechanism(q="T K", k="T K", v="T V", eta="T", alpha="T : decay_fraction")
def moneta(q, k, v, eta, alpha):
    """A_t = alpha A_{t-1} - eta dl, W_t = A_t / |A_t|_4^2, o_t = W_t q_t, with the loss l = |W k - v|_3^3: dl = 3 (e * |e|) k^T.

    Behrouz et al., It's All Connected (Miras), 2025, arXiv 2504.13173, with p = 3 and q = 4.
    """

    def step(state, q, k, v, eta, alpha):
        A, W = state
        e = W @ k - v
        A = alpha * A - eta * outer(3 * e * abs(e), k)
        W = A / sqrt((A**4).sum(-1).sum())
        return (A, W), W @ q

    (A, W), o = scan(step, (zeros("V", "K"), zeros("V", "K")), q, k, v, eta, alpha)
    return {"o": o, "final_state": A}
