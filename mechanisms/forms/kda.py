from assay.language import cumsum, exp, mechanism, round, scan, where
from chunks import RSQRT, STATE, before, unit_lower_inverse


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk} K", initial_state=STATE, scale=RSQRT
)
def kda_chunks(q, k, v, beta, log_decay, initial_state, scale, chunk=(16, 32, 64)):
    """Kimi delta attention in chunks: a decay for every channel, so that keys carry e^c and e^-c.

    Every operand of a product is rounded, the state that is carried is not.
    Kimi Team, Kimi Linear, 2025, section 3.2.
    """
    strict = before(chunk)

    def step(S, q, k, v, b, g):
        c, last = cumsum(g), g.sum(0)
        up, down = round(exp(c) * k, "zK"), round(exp(-c) * k, "Kc")
        T = round(unit_lower_inverse(where(strict, b[:, None] * (up @ down.T), 0), chunk), "Tc")
        W, U = round(T @ round(b[:, None] * up, "bK"), "Wc"), round(T @ round(b[:, None] * v, "bV"), "bU")
        Sc, query = round(S, "Sc"), round(exp(c) * q, "Qc")
        new = round(U - W @ Sc, "Uc")
        P = round(where(strict.T, 0, query @ down.T), "P")
        o = scale * (query @ Sc + P @ new)
        return exp(last)[:, None] * S + round(exp(last - c) * k, "zKc").T @ new, o

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
