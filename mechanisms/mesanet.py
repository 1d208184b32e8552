from assay.language import iota, mechanism, outer, scan, solve, zeros
from common import by_token, diagonal


@mechanism(q="T K", k="T K", v="T V", lam="{ridge}")
def mesanet(q, k, v, lam, lambda_scaling=("sum", "mean"), ridge=("T K", "T", "")):
    """Ridge regression of the values so far on their keys, at the query: o_i = S_i (G_i + l_i)^{-1} q_i.

    S_i = sum v k^T, G_i = sum k k^T, l_i = lambda (on sums) or i lambda (on means). MesaNet, von Oswald et al., 2025, arXiv 2506.05233.
    With one ridge for all tokens mesanet_recurrence has no inverse.
    """

    def step(state, q, k, v, lam, t):
        S, G = state
        S, G = S + outer(v, k), G + outer(k, k)
        lam = lam if lambda_scaling == "sum" else (t + 1) * lam
        return (S, G), S @ solve(G + diagonal(lam, "K"), q, definite=True)

    (S, G), o = scan(step, (zeros("V", "K"), zeros("K", "K")), q, k, v, by_token(lam, ridge), iota("T"))
    return {"o": o, "final_state": S, "final_gram": G}
