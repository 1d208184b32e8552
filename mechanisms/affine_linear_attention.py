from assay.language import iota, mechanism, outer, scan, zeros


@mechanism(k="T K", v="T V", rho="T K")
def affine_linear_attention(k, v, rho):
    """o_i = vbar_i - X_i rho_i with means and covariance under equal weights over j <= i: Parallax, arXiv 2605.29157, equation (12).

    The means and the scatter M = i X come by Welford's recurrence.
    """

    def step(state, k, v, rho, t):
        mean_k, mean_v, M = state
        n = t + 1
        M = M + outer((v - mean_v) * t / n, k - mean_k)
        mean_k, mean_v = mean_k + (k - mean_k) / n, mean_v + (v - mean_v) / n
        return (mean_k, mean_v, M), mean_v - M @ rho / n

    start = zeros("K"), zeros("V"), zeros("V", "K")
    (mean_k, mean_v, M), o = scan(step, start, k, v, rho, iota("T"))
    return {"o": o, "final_mean_k": mean_k, "final_mean_v": mean_v, "final_scatter_vk": M}
