from assay.language import dot, iota, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T K", v="T V", initial_state=STATE, initial_normalizer="K = 0", scale=RSQRT, eps="param = 0")
def linear_attention(q, k, v, initial_state, initial_normalizer, scale, eps, normalization=("none", "count", "features")):
    """S_t = S_{t-1} + k_t v_t^T, o_t = c_t scale S_t^T q_t with c_t = 1, 1 / t, or 1 / (scale z_t.q_t + eps), z_t = z_{t-1} + k_t.

    Katharopoulos et al., Transformers are RNNs, 2020, arXiv 2006.16236, equations (10) to (12); feature maps are the caller's.
    """

    def step(state, q, k, v, *t):
        S, z = state
        S, z = S + outer(k, v), z + k
        o = scale * (q @ S)
        if normalization == "count":
            o = o / (t[0] + 1)
        if normalization == "features":
            o = o / (scale * dot(q, z) + eps)
        return (S, z), o

    position = [iota("T")] if normalization == "count" else []
    (S, z), o = scan(step, (initial_state, initial_normalizer), q, k, v, *position)
    return {"o": o, "final_state": S, **({"final_normalizer": z} if normalization == "features" else {})}
