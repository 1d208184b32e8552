from assay.language import exp, log, maximum, mechanism, scan, zeros


@mechanism(k="T D : logit", v="T D", w="D : logit", u="D : logit")
def rwkv4(k, v, w, u):
    """o_t = (sum_{j<t} e^{k_j - (t-1-j) e^w} v_j + e^{u + k_t} v_t) / (the same without v), channel by channel.

    Peng et al., RWKV: Reinventing RNNs for the Transformer Era, 2023, arXiv 2305.13048, equation (16), with a running largest exponent.
    """

    def step(state, k, v):
        a, b, top = state
        now = maximum(top, u + k)
        old, new = exp(top - now), exp(u + k - now)
        o = (old * a + new * v) / (old * b + new)
        later = maximum(top - exp(w), k)
        old, new = exp(top - exp(w) - later), exp(k - later)
        return (old * a + new * v, old * b + new, later), o

    return {"o": scan(step, (zeros("D"), zeros("D"), log(zeros("D"))), k, v)[1]}
