from assay.language import const, iota, mechanism, round, scan, where, zeros


@mechanism(q="N {C} K", k="N {C} K", v="N {C} V", beta="N {C}", initial_state="K V = 0", scale='param = 1 / sqrt(size("K"))')
def implicit_delta_chunks(q, k, v, beta, initial_state, scale, C=16):
    """The implicit delta rule in chunks of C tokens: T = (1 + tril(d k k^T, -1))^-1, errors T d (v - k S), all at once."""
    before = iota(C) < iota(C)[:, None]

    def inverse(A):
        def row(X, a, r):
            here = iota(C) == r
            return where(here[:, None], where(here, const(1), const(0)) - a @ X, X), None

        return scan(row, zeros(C, C), A, iota(C))[0]

    def step(S, q, k, v, b):
        d = b / (1 + b * (k * k).sum(-1))
        T = round(inverse(where(before, d[:, None] * (k @ k.T), 0)), "Tc")
        error = round(T @ (d[:, None] * (v - k @ S)), "Uc")
        P = round(where(before.T, 0, q @ k.T), "P")
        return S + k.T @ error, scale * (q @ S + P @ error)

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
