from assay.language import dot, mechanism, outer, scan
from common import STATE


@mechanism(q="T K", k="T K", v="T V", beta="T", initial_state=STATE)
def longhorn(q, k, v, beta, initial_state):
    """S_t = (1 - d k_t^2) S_{t-1} + d k_t v_t^T with d = beta / (1 + beta |k|^2), o_t = S_t^T q_t: a step of online regression.

    Liu et al., Longhorn, 2024, arXiv 2407.14207.
    """

    def step(S, q, k, v, b):
        d = b / (1 + b * dot(k, k))
        S = (1 - d * k * k)[:, None] * S + outer(d * k, v)
        return S, q @ S

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
