"""Shared parts of several mechanisms: which keys a query sees, FALCON's features and gains."""
from assay.language import (
    const, detach, dot, exp, iota, log, logsumexp, maximum, outer, scan, shift, sigmoid, size, softmax, softplus, where, zeros,
)  # fmt: skip

RSQRT = 'param = 1 / sqrt(size("K"))'
STATE = "K V = 0"
UNLIMITED = 'int = size("S") + size("T")'  # a window that ends nowhere


def visible(i, causal, window):
    """Which of S keys query i of T sees: aligned at the end, up to its own, the newest `window` of them."""
    here, j = i + size("S") - size("T"), iota("S")
    return (~causal | (j <= here)) & (here - window < j)


def blocks(size):
    """N blocks of so many tokens: which tokens each has, [N T] of ones and zeros, its first token, and its last one."""
    first, t = iota("N") * size, iota("T")
    member = where((first[:, None] <= t) & (t < first[:, None] + size), const(1), const(0))
    return member, first, first + size - 1


def tokens_of(chosen, member):
    """Which tokens the chosen blocks have."""
    return 0 < where(chosen, const(1), const(0)) @ member


def largest(scores, seen):
    """The largest visible score; gradients go to the first of equal ones. -inf where nothing is visible."""
    return scan(lambda m, s, c: (maximum(where(c, s, log(const(0))), m), None), log(const(0)), scores, seen)[0]


def by_token(ridge, axes):
    """A ridge as rows of tokens: one number for all ("") is repeated."""
    return ridge if axes else zeros("T") + ridge


def diagonal(d, axis):
    """The matrix with d on its diagonal."""
    return where(iota(axis)[:, None] == iota(axis), d, 0)


def write_features(k, k_carry, sequence_start, alignment):
    """FALCON's write features x_t, and which steps write; None: all.

    next_latent: x_t = k_{t-1}; a sequence's first row writes nothing, a continuation's first row has the key carried over.
    """
    if alignment == "same_step":
        return k, None
    t = iota("T")
    writes = (0 < t) | ~sequence_start
    return where(writes[:, None], where((t == 0)[:, None], k_carry, shift(k)), 0), writes


def only(writes, x):
    """x where a step writes, else zero."""
    return x if writes is None else where(writes if len(x.shape) == 1 else writes[:, None], x, 0)


def gain(energy, beta, lam, eps, decay_floor, ridge_coupling):
    """FALCON's step eta and decay gamma: D = E + ridge + eps, eta = beta / D, gamma = 1 - eta ridge, kept above decay_floor.

    D = 0 makes a step without effect. A decay at its floor passes no gradient on.
    """
    ridge = lam if ridge_coupling == "raw" else lam * (energy if ridge_coupling == "live" else detach(energy))
    D = energy + ridge + eps
    eta = where(D == 0, 0, beta / D)
    alpha = eta * ridge
    return eta, 1 - where(alpha < 1 - decay_floor, alpha, 1 - decay_floor)


def newest_pairs(window, writes, x, v, tail_k, tail_v):
    """means(t, of): over the newest `window` pairs at step t, the mean energy of x, and the mean of x of(x, v)^T."""
    j, m, ones = iota("T"), iota("P") - size("P"), zeros("T") + 1

    def means(t, of):
        near = where((j <= t) & (t < j + window), only(writes, ones), 0)
        tail = where(t < m + window, 1, 0)
        count = near.sum() + tail.sum()
        mean = lambda a, of_tail: where(count == 0, 0, (a + of_tail) / count)
        energy = mean(near @ (x * x).sum(-1), tail @ (tail_k * tail_k).sum(-1))
        return energy, mean((near[:, None] * x).T @ of(x, v), (tail[:, None] * tail_k).T @ of(tail_k, tail_v))

    return means


def count_of_pairs(sequence_start, alignment):
    """Up to every token, the tail's among them."""
    fresh = where(sequence_start, 1, 0) if alignment == "next_latent" else 0
    return iota("T") + 1 + size("P") - fresh


def falcon_rule(
    q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, alignment, ridge_coupling
):
    """FALCON-1 and FALCON-2 lite: S_t = gamma_t S_{t-1} + eta_t x_t (v_t - S_{t-1}^T x_t)^T, o_t = S_t^T q_t."""
    x, writes = write_features(k, k_carry, sequence_start, alignment)

    def step(S, q, x, v, b, lam):
        eta, gamma = gain(dot(x, x), b, lam, eps, decay_floor, ridge_coupling)
        S = gamma * S + outer(x, eta * (v - x @ S))
        return S, q @ S

    S, o = scan(step, initial_state, q, x, v, only(writes, beta), lam)
    return {"o": o, "final_state": S}


def preconditioner(A, center, eps):
    """The scale of a key of running squares A: 1.5^(-r / (1 + |r|)), r = log(A + eps) - center."""
    r = log(A + eps) - center
    return exp(-log(const("1.5")) * r / (1 + abs(r)))


RAW = "param = -1"  # a decay floor that no alpha reaches: alpha is below beta, and that below 2


def read_entries(q, entries, of_entries, tokens, of_tokens, sink, scale):
    """Softmax attention of a query over compressed entries and tokens at once, which are keys and values, with a sink in the denominator."""
    s, t = scale * (entries @ q), scale * (tokens @ q)
    a, b = logsumexp(s, of_entries), logsumexp(t, of_tokens)
    share = sigmoid(a - b)  # of the entries; a token is always seen
    read = share * (softmax(s, of_entries) @ entries) + (1 - share) * (softmax(t, of_tokens) @ tokens)
    return sigmoid(b + softplus(a - b) - sink) * read
