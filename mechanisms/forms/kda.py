from assay.language import cumsum, exp, mechanism, round, scan, where
from chunks import RSQRT, STATE, before, unit_lower_inverse


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk} K", initial_state=STATE, scale=RSQRT
)
def kda_chunks(q, k, v, beta, log_decay, initial_state, scale, chunk=(16, 32, 64)):
    """Kimi delta attention in chunks: a decay for every channel, e^{c_r - c_s} of running sums, which earlier keys carry.

    Every operand of a product is rounded, the state that is carried is not.
    Kimi Team, Kimi Linear, 2025, section 3.2.
    """
    strict = before(chunk)
    seen = ~strict.T[:, :, None]

    def step(S, q, k, v, b, g):
        c, last = cumsum(g), g.sum(0)
        keys = round(where(seen, exp(where(seen, c[:, None] - c, 0)) * k, 0), "Kc")
        T = round(unit_lower_inverse(where(strict, b[:, None] * (k[:, None] * keys).sum(-1), 0), chunk), "Tc")
        W = round(T @ round(b[:, None] * round(exp(c) * k, "zK"), "bK"), "Wc")
        U = round(T @ round(b[:, None] * v, "bV"), "bU")
        Sc = round(S, "Sc")
        new = round(U - W @ Sc, "Uc")
        P = round((q[:, None] * keys).sum(-1), "P")
        o = scale * (round(exp(c) * q, "Qc") @ Sc + P @ new)
        return exp(last)[:, None] * S + round(exp(last - c) * k, "zKc").T @ new, o

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
