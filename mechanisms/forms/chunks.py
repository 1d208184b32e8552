"""Shared parts of chunk algorithms."""
from assay.language import const, cumsum, exp, iota, round, scan, shift, where, zeros
from common import RAW, RSQRT, STATE, UNLIMITED, gain, visible  # noqa: F401, most are for the forms

FALCON = {
    "q": "N {chunk} K", "k": "N {chunk} K", "v": "N {chunk} V", "beta": "N {chunk} : gain", "lam": "N {chunk}", "initial_state": STATE,
    "k_carry": "K = 0", "eps": "param = 0", "decay_floor": RAW, "sequence_start": "bool = true",
}  # fmt: skip


def before(C):
    """[C C]: whether row s of a chunk is before row r."""
    return iota(C) < iota(C)[:, None]


def unit_lower_inverse(A, C):
    """(1 + A)^-1 of A [C C], zero on and above the diagonal, row by row."""

    def row(X, a, r):
        here = iota(C) == r
        return where(here[:, None], where(here, const(1), const(0)) - a @ X, X), None

    return scan(row, zeros(C, C), A, iota(C))[0]


def decays_of_logs(g, error, C):
    """What is left after row r of row s [C C], and of the state before the chunk [C]: when r's error is taken, after r, and at the end.

    By differences of running sums of log decays g [C]; an error is taken on the state before or after its row's decay.
    """
    strict, c = before(C), cumsum(g)
    read = c - g if error == "undecayed" else c
    left = lambda since, seen: where(seen, exp(where(seen, since[:, None] - c, 0)), 0)
    return (left(read, strict), exp(read)), (left(c, ~strict.T), exp(c)), (exp(g.sum() - c), exp(g.sum()))


def decays_of_factors(gamma, C):
    """The same of errors on the state before its row's decay, by products of decays [C], which may be zero or negative."""

    def row(kept, gamma, r):
        rows, start = kept
        after = rows * gamma + where(iota(C) == r, const(1), const(0)), start * gamma
        return after, (rows, start, *after)

    (tail, end), (read, read_start, within, start) = scan(row, (zeros(C), const(1)), gamma, iota(C))
    return (read, read_start), (within, start), (tail, end)


def delta_rule(S, q, k, p, v, b, decays, C, scale=1):
    """The state after a chunk of the delta rule and its outputs; p reads the state, k writes: decays_of_logs, decays_of_factors.

    Every operand of a product is rounded, the state that is carried is not, as flash-linear-attention's kernels have it.
    """
    (read, read_start), (within, start), (tail, end) = decays
    T = round(unit_lower_inverse(b[:, None] * (p @ k.T) * read, C), "Tc")
    W, U = round(T @ round((b * read_start)[:, None] * p, "bK"), "Wc"), round(T @ round(b[:, None] * v, "bV"), "bU")
    Sc = round(S, "Sc")
    new = U - W @ Sc
    P = round(within * (q @ k.T), "P")
    o = scale * (start[:, None] * (q @ Sc) + P @ round(new, "Uc"))
    return end * S + k.T @ round(tail[:, None] * new, "zUc"), o


def falcon_rule(q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, C):
    """FALCON-1 and FALCON-2 lite in chunks, their features the keys of the step before."""

    def step(state, q, k, v, b, lam):
        S, key, writes = state
        first = iota(C) == 0
        x, b = where(first[:, None], key, shift(k)), where(first, writes * b, b)
        eta, gamma = gain((x * x).sum(-1), b, lam, eps, decay_floor, "raw")
        S, o = delta_rule(S, q, x, x, v, eta, decays_of_factors(gamma, C), C)
        return (S, k[-1], const(1)), o

    (S, _, _), o = scan(step, (initial_state, k_carry, where(sequence_start, const(0), const(1))), q, k, v, beta, lam)
    return {"o": o, "final_state": S}
