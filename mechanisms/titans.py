from assay.language import mechanism, outer, scan
from common import STATE


@mechanism(
    q="T K", k="T K", v="T V", theta="T : write_strength", eta="T : decay_fraction", alpha="T : decay_fraction", initial_state=STATE,
    initial_momentum=STATE,
)  # fmt: skip
def titans(q, k, v, theta, eta, alpha, initial_state, initial_momentum):
    """A linear memory with momentum and weight decay: M_t = eta M_{t-1} - theta dl, S_t = (1 - alpha) S_{t-1} + M_t, o_t = S_t^T q_t.

    Behrouz, Zhong, Mirrokni, Titans, 2025, arXiv 2501.00663, equations (13) and (14); l = |S^T k - v|^2, so that dl = 2 k (S_{t-1}^T k
    - v)^T.
    """

    def step(state, q, k, v, theta, eta, alpha):
        S, M = state
        M = eta * M - theta * outer(2 * k, k @ S - v)
        S = (1 - alpha) * S + M
        return (S, M), q @ S

    (S, M), o = scan(step, (initial_state, initial_momentum), q, k, v, theta, eta, alpha)
    return {"o": o, "final_state": S, "final_momentum": M}
