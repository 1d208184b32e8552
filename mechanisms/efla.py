from assay.language import dot, exp, mechanism, outer, scan, where
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", beta="T", initial_state=STATE, scale=RSQRT)
def efla(q, k, v, beta, initial_state, scale):
    """S_t = S_{t-1} + a_t k_t (v_t - S_{t-1}^T k_t)^T, a_t = (1 - exp(-beta_t |k_t|^2)) / |k_t|^2, o_t = scale S_t^T q_t.

    The delta rule's differential equation dS/dt = k (v - S^T k)^T, solved over a time beta instead of by one Euler step. Lei, Zhang,
    Poria, Error-Free Linear Attention, 2025, arXiv 2512.12602. A zero key has a_t = beta_t, the limit, and writes nothing.
    """

    def step(S, q, k, v, b):
        n = dot(k, k)
        a = where(n == 0, b, (1 - exp(-b * n)) / n)
        S = S + outer(a * k, v - k @ S)
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
