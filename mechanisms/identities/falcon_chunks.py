"""FALCON's chunk algorithms, and sequences in two segments: falcon-family.md 4 and 5."""
from assay.language import const, cumsum, exp, iota, log, outer, real, scan, shift, size, solve, sqrt, where, zeros
from assay.language.scope import integer
from deltanet import deltanet
from falcon1 import falcon1
from falcon2 import falcon2
from falcon2_lite import falcon2_lite
from falcon2a import falcon2a
from falcon3 import falcon3
from falcon3a import falcon3a
from falcon_gains import STATE, answer, from_second, gains, given, identity, over
from rls import rls
from rows import Inputs, eye, filled, inputs_of, one_hot, piece, products, renamed, run, running

B = 3  # pairs of a window
COLUMNS = 7 * B  # (step, pair) of 7 tokens


def without_tail(m, **other):
    """A mechanism's inputs and e; an axis that nothing has but what may be missing has no length."""
    return {name: text + " = 0" if name.startswith("tail_") else text for name, text in given(m, **other).items()}


def near(window=B):
    """[t, j]: whether step t writes pair j."""
    t, j = iota("T")[:, None], iota("T")
    return where((0 < j) & (j <= t) & (t < j + window), const(1), const(0))


def mean(window=B):
    """The weights of the pairs that a step writes, A of (4.22)."""
    pairs = near(window)
    return over(pairs, pairs.sum(-1)[:, None])


def lower(a, strictly=False):
    """The entries below the diagonal, and on it."""
    t, j = iota(a.shape[0])[:, None], iota(a.shape[0])
    return where(j < t if strictly else j <= t, a, 0)


def last(a):
    """The last row."""
    return one_hot(size("T") - 1, "T") @ a


# ---- one chunk of one value channel: o, and the state after it. Rows that are not the chunk's have eta = 0 and gamma = 1.


def wy(x):
    """4.1, algorithm 7."""
    sigma = where(0 < x.eta, sqrt(x.eta), 0)
    U = sigma[:, None] * x.features
    E = solve(eye("T", "T") + lower(U @ U.T, strictly=True), sigma * x.v - U @ x.S)
    return x.q @ x.S + lower(x.q @ U.T) @ E, x.S + E @ U


def lite(x):
    """4.3, algorithm 10."""
    u = cumsum(log(x.gamma))
    o, S = wy(x.but(eta=x.eta / x.gamma, v=x.v * exp(-shift(u))))
    return exp(u) * o, exp(last(u)) * S


def columns():
    """The columns (t, b), the newest pair of a step first: their steps, [n, t], and their pairs, zero where there is none."""
    n, t = iota(COLUMNS), iota("T")
    block = where((B * t <= n[:, None]) & (n[:, None] < B * t + B), const(1), const(0))
    pair = where(n[:, None, None] == B * t[:, None] + t[:, None] - iota("T"), block[:, :, None] * near(), 0)
    return block, pair.sum(1)


def flow(x):
    """4.4, algorithm 4."""
    block, pair = columns()
    step = block @ real(iota("T"))
    u = cumsum(log(x.gamma))
    X = pair @ x.features
    A = (block @ over(x.eta / x.gamma, near().sum(-1)))[:, None] * X
    C = eye(COLUMNS, COLUMNS) + where(step < step[:, None], X @ A.T, 0)
    W, U = solve(C, -X), solve(C, (pair @ x.v) * (block @ exp(-shift(u))))
    upto = where(step <= iota("T")[:, None], x.q @ A.T, 0)
    decay = exp(last(u))
    M = decay * (eye("K", "K") + A.T @ W)
    return exp(u) * (x.q @ x.S + upto @ (U + W @ x.S)), M @ x.S + decay * (U @ A)


def mask(x, window):
    """M = D Diag(rho) A of 3.7."""
    u = cumsum(log(x.gamma))
    return (lower(exp(lower(u[:, None] - u))) * x.eta) @ mean(window)


def masked(window):
    """4.5, algorithm 5."""

    def chunk(x):
        M, delta = mask(x, window), exp(cumsum(log(x.gamma)))
        return delta * (x.q @ x.S) + (x.q @ x.features.T * M) @ x.v, last(delta) * x.S + (last(M) * x.v) @ x.features

    return chunk


def ratios(window):
    """4.6: no logarithm of a decay."""

    def chunk(x):
        since, all_of = products(x.gamma), running(x.gamma)
        pairs = near(window)
        before = shift(all_of) + one_hot(0, "T")

        def step(Y, t, pairs, weight, before, since_before):
            R = before * x.S + (since_before @ Y) @ x.features
            return where((iota("T") == t)[:, None], weight * pairs * (x.v - x.features @ R), Y), None

        weight = over(x.eta, pairs.sum(-1))
        Y = scan(step, zeros("T", "T"), iota("T"), pairs, weight, before, shift(since))[0]
        o = all_of * (x.q @ x.S) + ((since @ Y) * (x.q @ x.features.T)).sum(-1)
        return o, last(all_of) * x.S + (last(since) @ Y) @ x.features

    return chunk


def in_chunks(chunk, x, C):
    """One value channel by chunks of C tokens."""

    def step(state, n):
        S, o = state
        here = (n * C <= iota("T")) & (iota("T") < n * C + C)
        read, S = chunk(x.but(S=S, eta=where(here, x.eta, 0), gamma=where(here, x.gamma, 1)))
        return (S, where(here, read, o)), None

    S, o = scan(step, (x.S, zeros("T")), iota("T"))[0]
    return o, S


def by_channels(chunk, x, g, C):
    """All value channels by chunks of C tokens, g the gains."""
    wide = lambda a: a.T if a.ndim == 2 else zeros("V")[:, None] + a

    def channel(_, v, eta, gamma, S):
        return None, in_chunks(chunk, Inputs(q=x.q, features=shift(x.k), v=v, eta=eta, gamma=gamma, S=S), C)

    o, S = scan(channel, None, x.v.T, wide(g.eta), wide(g.gamma), x.initial_state.T)[1]
    return Inputs(o=o.T, final_state=S.T)


def delta_gains(x):
    """The gains of the delta rule."""
    return Inputs(eta=from_second(x.beta), gamma=zeros("T") + 1)


def chunks(name, m, statement, chunk, change=lambda x: x, **settings):
    """Chunks of 1 to T + 2 tokens: the room, for each size."""

    def pairs(x):
        x = change(x)
        g = delta_gains(x) if m is deltanet else gains(m, x, x.e, floor=settings.get("decay_floor"))
        out = scan(lambda _, C: (None, tuple(by_channels(chunk, x, g, C + 1).values())), None, iota(9))[1]
        room = {name: filled(0, (9, *a.shape)) + a for name, a in answer(m, x, **settings).items()}
        return room, dict(zip(STATE, out))

    taken = inputs_of(m) if m is deltanet else without_tail(m)
    identity(name, m, f"chunks of 1..T+2 tokens, {statement}, forward and gradients", taken, pairs)


def overshooting(x):
    """Gains in (3/2, 2) and ridges so large that many steps have a negative decay."""
    return x.but(lam=x.lam + 8, beta=(x.beta + 6) / 4)


def chunk_rows():
    log_domain, ratio, attention = "log-domain form, clamped", "ratio kernel (4.6), gamma < 0 too", "masked attention (4.5)"
    floor = {"decay_floor": "7/8"}  # some rows at the floor, some above
    chunks("chunks_wy", deltanet, "WY kernel (4.1)", wy, alignment="next_latent", scale=1)
    chunks("chunks_by_ratios", falcon1, ratio, ratios(1), overshooting)
    chunks("chunks_by_ratios", falcon2, ratio, ratios(1), overshooting)
    chunks("chunks", falcon2, log_domain, lite, **floor)
    chunks("chunks", falcon2_lite, log_domain, lite, **floor)
    chunks("chunks", falcon2a, attention, masked(1))
    chunks("chunks", falcon3, log_domain, flow, **floor)
    chunks("chunks_by_ratios", falcon3, ratio, ratios(B), overshooting)
    chunks("chunks", falcon3a, attention, masked(B))


# ---- segments


def cut(x, first, count):
    """Rows of what has tokens."""
    return x.but(**{name: piece(first, count) @ a for name, a in x.items() if a.shape[:1] == ("T",)})


def followed(x, count=3):
    """Rows from 4 on, behind row 3's key."""
    return cut(x, 4, count).but(k_carry=one_hot(3, "T") @ x.k)


def joined(head, tail):
    return piece(0, 4).T @ head["o"] + piece(4, 3).T @ tail["o"]


def segments(name, m, floor=None, **settings):
    """A segment hands on its states, its last key, and the pairs that are still in a window."""
    windowed = "window" in m.declared

    def pairs(x):
        told = {"eps": x.e} if "e" in x else {}
        told |= {"window": integer(B)} if windowed else {}
        told |= {"decay_floor": const(floor)} if floor else {}
        of = lambda x, **axes: renamed(m, axes, x.but(**told), **settings)
        head = of(cut(x, 0, 4), T=4)
        carried = {"initial_" + n[6:]: S for n, S in head.items() if n.startswith("final_")}
        if windowed:
            carried |= {"tail_k": piece(0, 4) @ shift(x.k), "tail_v": piece(0, 4) @ x.v}
        tail = of(followed(x).but(**carried, sequence_start=False), T=3, P=4)
        return {**tail, "o": joined(head, tail)}, of(x)

    taken = inputs_of(m) if m is deltanet else {**inputs_of(m), "e": ": normalizer"}
    dropped = () if "normalization" in settings else ("initial_normalizer",)
    taken = {n: text for n, text in taken.items() if n not in dropped}
    identity(name, m, "4 + 3 tokens with everything carried: outputs and gradients of the whole", taken, pairs)


def factor(P):
    """L with P = L L^T, below the diagonal."""

    def step(rest, j):
        e = one_hot(j, "K")
        column = rest @ e / sqrt(e @ rest @ e)
        return rest - outer(column, column), column

    return scan(step, P, iota("K"))[1].T


def least_squares_segments(x):
    """rls starts at a multiple of I. With P = L L^T it continues as S = L S', x' = L^T x, q' = L^T q, P'_0 = I."""
    head = renamed(rls, {"T": 4}, cut(x, 0, 4))
    L, y = factor(head["final_covariance"]), followed(x)
    y = y.but(q=y.q @ L, k=y.k @ L, k_carry=y.k_carry @ L, initial_state=solve(L, head["final_state"]), lam=1, sequence_start=False)
    tail = renamed(rls, {"T": 3}, y)
    P = L @ tail["final_covariance"] @ L.T
    return {"o": joined(head, tail), "final_state": L @ tail["final_state"], "final_covariance": P}, run(rls, x)


def segment_rows():
    segments("shifted_segments", deltanet, alignment="next_latent")
    segments("segments", falcon1)
    segments("segments", falcon2)
    segments("segments", falcon2_lite, floor="7/8")
    segments("segments", falcon2a)
    segments("segments_normalized", falcon2a, normalization="features")
    segments("segments", falcon3)
    segments("segments", falcon3a)
    says = "4 + 3 tokens with state and covariance carried: outputs of the whole"
    identity("segments", rls, says, {**inputs_of(rls), "lam": " : ridge"}, least_squares_segments)


chunk_rows()
segment_rows()
