from assay.language import mechanism, outer, scan
from common import RSQRT, STATE


@mechanism(q="T K", k="T {steps} K : unit=K", v="T {steps} V", beta="T {steps}", initial_state=STATE, scale=RSQRT)
def delta_product(q, k, v, beta, initial_state, scale, steps=2):
    """Several delta rule steps a token, S <- S + beta k (v - S^T k)^T for each, then o_t = scale S_t^T q_t.

    Siems et al., DeltaProduct, 2025, arXiv 2502.10297, equation (4): a product of `steps` Householder matrices.
    """

    def step(S, q, k, v, b):
        for n in range(steps):
            S = S + outer(k[n], b[n] * (v[n] - k[n] @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S}
