from assay.language import dot, mechanism, outer, scan, sqrt, where
from common import STATE


@mechanism(q="T K", k="T K", v="T V", eta="T", alpha="T : decay_fraction", delta="T : gain", initial_state=STATE)
def yaad(q, k, v, eta, alpha, delta, initial_state):
    """S_t = alpha S_{t-1} - eta k e'^T, o_t = S_t^T q_t: the loss is Huber's, so that an error e longer than delta counts as delta long.

    Behrouz et al., It's All Connected (Miras), 2025, arXiv 2504.13173.
    """

    def step(S, q, k, v, eta, alpha, delta):
        e = k @ S - v
        length = sqrt(dot(e, e))
        S = alpha * S - eta * outer(k, where(length <= delta, e, delta * e / length))
        return S, q @ S

    S, o = scan(step, initial_state, q, k, v, eta, alpha, delta)
    return {"o": o, "final_state": S}
