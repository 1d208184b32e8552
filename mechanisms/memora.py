from assay.language import log, mechanism, outer, scan, softmax


@mechanism(q="T K", k="T K", v="T V", eta="T", alpha="T : decay_fraction", start="V K : logit", total="param = 2")
def memora(q, k, v, eta, alpha, start, total):
    """W_t = total softmax(alpha log W_{t-1} - eta (W_{t-1} k_t - v_t) k_t^T), o_t = W_t q_t: rows of positive numbers of one sum.

    Behrouz et al., It's All Connected (Miras), 2025, arXiv 2504.13173.
    """

    def step(W, q, k, v, eta, alpha):
        W = total * softmax(alpha * log(W) - eta * outer(W @ k - v, k))
        return W, W @ q

    W, o = scan(step, total * softmax(start), q, k, v, eta, alpha)
    return {"o": o, "final_state": W}
