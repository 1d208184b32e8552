from assay.language import iota, mechanism, outer, scan, solve, zeros
from common import by_token, diagonal


@mechanism(q="T K", k="T K", v="T V", lam="{ridge}")
def affine_mesanet(q, k, v, lam, lambda_scaling=("sum", "mean"), ridge=("T K", "T", "")):
    """Ridge regression with an intercept over the pairs so far: o_i = vbar_i - X_i (C_i + l_i)^{-1} (kbar_i - q_i).

    l_i = lambda / i (on sums) or lambda (on means); i C and i X are scatters by Welford's recurrence. Parallax, arXiv 2605.29157,
    equations (9), (10).
    """

    def step(state, q, k, v, lam, t):
        mean_k, mean_v, Mkk, Mvk = state
        n = t + 1
        e = (k - mean_k) * t / n
        Mkk, Mvk = Mkk + outer(e, k - mean_k), Mvk + outer(v - mean_v, e)
        mean_k, mean_v = mean_k + (k - mean_k) / n, mean_v + (v - mean_v) / n
        lam = lam if lambda_scaling == "sum" else n * lam
        y = solve(Mkk + diagonal(lam, "K"), mean_k - q, definite=True)
        return (mean_k, mean_v, Mkk, Mvk), mean_v - Mvk @ y

    start = zeros("K"), zeros("V"), zeros("K", "K"), zeros("V", "K")
    (mean_k, mean_v, Mkk, Mvk), o = scan(step, start, q, k, v, by_token(lam, ridge), iota("T"))
    return {"o": o, "final_mean_k": mean_k, "final_mean_v": mean_v, "final_scatter_kk": Mkk, "final_scatter_vk": Mvk}
