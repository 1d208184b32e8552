from assay.language import exp, mechanism, outer, scan, softmax
from common import RSQRT


@mechanism(
    q="T K", k="T K", v="T V", log_forget="T M : log_decay", initial_keys="M K : state = 0", initial_values="M V : state = 0", scale=RSQRT
)
def gsa(q, k, v, log_forget, initial_keys, initial_values, scale):
    """Gated slot attention: M slots with keys and values that decay, read by a softmax over slots.

    A_t = diag(f_t) A_{t-1} + (1 - f_t) k_t^T, B_t likewise with v_t, o_t = B_t^T softmax(scale A_t q_t). Zhang et al., Gated Slot
    Attention, 2024, arXiv 2409.07146, equation (7); f = exp(log_forget).
    """

    def step(state, q, k, v, g):
        A, B = state
        f = exp(g)
        A, B = f[:, None] * A + outer(1 - f, k), f[:, None] * B + outer(1 - f, v)
        return (A, B), softmax(scale * (A @ q)) @ B

    (A, B), o = scan(step, (initial_keys, initial_values), q, k, v, log_forget)
    return {"o": o, "final_keys": A, "final_values": B}
