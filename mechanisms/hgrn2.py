from assay.language import exp, mechanism, outer, scan
from common import STATE


@mechanism(q="T K", log_forget="T K : log_decay", v="T V", initial_state=STATE)
def hgrn2(q, log_forget, v, initial_state):
    """S_t = diag(f_t) S_{t-1} + (1 - f_t) v_t^T, o_t = S_t^T q_t: the key is what the forget gate leaves.

    Qin et al., HGRN2, 2024, arXiv 2404.07904, equation (6); f = exp(log_forget).
    """

    def step(S, q, g, v):
        S = exp(g)[:, None] * S + outer(1 - exp(g), v)
        return S, q @ S

    S, o = scan(step, initial_state, q, log_forget, v)
    return {"o": o, "final_state": S}
