from assay.language import exp, mechanism, outer, scan, softmax
from common import RSQRT


@mechanism(
    q="T K", k="T K", v="T V", control="T M : logit", initial_keys="M K : state = 0", initial_values="M V : state = 0",
    initial_normalizer="M = 0", scale=RSQRT,
)  # fmt: skip
def bounded_memory_attention(q, k, v, control, initial_keys, initial_values, initial_normalizer, scale):
    """ABC: M slots that average keys and values with weights exp(s_j), s the control, read by a softmax over slots.

    A_t = sum_{j<=t} exp(s_j) k_j^T / z_t, B_t likewise with v_j, z_t = sum_{j<=t} exp(s_j), o_t = B_t^T softmax(scale A_t q_t). Peng et
    al., ABC: Attention with Bounded-memory Control, 2021, arXiv 2110.02488, weights normalised over the tokens so far, as
    flash-linear-attention has it. The states are the sums.
    """

    def step(state, q, k, v, s):
        A, B, z = state
        w = exp(s)
        A, B, z = A + outer(w, k), B + outer(w, v), z + w
        return (A, B, z), (softmax(scale * (A @ q) / z) / z) @ B

    (A, B, z), o = scan(step, (initial_keys, initial_values, initial_normalizer), q, k, v, control)
    return {"o": o, "final_keys": A, "final_values": B, "final_normalizer": z}
