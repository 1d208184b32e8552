from assay.language import exp, mechanism, outer, scan
from common import STATE


@mechanism(r="T K : query", k="T K", v="T V", log_decay="T K", u="K : weight", initial_state=STATE, scale="param = 1")
def rwkv6(r, k, v, log_decay, u, initial_state, scale):
    """o_t = scale (S_{t-1} + diag(u) k_t v_t^T)^T r_t, S_t = diag(w_t) S_{t-1} + k_t v_t^T: the read is before the write.

    Peng et al., Eagle and Finch, 2024, arXiv 2404.05892, section 4.2; u is the bonus of the present token, w = exp(log_decay).
    """

    def step(S, r, k, v, g):
        o = r @ (S + outer(u * k, v))
        return exp(g)[:, None] * S + outer(k, v), scale * o

    S, o = scan(step, initial_state, r, k, v, log_decay)
    return {"o": o, "final_state": S}
