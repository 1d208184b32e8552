from assay.language import exp, mechanism, scan, sigmoid, softplus, sqrt


@mechanism(x="T V", r="T V : logit", i="T V : logit", decay="V", initial_state="V = 0")
def rg_lru(x, r, i, decay, initial_state):
    """h_t = a_t h_{t-1} + sqrt(1 - a_t^2) sigmoid(i_t) x_t, a_t = exp(-8 softplus(decay) sigmoid(r_t)).

    De et al., Griffin: Mixing Gated Linear Recurrences with Local Attention, 2024, arXiv 2402.19427, equation (4), with c = 8.
    """

    def step(h, x, r, i):
        a = exp(-8 * softplus(decay) * sigmoid(r))
        h = a * h + sqrt(1 - a**2) * (sigmoid(i) * x)
        return h, h

    h, o = scan(step, initial_state, x, r, i)
    return {"o": o, "final_state": h}
