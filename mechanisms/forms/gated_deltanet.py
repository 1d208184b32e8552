from assay.language import cumsum, exp, mechanism, round, scan, where
from chunks import RSQRT, STATE, before, unit_lower_inverse


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk}", initial_state=STATE, scale=RSQRT
)
def gated_deltanet_chunks(q, k, v, beta, log_decay, initial_state, scale, chunk=(16, 32, 64)):
    """The gated delta rule in chunks: c = cumsum(log_decay), weights e^{c_r - c_s}, the old state decayed by e^c.

    Every operand of a product is rounded, the state that is carried is not, as flash-linear-attention's kernels have it.
    Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, section 3.3.
    """
    strict = before(chunk)

    def step(S, q, k, v, b, g):
        c = cumsum(g)
        decay = where(strict.T, 0, exp(where(strict.T, 0, c[:, None] - c)))
        last = g.sum()
        T = round(unit_lower_inverse(where(strict, b[:, None] * (k @ k.T) * decay, 0), chunk), "Tc")
        W, U = round(T @ round((b * exp(c))[:, None] * k, "bK"), "Wc"), round(T @ round(b[:, None] * v, "bV"), "bU")
        Sc = round(S, "Sc")
        new = U - W @ Sc
        P = round(decay * (q @ k.T), "P")
        o = scale * (exp(c)[:, None] * (q @ Sc) + P @ round(new, "Uc"))
        return exp(last) * S + k.T @ round(exp(last - c)[:, None] * new, "zUc"), o

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
