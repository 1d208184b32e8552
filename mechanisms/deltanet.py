from assay.language import mechanism, outer, scan
from common import RSQRT, STATE, only, write_features


@mechanism(q="T K", k="T K", v="T V", beta="T", initial_state=STATE, k_carry="K = 0", scale=RSQRT, sequence_start="bool = true")
def deltanet(q, k, v, beta, initial_state, k_carry, scale, sequence_start, alignment=("same_step", "next_latent")):
    """S_t = S_{t-1} + beta_t x_t (v_t - S_{t-1}^T x_t)^T, o_t = scale S_t^T q_t, x_t = k_t or, next_latent, k_{t-1}.

    Yang et al., Parallelizing Linear Transformers with the Delta Rule, 2024, arXiv 2406.06484; FALCON, equation (2.7).
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)

    def step(S, q, x, v, b):
        S = S + outer(x, b * (v - x @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, x, v, only(writes, beta))
    return {"o": o, "final_state": S}
