from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", log_decay="T", initial_state=STATE, scale=RSQRT)
def mamba2(q, k, v, log_decay, initial_state, scale):
    """S_t = alpha_t S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t with one decay a token.

    Dao and Gu, Transformers are SSMs, 2024, arXiv 2405.21060: C = q, B = k, log_decay = Delta A, v = Delta x.
    """

    def step(S, q, k, v, g):
        S = exp(g) * S + outer(k, v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, log_decay)
    return {"o": o, "final_state": S}
