from assay.language import exp, mechanism, outer, scan
from common import STATE


@mechanism(slope=": weight", q="T K", k="T K", v="T V", initial_state=STATE, scale="param = 1")
def lightning_attention(slope, q, k, v, initial_state, scale):
    """S_t = lambda S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t with lambda = exp(-slope), one number a head.

    Qin et al., Lightning Attention-2, 2024, arXiv 2401.04658, equation (3).
    """

    def step(S, q, k, v):
        S = exp(-slope) * S + outer(k, v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v)
    return {"o": o, "final_state": S}
