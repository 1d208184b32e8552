from assay.language import mechanism
from common import RAW, STATE, falcon_rule


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
    return falcon_rule(
        q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, alignment, ridge_coupling
    )
