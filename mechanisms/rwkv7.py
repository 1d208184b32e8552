from assay.language import exp, mechanism, outer, scan
from common import STATE


@mechanism(r="T K : query", log_decay="T K", k="T K", v="T V", a="T K : key unit=K", b="T K : key unit=K", initial_state=STATE, scale="param = 1")
def rwkv7(r, log_decay, k, v, a, b, initial_state, scale):
    """S_t = diag(w_t) S_{t-1} + b_t (S_{t-1}^T a_t)^T + k_t v_t^T, o_t = scale S_t^T r_t.

    Peng et al., RWKV-7 Goose, 2025, arXiv 2503.14456, equation (1), transposed: a = -kappa, b = kappa * in-context rate, w =
    exp(log_decay).
    """

    def step(S, r, g, k, v, a, b):
        S = exp(g)[:, None] * S + outer(b, a @ S) + outer(k, v)
        return S, scale * (r @ S)

    S, o = scan(step, initial_state, r, log_decay, k, v, a, b)
    return {"o": o, "final_state": S}
