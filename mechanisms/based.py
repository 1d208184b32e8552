from assay.language import contract, dot, mechanism, outer, scan, zeros
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", scale=RSQRT, eps="param = 0")
def based(q, k, v, scale, eps):
    """Linear attention whose weights are the first terms of exp: w_ij = 1 + s + s^2 / 2, s = scale q_i.k_j, over their sum.

    Arora et al., Simple linear attention language models (Based), 2024, arXiv 2402.18668, with the states of a recurrence.
    """

    def step(state, q, k, v):
        S0, S1, S2, n0, n1, n2 = state
        q, kk = scale * q, outer(k, k) / 2
        S0, S1, S2 = S0 + v, S1 + outer(k, v), S2 + contract("ab,c->abc", kk, v)
        n0, n1, n2 = n0 + 1, n1 + k, n2 + kk
        o = S0 + q @ S1 + contract("ab,abc->c", outer(q, q), S2)
        return (S0, S1, S2, n0, n1, n2), o / (n0 + dot(q, n1) + dot(q, n2 @ q) + eps)

    start = zeros("V"), zeros("K", "V"), zeros("K", "K", "V"), zeros(), zeros("K"), zeros("K", "K")
    return {"o": scan(step, start, q, k, v)[1]}
