from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(
    q="T K", k="T K", v="T V", erase="T K : write_strength", write="T V : write_strength", log_decay="T K", initial_state=STATE,
    scale=RSQRT,
)  # fmt: skip
def gdn2(q, k, v, erase, write, log_decay, initial_state, scale):
    """S_t = (I - k_t (b_t * k_t)^T) diag(alpha_t) S_{t-1} + k_t (w_t * v_t)^T, o_t = scale S_t^T q_t.

    Hatamizadeh, Choi, Kautz, Gated DeltaNet-2, arXiv 2605.22791: an erase gate b over keys, a write gate w over values.
    """

    def step(S, q, k, v, b, w, g):
        R = exp(g)[:, None] * S
        S = R + outer(k, w * v - (b * k) @ R)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, erase, write, log_decay)
    return {"o": o, "final_state": S}
