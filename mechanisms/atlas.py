from assay.language import const, mechanism, outer, scan, shift, sqrt, zeros


@mechanism(q="T K", k="T K", v="T V", eta="T", theta="T : decay_fraction", alpha="T : decay_fraction", gamma="T {window} : gain")
def atlas(q, k, v, eta, theta, alpha, gamma, window=3, iterations=2):
    """M_t = theta M_{t-1} + sum_{n<window} gamma_tn (W k_{t-n} - v_{t-n}) k_{t-n}^T, W_t = alpha W_{t-1} - eta NS(M_t), o_t = W_t q_t.

    Behrouz et al., ATLAS, 2025, arXiv 2505.23735: the Omega rule over a window with Muon's step, NS iterating 3.4445 X - 4.775 XX'X +
    2.0315 (XX')^2 X.
    """

    def orthogonal(G):
        X, (a, b, c) = G / (sqrt((G * G).sum(-1).sum()) + const("1e-7")), map(const, ("3.4445", "-4.775", "2.0315"))
        for _ in range(iterations):
            A = X @ X.T
            X = a * X + (b * A + c * (A @ A)) @ X
        return X

    def step(state, q, eta, theta, alpha, gamma, *past):
        W, M = state
        M = theta * M + sum(gamma[n] * outer(W @ k - v, k) for n, k, v in zip(range(window), past, past[window:]))
        W = alpha * W - eta * orthogonal(M)
        return (W, M), W @ q

    past = [shift(x, n) for x in (k, v) for n in range(window)]
    (W, M), o = scan(step, (zeros("V", "K"), zeros("V", "K")), q, eta, theta, alpha, gamma, *past)
    return {"o": o, "final_state": W, "final_momentum": M}
