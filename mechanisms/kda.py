from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", beta="T", log_decay="T K", initial_state=STATE, scale=RSQRT)
def kda(q, k, v, beta, log_decay, initial_state, scale):
    """R = diag(alpha_t) S_{t-1}, S_t = R + beta_t k_t (v_t - R^T k_t)^T, o_t = scale S_t^T q_t.

    Kimi Team, Kimi Linear, 2025, arXiv 2510.26692: Kimi Delta Attention, a decay for every key channel.
    """

    def step(S, q, k, v, b, g):
        S = exp(g)[:, None] * S
        S = S + outer(k, b * (v - k @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
