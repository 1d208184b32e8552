from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", beta="T", log_decay="T", initial_state=STATE, scale=RSQRT)
def gated_deltanet(q, k, v, beta, log_decay, initial_state, scale, error=("decayed", "undecayed")):
    """R = alpha_t S_{t-1}, S_t = R + beta_t k_t (v_t - R^T k_t)^T, o_t = scale S_t^T q_t; undecayed: v_t - S_{t-1}^T k_t.

    Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, arXiv 2412.06464, equation (10); alpha = exp(log_decay).
    """

    def step(S, q, k, v, b, g):
        R = exp(g) * S
        S = R + outer(k, b * (v - k @ (R if error == "decayed" else S)))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
