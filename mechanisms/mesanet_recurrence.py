from assay.language import dot, mechanism, outer, scan, zeros
from common import diagonal


@mechanism(q="T K", k="T K", v="T V", lam="")
def mesanet_recurrence(q, k, v, lam):
    """MesaNet with one ridge, without an inverse: o_i = S_i P_i q_i, S_i = S_{i-1} + v_i k_i^T, P_i = (lambda + sum k k^T)^{-1}.

    P_i = P_{i-1} - p p^T / (1 + k.p), p = P_{i-1} k (Sherman and Morrison): von Oswald et al., 2025, arXiv 2506.05233.
    """

    def step(state, q, k, v):
        S, P = state
        p = P @ k
        S, P = S + outer(v, k), P - outer(p, p) / (1 + dot(k, p))
        return (S, P), S @ (P @ q)

    (S, P), o = scan(step, (zeros("V", "K"), diagonal(1 / lam, "K")), q, k, v)
    return {"o": o, "final_state": S, "final_covariance": P}
