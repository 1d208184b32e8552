from assay.language import dot, mechanism, outer, scan
from common import RAW, STATE, gain, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T V : gain", lam="T", initial_state=STATE, k_carry="K = 0", eps="param = 0", decay_floor=RAW,
    sequence_start="bool = true",
)  # fmt: skip
def falcon2(
    q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, alignment=("next_latent", "same_step"),
    ridge_coupling=("raw", "live", "detach"),
):  # fmt: skip
    """FALCON-1 with a step for every value channel: S_t = S_{t-1} diag(gamma_t) + x_t (eta_t (v_t - S_{t-1}^T x_t))^T.

    FALCON, equations (4.4) and (4.5): eta = beta / D, gamma = 1 - eta ridge, vectors over V that share D; o_t = S_t^T q_t.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)

    def step(S, q, x, v, b, lam):
        eta, gamma = gain(dot(x, x), b, lam, eps, decay_floor, ridge_coupling)
        S = S * gamma + outer(x, eta * (v - x @ S))
        return S, q @ S

    S, o = scan(step, initial_state, q, x, v, only(writes, beta), lam)
    return {"o": o, "final_state": S}
