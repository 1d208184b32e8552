from assay.language import dot, mechanism, outer, scan
from common import STATE, diagonal, write_features


@mechanism(q="T K", k="T K", v="T V", lam="", initial_state=STATE, k_carry="K = 0", sequence_start="bool = true")
def rls(q, k, v, lam, initial_state, k_carry, sequence_start, alignment=("next_latent", "same_step")):
    """Recursive least squares: g = P x / (1 + x.P x), S_t = S_{t-1} + g (v_t - S_{t-1}^T x_t)^T, P_t = P - g (P x)^T, P_0 = 1 / lambda.

    FALCON, equations (A.1) and (A.2); o_t = S_t^T q_t. A sequence's first feature is zero and changes nothing.
    """
    x, _ = write_features(k, k_carry, sequence_start, alignment)

    def step(state, q, x, v):
        S, P = state
        p = P @ x
        g = p / (1 + dot(x, p))
        S, P = S + outer(g, v - x @ S), P - outer(g, p)
        return (S, P), q @ S

    (S, P), o = scan(step, (initial_state, diagonal(1 / lam, "K")), q, x, v)
    return {"o": o, "final_state": S, "final_covariance": P}
