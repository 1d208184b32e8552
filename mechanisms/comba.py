from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", p="T K", beta="T", log_decay="T", initial_state=STATE, scale=RSQRT)
def comba(q, k, v, p, beta, log_decay, initial_state, scale):
    """S_t = alpha_t S_{t-1} + beta_t k_t (v_t - S_{t-1}^T p_t)^T, o_t = scale S_t^T q_t: the prediction key p stands for itself.

    Hu et al., Comba, 2025, arXiv 2506.02475: closed-loop control, the error taken on the state before its decay.
    """

    def step(S, q, k, v, p, b, g):
        S = exp(g) * S + outer(k, b * (v - p @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, p, beta, log_decay)
    return {"o": o, "final_state": S}
