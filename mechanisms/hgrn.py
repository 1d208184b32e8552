from assay.language import exp, mechanism, scan


@mechanism(x="T D : value", log_decay="T D", initial_state="D = 0")
def hgrn(x, log_decay, initial_state):
    """h_t = e^{log_decay_t} h_{t-1} + x_t, channel by channel.

    Qin et al., Hierarchically Gated Recurrent Network, 2023, arXiv 2311.04823.
    """

    def step(h, x, g):
        h = exp(g) * h + x
        return h, h

    h, o = scan(step, initial_state, x, log_decay)
    return {"o": o, "final_state": h}
