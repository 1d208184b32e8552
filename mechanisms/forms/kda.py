from assay.language import cumsum, exp, mechanism, round, scan, where
from chunks import RSQRT, STATE, before, unit_lower_inverse


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk} K", initial_state=STATE, scale=RSQRT
)
def kda_chunks(q, k, v, beta, log_decay, initial_state, scale, chunk=16):
    """Kimi delta attention in chunks: a decay for every channel, so that keys carry e^c and e^-c.

    Kimi Team, Kimi Linear, 2025, section 3.2.
    """
    strict = before(chunk)

    def step(S, q, k, v, b, g):
        c, last = cumsum(g), g.sum(0)
        up, down = exp(c) * k, round(exp(-c) * k, "Kc")
        T = round(unit_lower_inverse(where(strict, b[:, None] * (up @ down.T), 0), chunk), "Tc")
        W, U = round(T @ (b[:, None] * up), "Wc"), T @ (b[:, None] * v)
        new = round(U - W @ S, "Uc")
        P = round(where(strict.T, 0, (exp(c) * q) @ down.T), "P")
        o = scale * ((exp(c) * q) @ S + P @ new)
        return round(exp(last)[:, None] * S + (exp(last - c) * k).T @ new, "Sc"), o

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
