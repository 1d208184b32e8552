from assay.language import exp, mechanism, outer, scan, softplus


@mechanism(
    x="T V", dt="T V", b="T N", c="T N", a_log="V N : real low=-1 high=1", dt_bias="V", skip="V", initial_state="V N : state = 0"
)  # fmt: skip
def mamba(x, dt, b, c, a_log, dt_bias, skip, initial_state):
    """h_t = exp(d_t A) h_{t-1} + d_t x_t b_t^T, o_t = h_t c_t + skip x_t, d_t = softplus(dt_t + dt_bias), A = -exp(a_log).

    Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023, arXiv 2312.00752, algorithm 2.
    """
    A = -exp(a_log)

    def step(h, x, dt, b, c):
        d = softplus(dt + dt_bias)
        h = exp(d[:, None] * A) * h + outer(d * x, b)
        return h, h @ c + skip * x

    h, o = scan(step, initial_state, x, dt, b, c)
    return {"o": o, "final_state": h}
