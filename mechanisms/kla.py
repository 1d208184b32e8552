from assay.language import exp, mechanism, outer, scan
from common import STATE


@mechanism(
    q="T K", k="T K", v="T V", precision="T V : gain", log_decay="K V", noise="K V : gain", initial_state=STATE,
    initial_precision="K V : normalizer = 1",
)  # fmt: skip
def kla(q, k, v, precision, log_decay, noise, initial_state, initial_precision):
    """A Kalman filter for every key and value channel, in information form: o_t = (N_t / L_t)^T q_t, the mean of what was seen.

    L_t = L_{t-1} / d_t + k_t^2 w_t^T, N_t = a N_{t-1} / d_t + k_t (w_t * v_t)^T, d_t = a^2 + p L_{t-1}: w the precision of the values,
    a = exp(log_decay), p the noise of a step. Shaj et al., Kalman Linear Attention, 2026, arXiv 2602.10743.
    """
    a = exp(log_decay)

    def step(state, q, k, v, w):
        N, L = state
        d = a * a + noise * L
        N, L = a * N / d + outer(k, w * v), L / d + outer(k * k, w)
        return (N, L), q @ (N / L)

    (N, L), o = scan(step, (initial_state, initial_precision), q, k, v, precision)
    return {"o": o, "final_state": N, "final_precision": L}
