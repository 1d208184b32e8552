from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", beta="T", feedback="T : write_strength", log_decay="T", initial_state=STATE, scale=RSQRT)
def q_delta(q, k, v, beta, feedback, log_decay, initial_state, scale):
    """R = alpha_t S_{t-1}, S_t = R + beta_t k_t (v_t - R^T (k_t + lambda_t q_t))^T, o_t = scale S_t^T q_t: the query corrects, too.

    Park, Kim, Park, Q-Delta: Beyond Key-Value Associative State Evolution, 2026, arXiv 2606.08804, transposed; lambda = feedback.
    """

    def step(S, q, k, v, b, w, g):
        S = exp(g) * S
        S = S + outer(k, b * (v - (k + w * q) @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, feedback, log_decay)
    return {"o": o, "final_state": S}
