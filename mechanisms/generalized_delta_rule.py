from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(
    q="T K", k="T K", v="T V", a="T K : key unit=K", b="T K : key unit=K", log_decay="T K : log_decay = 0", initial_state=STATE, scale=RSQRT
)
def generalized_delta_rule(q, k, v, a, b, log_decay, initial_state, scale):
    """S_t = (diag(alpha_t) + b_t a_t^T) S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t: diagonal plus low rank (DPLR).

    Without log_decay identity plus low rank (IPLR). The delta rule has a = -k and b = beta k, and beta v for v. Peng et al., RWKV-7
    Goose, 2025, arXiv 2503.14456, whose letters rwkv7 has; both forms are flash-linear-attention's.
    """

    def step(S, q, k, v, a, b, g):
        S = exp(g)[:, None] * S + outer(b, a @ S) + outer(k, v)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, a, b, log_decay)
    return {"o": o, "final_state": S}
