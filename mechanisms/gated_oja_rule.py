from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V : value unit=V", beta="T", log_decay="T V", initial_state=STATE, scale=RSQRT)
def gated_oja_rule(q, k, v, beta, log_decay, initial_state, scale):
    """R = S_{t-1} diag(alpha_t), S_t = R + beta_t (k_t - R v_t) v_t^T, o_t = scale S_t^T q_t: the delta rule with k and v exchanged.

    Hu, Operator Derivation for Gated OJA Rule, a note in flash-linear-attention, section 1.3, transposed; a decay for every value channel.
    """

    def step(S, q, k, v, b, g):
        S = exp(g) * S
        S = S + outer(b * (k - S @ v), v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
