from assay.language import mechanism, round, scan, where
from chunks import RSQRT, STATE, before, unit_lower_inverse


@mechanism(q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", initial_state=STATE, scale=RSQRT)
def deltanet_chunks(q, k, v, beta, initial_state, scale, chunk=(16, 32, 64)):
    """The delta rule in chunks: T = (1 + tril(beta k k^T, -1))^-1, W = T beta k, U = T beta v, S <- S + k^T (U - W S).

    Every operand of a product is rounded, the state that is carried is not, as flash-linear-attention's kernels have it.
    Yang et al., Parallelizing Linear Transformers with the Delta Rule, 2024, equations (8) to (11).
    """
    strict = before(chunk)

    def step(S, q, k, v, b):
        T = round(unit_lower_inverse(where(strict, b[:, None] * (k @ k.T), 0), chunk), "Tc")
        W, U = round(T @ round(b[:, None] * k, "bK"), "Wc"), round(T @ round(b[:, None] * v, "bV"), "bU")
        Sc = round(S, "Sc")
        new = round(U - W @ Sc, "Uc")
        P = round(where(strict.T, 0, q @ k.T), "P")
        o = scale * (q @ Sc + P @ new)
        return S + k.T @ new, o

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
