from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", initial_state=STATE, initial_normalizer="K = 0", scale=RSQRT)
def lightnet(q, k, v, initial_state, initial_normalizer, scale):
    """o_t = scale (S_t / z_t)^T q_t, S_t = S_{t-1} + exp(k_t) v_t^T, z_t = z_{t-1} + exp(k_t), channel by channel: an additive recurrence.

    The decay is z_{t-1} / z_t, and so a softmax of every key channel over the tokens so far. Qin et al., You Only Scan Once: Efficient
    Multi-dimension Sequential Modeling with LightNet, 2024, arXiv 2405.21022.
    """

    def step(state, q, k, v):
        S, z = state
        S, z = S + outer(exp(k), v), z + exp(k)
        return (S, z), scale * ((q / z) @ S)

    (S, z), o = scan(step, (initial_state, initial_normalizer), q, k, v)
    return {"o": o, "final_state": S, "final_normalizer": z}
