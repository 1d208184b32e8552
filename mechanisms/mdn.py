from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(
    q="T K", k="T K", v="T V", p="T K", log_alpha="T", log_mu="T", beta="T", eta="T", initial_state=STATE, initial_momentum=STATE,
    scale=RSQRT,
)  # fmt: skip
def mdn(q, k, v, p, log_alpha, log_mu, beta, eta, initial_state, initial_momentum, scale):
    """M_t = mu_t M_{t-1} - eta_t k_t (v_t - S_{t-1}^T p_t)^T, S_t = alpha_t S_{t-1} - beta_t M_t, o_t = scale S_t^T q_t.

    Momentum DeltaNet, arXiv 2605.05838, equations (4) and (5).
    """

    def step(state, q, k, v, p, a, m, b, n):
        S, M = state
        M = exp(m) * M - outer(n * k, v - p @ S)
        S = exp(a) * S - b * M
        return (S, M), scale * (q @ S)

    (S, M), o = scan(step, (initial_state, initial_momentum), q, k, v, p, log_alpha, log_mu, beta, eta)
    return {"o": o, "final_state": S, "final_momentum": M}
