from assay.language import exp, log, mechanism, outer, scan, sigmoid, softplus
from common import RSQRT, STATE


@mechanism(
    q="T K", k="T K : key unit=K", v="T V", beta="T V", select="T K : logit", temper="T K : logit", initial_state=STATE, scale=RSQRT
)
def rodimus(q, k, v, beta, select, temper, initial_state, scale):
    """S_t = diag(exp(-g_t tau_t)) S_{t-1} + (g_t^tau_t * k_t) (beta_t * v_t)^T, o_t = scale S_t^T q_t: tempered selection.

    g = softplus(select), tau = sigmoid(temper), so that what forgets more writes more. He et al., Rodimus*, 2024, arXiv 2410.06577,
    data-dependent tempered selection (DDTS); projections, convolution and residual are the caller's.
    """

    def step(S, q, k, v, b, g, tau):
        g, tau = softplus(g), sigmoid(tau)
        S = exp(-g * tau)[:, None] * S + outer(exp(tau * log(g)) * k, b * v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, select, temper)
    return {"o": o, "final_state": S}
