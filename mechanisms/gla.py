from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", log_decay="T K", initial_state=STATE, scale=RSQRT)
def gla(q, k, v, log_decay, initial_state, scale):
    """S_t = diag(alpha_t) S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t.

    Yang et al., Gated Linear Attention Transformers with Hardware-Efficient Training, 2023, arXiv 2312.06635, equation (3).
    """

    def step(S, q, k, v, g):
        S = exp(g)[:, None] * S + outer(k, v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, log_decay)
    return {"o": o, "final_state": S}
