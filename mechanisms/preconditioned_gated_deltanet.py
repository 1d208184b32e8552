from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE, preconditioner


@mechanism(
    q="T K", k="T K", v="T V", beta="T", log_decay="T", gain="T : write_strength", log_forget="T : log_decay", center="param = -0.2",
    eps="param = 1e-6", initial_state=STATE, initial_squares="K : normalizer = 0", scale=RSQRT,
)  # fmt: skip
def preconditioned_gated_deltanet(
    q, k, v, beta, log_decay, gain, log_forget, center, eps, initial_state, initial_squares, scale
):
    """The gated delta rule that writes along keys scaled by their running squares A: S_t = R + beta_t M(A_t) k_t (v_t - R^T k_t)^T.

    R = alpha_t S_{t-1}, A_t = e^{f_t} A_{t-1} + gain_t k_t^2. Tumma, Loo, Rus, Preconditioned DeltaNet, 2026, arXiv 2604.21100, as
    flash-linear-attention has it; M in common.py. Keys and queries have the lengths that the caller gives them.
    """

    def step(state, q, k, v, b, g, n, f):
        S, A = state
        A = exp(f) * A + n * k * k
        S = exp(g) * S
        S = S + outer(preconditioner(A, center, eps) * k, b * (v - k @ S))
        return (S, A), scale * (q @ S)

    (S, A), o = scan(step, (initial_state, initial_squares), q, k, v, beta, log_decay, gain, log_forget)
    return {"o": o, "final_state": S, "final_squares": A}
