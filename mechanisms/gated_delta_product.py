from assay.language import exp, mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T {steps} K : unit=K", v="T {steps} V", beta="T {steps}", log_decay="T", initial_state=STATE, scale=RSQRT)
def gated_delta_product(q, k, v, beta, log_decay, initial_state, scale, steps=2):
    """Several delta rule steps a token on a state that decays before the first; o_t = scale S_t^T q_t.

    Siems et al., DeltaProduct, 2025, arXiv 2502.10297, section 3: Gated DeltaProduct.
    """

    def step(S, q, k, v, b, g):
        S = exp(g) * S
        for n in range(steps):
            S = S + outer(k[n], b[n] * (v[n] - k[n] @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
