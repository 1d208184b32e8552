from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(
    head="int = 0", log_decay=' : log_decay = log(1 - const("2") ** (-5 - head))', q="T K", k="T K", v="T V", initial_state=STATE,
    scale=RSQRT,
)  # fmt: skip
def retnet(head, log_decay, q, k, v, initial_state, scale):
    """S_t = gamma S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t with gamma = 1 - 2^{-5-h} for head h.

    Sun et al., Retentive Network, 2023, arXiv 2307.08621, equation (5).
    """

    def step(S, q, k, v):
        S = exp(log_decay) * S + outer(k, v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v)
    return {"o": o, "final_state": S}
