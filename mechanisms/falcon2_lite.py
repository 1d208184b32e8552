from assay.language import dot, mechanism, outer, scan
from common import RAW, STATE, gain, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T : gain", lam="T", initial_state=STATE, k_carry="K = 0", eps="param = 0", decay_floor=RAW,
    sequence_start="bool = true",
)  # fmt: skip
def falcon2_lite(
    q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, alignment=("next_latent", "same_step"),
    ridge_coupling=("raw", "live", "detach"),
):  # fmt: skip
    """S_t = gamma_t S_{t-1} + eta_t x_t (v_t - S_{t-1}^T x_t)^T, eta = beta / (|x|^2 + ridge + eps), gamma = 1 - eta ridge.

    FALCON, appendix E, algorithm 10: FALCON-1 with a decay that keeps above decay_floor; o_t = S_t^T q_t.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)

    def step(S, q, x, v, b, lam):
        eta, gamma = gain(dot(x, x), b, lam, eps, decay_floor, ridge_coupling)
        S = gamma * S + outer(x, eta * (v - x @ S))
        return S, q @ S

    S, o = scan(step, initial_state, q, x, v, only(writes, beta), lam)
    return {"o": o, "final_state": S}
