"""Results of FALCON's steps, and other forms of them: falcon-family.md 1 to 3 and 5."""
from assay.language import const, contract, iota, log, maximum, outer, real, scan, shift, size, solve, sqrt, where, zeros
from assay.language.scope import emit, integer
from deltanet import deltanet
from falcon1 import falcon1
from falcon2 import falcon2
from falcon2_lite import falcon2_lite
from falcon2a import falcon2a
from falcon3 import falcon3
from falcon3a import falcon3a
from falcon_chunks import B, COLUMNS, columns, last, mask, overshooting, without_tail
from falcon_gains import STATE, answer, bare, delta_rule, from_second, gains, given, identity, means, over
from gated_deltanet import gated_deltanet
from gla import gla
from linear_attention import linear_attention
from mamba2 import mamba2
from retnet import retnet
from rls import rls
from rmsnorm import rmsnorm
from rows import Inputs, eye, inner_rows, inputs_of, one_hot, only, piece, run

STEP = {"alignment": "same_step"}


def without(taken, *names):
    return {name: text for name, text in taken.items() if name not in names}


def unit_rows(k):
    return k / sqrt((k * k).sum(-1))[:, None]


# ---- conventions: sections 1 to 3


def shift_of_a_start(x):
    """Behind o_1 = 0."""
    last_rows = {name: piece(1, 6) @ x[name] for name in ("q", "v", "beta", "lam")}
    out = answer(falcon1, x.but(**last_rows, k=piece(0, 6) @ x.k), **STEP)
    return answer(falcon1, x), {**out, "o": piece(1, 6).T @ out["o"]}


def zero_features(x):
    decay = from_second(x.beta * x.lam / (x.lam + x.e))
    left = answer(falcon1, x.but(k=0 * x.k))["final_state"]
    return {"S": left}, {"S": scan(lambda S, a: ((1 - a) * S, None), x.initial_state, decay)[0]}


def zero_denominators(x):
    return {"S": answer(falcon1, bare(x).but(k=0 * x.k, e=const(0)))["final_state"]}, {"S": x.initial_state}


def norm(x):
    y = run(rmsnorm, x, eps=const("1/8"))["y"]
    square = (x.x * x.x).sum(-1) / size("D")
    return {"squares": (y * y).sum(-1)}, {"squares": size("D") * square / (sqrt(square) + const("1/8")) ** 2}


def row_norms(x):
    return sqrt((x.x * x.x).sum(-1) / size("D"))[:, None]


def normalized(x, eps):
    return {"o": run(falcon2a, x, eps=x.e, eps_normalizer=eps, normalization="features")["o"]}


def channel_of_ones(x, eps, power=1):
    """The normalizer as a value channel of ones: numerators over (denominator + eps)^power."""
    ones = answer(falcon2a, x.but(v=zeros("T", 1) + 1, initial_state=x.initial_normalizer[:, None]))["o"]
    return {"o": answer(falcon2a, x)["o"] / (ones + eps) ** power}


def conventions():
    of = lambda name, statement, pairs, dropped=(): identity(name, falcon1, statement, without(given(falcon1), *dropped), pairs, "1")
    of(
        "shift_of_a_start", "S_0 = 0: the unshifted rule on (k_1..k_{T-1}; v_2..v_T) behind o_1 = 0",
        lambda x: shift_of_a_start(x.but(initial_state=zeros("K", "V"))), ["initial_state"],
    )  # fmt: skip
    clamped = lambda x: answer(falcon1, x, decay_floor="1/1000")
    of("idle_clamp", "a floor below every decay: raw, gradients too", lambda x: (clamped(x), answer(falcon1, x)))
    of("zero_features", "x = 0: no write, S_T = prod (1 - beta lambda / (lambda + eps)) S_0", zero_features)
    of("zero_denominators", "x = 0, lambda = eps = 0: S_T = S_0", zero_denominators)
    x, eps = inputs_of(rmsnorm), {"eps": ""}
    identity("norm", rmsnorm, "|y|^2 = d (r / (r + eps))^2", x, norm, "2")
    identity(
        "eps_to_zero", rmsnorm, "eps -> 0: y -> x / r", {**x, **eps}, lambda x: (run(rmsnorm, x), {"y": x.x / row_norms(x)}), "2",
        order=1, rate=lambda x: {"y": -x.x / row_norms(x) ** 2},
    )  # fmt: skip
    taken = {**inputs_of(falcon2a), "e": ": normalizer"}
    identity(
        "normalizer_is_a_channel", falcon2a, "the normalizer is a value channel of ones", {**taken, "n": ": normalizer"},
        lambda x: (normalized(x, x.n), channel_of_ones(x, x.n)), "3.4",
    )  # fmt: skip
    identity(
        "eps_normalizer_to_zero", falcon2a, "eps_normalizer -> 0: o -> S^T q / z.q", {**taken, **eps},
        lambda x: (normalized(x, x.eps), normalized(x, const(0))), "3.4",
        order=1, rate=lambda x: {"o": -channel_of_ones(x, const(0), 2)["o"]},
    )  # fmt: skip


# ---- one mechanism as another


def all_alike(x):
    return x.but(k=zeros("T", "K") + one_hot(0, "T") @ x.k, v=zeros("T", "V") + one_hot(1, "T") @ x.v)


def tied(x):
    return x.but(beta=zeros("T", "V") + x.beta[:, None])


def by_column(x):
    def column(_, v, beta, S):
        out = answer(falcon1, x.but(v=v[:, None], beta=beta, initial_state=S[:, None]))
        return None, tuple(out[name][:, 0] for name in STATE)

    return {name: a.T for name, a in zip(STATE, scan(column, None, x.v.T, x.beta.T, x.initial_state.T)[1])}


def reductions():
    def same(name, m, statement, left, right, taken=None):
        identity(name, m, statement, taken or without_tail(m), lambda x: (left(x), right(x)))

    floor = {"decay_floor": "7/8"}  # some rows at the floor, some above
    one = lambda x, **more: answer(falcon3, x, window=1, **more)
    same("window_of_one", falcon3, "window 1: outputs and gradients of falcon1", one, lambda x: answer(falcon1, x))
    same(
        "window_of_one_clamped", falcon3, "window 1 and a decay floor: outputs and gradients of falcon2_lite",
        lambda x: one(x, **floor), lambda x: answer(falcon2_lite, x, **floor),
    )  # fmt: skip
    constant = "equal pairs: any window is window 1"
    alike = lambda m, **window: lambda x: answer(m, all_alike(x), **window)
    same("constant_stream", falcon3, constant, alike(falcon3), alike(falcon1))
    same("constant_stream", falcon3a, constant, alike(falcon3a), alike(falcon3a, window=1))
    same(
        "tied_gains", falcon2, "equal gains: falcon2_lite, dbeta summed over channels", lambda x: answer(falcon2, tied(x), **floor),
        lambda x: answer(falcon2_lite, x, **floor), given(falcon2_lite),
    )  # fmt: skip
    same("independent_channels", falcon2, "every column is falcon1 with V = 1", lambda x: answer(falcon2, x), by_column)
    same("ridge_zero", falcon1, "lambda = 0: deltanet with beta / (|x|^2 + eps)", lambda x: answer(falcon1, bare(x)), delta_rule)
    unit = lambda x: bare(x).but(k=unit_rows(x.k), e=const(0))
    same(
        "unit_keys", falcon1, "|x| = 1, lambda = eps = 0: deltanet", lambda x: answer(falcon1, unit(x)),
        lambda x: only(run(deltanet, unit(x), scale=1, alignment="next_latent"), *STATE),
    )  # fmt: skip


# ---- what a write achieves


def full_steps(x):
    return bare(x).but(beta=zeros("T") + 1, e=const(0))


def written(x):
    """S_t^T x_t."""
    return from_second(answer(falcon1, x.but(q=shift(x.k)))["o"])


def residual(x):
    x = overshooting(x)
    g = gains(falcon1, x, x.e)
    before = shift(answer(falcon1, x.but(q=x.k))["o"])
    left = (1 - g.eta * g.E)[:, None] * (x.v - before) + (1 - g.gamma)[:, None] * before
    return {"r": from_second(x.v - written(x))}, {"r": from_second(left)}


def orthonormal(x):
    u = eye("T", "K") @ x.u
    k = eye("T", "K") - 2 / inner_rows(x.u, x.u) * outer(u, x.u)
    S = answer(falcon1, full_steps(x).but(k=k))["final_state"]
    return {"v": shift(k) @ S}, {"v": from_second(x.v)}


def writes():
    of = lambda name, statement, pairs, taken=given(falcon1), **more: identity(name, falcon1, statement, taken, pairs, **more)
    stored = lambda x: ({"v": written(full_steps(x))}, {"v": from_second(x.v)})
    of("full_step_stores", "beta = 1, lambda = eps = 0: S_t^T x_t = v_t", stored)
    of("residual_after_the_write", "raw: v - S_t^T x = (1 - eta |x|^2) r + alpha S_{t-1}^T x", residual)
    of(
        "orthonormal_keys_are_kept", "orthonormal keys, beta = 1, lambda = eps = 0: S_T^T x_s = v_s for all s", orthonormal,
        {**given(falcon1), "u": "K : key"}, shape=(5, 5, 3),
    )  # fmt: skip


# ---- recursive least squares


def reads(x, state):
    """o and S_T where S_t is made of the pairs up to t, a weight of 1 for each of these."""
    t = iota("T")
    seen = lambda i: where((0 < t) & (t <= i), const(1), const(0))
    o = scan(lambda _, q, i: (None, q @ state(seen(i))), None, x.q, t)[1]
    return {"o": o, "final_state": state(seen(size("T")))}


def least_squares():
    taken = {**inputs_of(rls), "lam": " : ridge"}
    limit = {**without(taken, "lam"), "eps": ""}
    x_of = lambda x, seen: seen[:, None] * shift(x.k)
    precision = lambda x, X: X.T @ X + where(iota("K")[:, None] == iota("K"), x.lam, 0)

    def batch(x):
        X = shift(x.k)
        out = reads(x, lambda seen: solve(precision(x, x_of(x, seen)), x_of(x, seen).T @ x.v + x.lam * x.initial_state))
        return run(rls, x), {**out, "final_covariance": solve(precision(x, X), eye("K", "K"))}

    identity("batch_ridge", rls, "the ridge regression of all pairs so far, lambda once", taken, batch)
    of = lambda x, lam: only(run(rls, x, lam=lam), *STATE)
    error = lambda x: x.v - shift(x.k) @ x.initial_state
    identity(
        "precision_to_infinity", rls, "lambda = 1/eps: S_T -> S_0", limit,
        lambda x: (of(x, 1 / x.eps), reads(x, lambda seen: x.initial_state)), order=1,
        rate=lambda x: reads(x, lambda seen: x_of(x, seen).T @ error(x)),
    )  # fmt: skip

    def weights(x, seen, r):
        """(X X^T)^{-1} r, of the pairs that are seen."""
        X = x_of(x, seen)
        return solve(X @ X.T + where(iota("T")[:, None] == iota("T"), 1 - seen, 0), seen[:, None] * r)

    identity(
        "precision_to_zero", rls, "lambda -> 0, as many independent x as T <= K: the interpolation nearest to S_0", limit,
        lambda x: (of(x, x.eps), reads(x, lambda seen: x.initial_state + x_of(x, seen).T @ weights(x, seen, error(x)))), order=1,
        rate=lambda x: reads(x, lambda seen: -(x_of(x, seen).T @ weights(x, seen, weights(x, seen, error(x))))), shape=(5, 4, 3),
    )  # fmt: skip


# ---- masks


def associative(m, x, k, log_decay, **more):
    """o and S_T of a mechanism with these keys and decays."""
    return only(run(m, x, **{"k": k, "log_decay": log_decay, "scale": 1, **more}), *STATE)


def direct_gates(x):
    g = gains(falcon2a, x, x.e)
    return answer(falcon3a, x.but(alpha=1 - g.gamma, beta=g.eta * g.E, e=const(0)), window=1), answer(falcon2a, x)


def writes_add_up(x):
    x = x.but(alpha=zeros("T"))
    sums = lambda S, eta, N: (S + eta * N, None)
    S = scan(sums, x.initial_state, gains(falcon3a, x, x.e).eta, means(falcon3a, x)[2])[0]
    return {"S": answer(falcon3a, x)["final_state"]}, {"S": S}


def impulses(x, window=B):
    """One key and one value channel per token, and queries that see all keys: o(t, j) is M(t, j)."""
    x = x.but(q=zeros("T", "K") + 1, k=eye("T", "K"), v=eye("T", "V"), initial_state=zeros("K", "V"), e=const(0))
    return answer(falcon3a, x, window=window)["o"]


def factors(x, window):
    return mask(Inputs(gamma=1 - from_second(x.alpha), eta=from_second(x.beta)), window) @ eye("T", "V")


def row_sums(x, window):
    sums = scan(lambda s, a, b: ((1 - a) * s + b,) * 2, const(0), from_second(x.alpha), from_second(x.beta))[1]
    return {"sums": impulses(x, window).sum(-1)}, {"sums": sums}


def harmonic_weights(x):
    """H_B - H_{j-2} + (j - 2) / B up to j = B, then 1; tokens counted from 1, and done with their B steps at T."""
    weight = lambda j: 1 if j > B else sum((const(1) / n for n in range(j - 1, B + 1)), const(j - 2) / B)
    M = last(impulses(x.but(alpha=zeros("T"), beta=zeros("T") + 1)))
    done = (0 < iota("V")) & (iota("V") <= 7 - B)
    expected = sum((weight(j) * one_hot(j - 1, "V") for j in range(2, 7 - B + 2)), zeros("V"))
    return {"weights": where(done, M, 0)}, {"weights": expected}


def stationary_mask(x):
    M = impulses(x.but(beta=zeros("T") + x.rho, alpha=zeros("T") + x.a))
    u = iota("T")[:, None] - iota("V")
    power = lambda n: where(0 <= n, (1 - x.a) ** maximum(n, integer(0)), 0)
    later = B <= iota("V")
    return {"M": where(later, M, 0)}, {"M": where(later, x.rho / B * sum((power(u - b) for b in range(1, B)), power(u)), 0)}


def masks():
    taken, square = without_tail(falcon3a), {"shape": (7, 7, 7)}
    of = lambda name, statement, pairs, taken=taken, m=falcon3a, **more: identity(name, m, statement, taken, pairs, **more)

    def as_gla(x):
        k, decay = shift(x.k), zeros("T", "K") + log(1 - from_second(x.alpha))[:, None]
        rho = from_second(x.beta) / (inner_rows(k, k) + x.e)
        return answer(falcon3a, x, window=1), associative(gla, x, rho[:, None] * k, decay)

    of("gated_linear_attention", "window 1: gla with k = rho x and gamma = 1 - alpha", as_gla)
    says = "falcon3a, window 1, rho = eta and alpha = eta lambda"
    of("direct_gates", says, direct_gates, {**given(falcon2a), "tail_k": "P K : key = 0", "tail_v": "P V : value = 0"}, falcon2a)
    of("writes_add_up", "alpha = 0: S_T = S_0 + sum rho N", writes_add_up)
    says = "alpha = 0, rho = 1: token j weighs 1, or H_B - H_{j-2} + (j-2)/B if j <= B"
    of("harmonic_weights", says, harmonic_weights, **square)
    each = lambda f: lambda x: [f(x, window) for window in (1, 3, 9)]
    of("mask_factors", "the weights are M = D Diag(rho) A", each(lambda x, B: ({"M": impulses(x, B)}, {"M": factors(x, B)})), **square)
    of("mask_row_sums", "rows of M sum to D rho whatever the window", each(row_sums), **square)
    says = "constant gates, j > B: M(t, j) = (rho / B) sum of gamma^u, u = max(0, t-j-B+1)..t-j"
    of("stationary_mask", says, stationary_mask, {**without(taken, "alpha", "beta"), "rho": " : gain", "a": " : decay_fraction"}, **square)


# ---- descent


def at_most(name, a, b):
    """The sides of a <= b."""
    return {name: b}, {name: maximum(a, b)}


def states(m, x):
    """The states that a mechanism's steps leave, [T K V], read by one query for each channel, and those before."""
    by_channel = scan(lambda _, i: (None, answer(m, x.but(q=zeros("T", "K") + one_hot(i, "K")))["o"]), None, iota("K"))[1]
    S = emit("transpose", by_channel, perm=[1, 0, 2])
    return where((iota("T") == 0)[:, None, None], x.initial_state, shift(S)), S


def descent(m, x):
    """f(S) = <S, C S> / 2 - <S, N> + ridge |S|^2 / 2 of every value channel: after the step, and what it promised."""
    g, (_, C, N) = gains(m, x, x.e), means(m, x)
    eta = (g.eta if m is falcon2 else g.eta[:, None]) + 0 * x.v
    ridge = over(1 - g.gamma, g.eta) if m is falcon3a else x.lam
    # The largest eigenvalue of C, which is of rank one or, of two keys, 2 x 2.
    square = contract("tij,tij->t", C, C)
    largest = where(square == 0, 0, (g.E + sqrt(2 * square - g.E * g.E)) / 2 if m is falcon3 else g.E)

    def step(_, S, after, C, N, eta, ridge, largest):
        gradient = lambda S: C @ S - N + ridge * S
        f = lambda S: (S * (gradient(S) - N)).sum(0) / 2
        return None, (f(after), f(S) - eta * (2 - eta * (largest + ridge)) / 2 * (gradient(S) ** 2).sum(0))

    return [from_second(f) for f in scan(step, None, *states(m, x), C, N, eta, ridge, largest)[1]]


def descents():
    promise = "f(S_{t-1}) - eta (2 - eta L) |grad f|^2 / 2"
    for m, K in ((falcon1, 4), (falcon2, 4), (falcon3, 2)):
        identity(
            "descent", m, f"raw: f(S_t) <= {promise}", without_tail(m), lambda x, m=m: at_most("f", *descent(m, x)), shape=(7, K, 3)
        )  # fmt: skip
    both = lambda m, x: tuple({"f": f} for f in descent(m, x))
    identity("descent_without_ridge", falcon1, f"lambda = 0: f(S_t) = {promise}", given(falcon1), lambda x: both(falcon1, bare(x)))
    for m in (falcon2a, falcon3a):
        identity("descent_equality", m, f"f(S_t) = {promise}", without_tail(m), lambda x, m=m: both(m, x))


# ---- transitions


def transition(m, x, **settings):
    """S_0 = I, v = 0 and V = K: S_T is the product of the transitions A_t."""
    return answer(m, x.but(v=zeros("T", "V"), initial_state=eye("K", "V")), **STEP, **settings)["final_state"]


def eigenvalues(x, along, gamma, **settings):
    """A x = along x, and A y = gamma y on all that is orthogonal to x."""
    A, k = transition(falcon1, x, **settings), first(x.k)
    turned = eye("V", "K") @ k
    across = eye("K", "K") - outer(k, k) / inner_rows(k, k)
    return {"x": A @ turned, "y": A @ (eye("V", "K") @ across)}, {"x": along * k, "y": gamma * across}


def first(a):
    return one_hot(0, "T") @ a


def gains_of_one(x, floor=None):
    """eta |x|^2 and gamma of the only step."""
    E = inner_rows(first(x.k), first(x.k))
    eta = first(x.beta) / (E + first(x.lam) + x.e)
    return eta * E, 1 - eta * first(x.lam) if floor is None else const(floor)


def pivots(m, x, **settings):
    """The pivots of I - A^T A, which are positive where |A| < 1."""
    A = transition(m, x, **settings)

    def step(rest, i):
        e = one_hot(i, "V")
        pivot = e @ rest @ e
        return rest - outer(rest @ e, rest @ e) / pivot, pivot

    return scan(step, where(iota("V")[:, None] == iota("V"), 1, 0) - A.T @ A, iota("V"))[1]


def write_size(x, square):
    """One write into nothing: |S_1| = |eta x v^T|, and beta |v| / (2 sqrt(lambda + eps))."""
    least, k = first(x.lam) + x.e, first(x.k)
    S = answer(falcon1, x.but(k=sqrt(square * least) * unit_rows(x.k), initial_state=zeros("K", "V")), **STEP)["final_state"]
    v = first(x.v)
    return sqrt((S * S).sum(-1).sum()), first(x.beta) * sqrt((v * v).sum()) / (2 * sqrt(least))


def transitions():
    one, floor = {"shape": (1, 4, 4)}, {"decay_floor": "3/4"}
    of = lambda name, statement, pairs, m=falcon1, **more: identity(name, m, statement, without_tail(m), pairs, **{**one, **more})

    def raw(x):
        x = overshooting(x)
        write, gamma = gains_of_one(x)
        return eigenvalues(x, gamma - write, gamma)

    def without_eps(x):
        x = x.but(e=const(0))
        return eigenvalues(x, 1 - first(x.beta), gains_of_one(x)[1])

    def clamped(x):
        x = overshooting(x)
        write, gamma = gains_of_one(x, "3/4")
        return eigenvalues(x, gamma - write, gamma, **floor)

    of("eigenvalues", "raw: A_t has gamma - eta |x|^2 along x and gamma across", raw)
    of("eigenvalues_without_eps", "raw, eps = 0: A_t has 1 - beta along x", without_eps)
    of("eigenvalues_clamped", "clamped: A_t has floor - eta |x|^2 along x, not 1 - beta", clamped)
    contracts = lambda m, **settings: lambda x: at_most("pivots", zeros("V"), pivots(m, overshooting(x), **settings))
    of("contraction", "raw, beta in (0, 2): |A_t| <= 1", contracts(falcon1))
    of("contraction_clamped", "clamped, beta in (0, 2): |A_t| <= 1", contracts(falcon1, **floor))
    of("contraction", "raw, beta in (0, 2): |A_T ... A_1| <= 1", contracts(falcon3), falcon3, shape=(4, 4, 4))
    sizes = lambda x: [at_most("size", *write_size(x, const(n) / 8)) for n in (1, 4, 7, 9, 12, 64)]
    of("write_size", "|eta x r^T| <= beta |r| / (2 sqrt(lambda + eps))", sizes, shape=(1, 4, 3))
    attained = lambda x: tuple({"size": a} for a in write_size(x, const(1)))
    of("write_size_attained", "|x|^2 = lambda + eps: |eta x r^T| = beta |r| / (2 sqrt(lambda + eps))", attained, shape=(1, 4, 3))


# ---- relations to other mechanisms


def delta_rule_of(x, error, b, v):
    """gated_deltanet with decay gamma, write strength b and values v."""
    decay = log(gains(falcon1, x, x.e).gamma)
    return associative(gated_deltanet, x, shift(x.k), decay, error=error, beta=b, v=v), answer(falcon1, x)


def as_gated_delta_rule(x):
    g = gains(falcon1, x, x.e)
    return delta_rule_of(x, "decayed", g.eta / g.gamma, g.gamma[:, None] * x.v)


def as_state_space_duality(x):
    g = gains(falcon2a, x, x.e)
    return associative(mamba2, x, g.eta[:, None] * shift(x.k), log(g.gamma)), answer(falcon2a, x)


def as_retention(x):
    """beta_t ratio / (1 + ratio) = 2^-5, the decay of RetNet's first head, for the ratio 1."""
    eta = 1 / (32 * inner_rows(x.k, x.k))
    x = x.but(lam=zeros("T") + 1, beta=zeros("T") + const("1/16"), e=const(0))
    other = only(run(retnet, x, k=eta[:, None] * x.k, scale=1), *STATE)
    return other, answer(falcon2a, x, ridge_coupling="live", **STEP)


def as_linear_attention(x):
    x = full_steps(x).but(k=unit_rows(x.k))
    return only(run(linear_attention, x, scale=1), *STATE), answer(falcon2a, x, **STEP)


def window_as_tokens(x):
    """One token for every pair of a window; only the first decays, and the last is read."""
    g, (block, pair) = gains(falcon3a, x, x.e), columns()
    weight = (block.T @ pair).sum(-1)
    newest = block @ real(B * iota("T")) == real(iota(COLUMNS))
    y = x.but(q=block @ x.q, v=pair @ x.v)
    out = associative(mamba2, y, (block @ over(g.eta, weight))[:, None] * (pair @ shift(x.k)), where(newest, block @ log(g.gamma), 0))
    read = where(iota(COLUMNS) == B * iota("T")[:, None] + B - 1, const(1), const(0))
    return {**out, "o": read @ out["o"]}, answer(falcon3a, x)


def relations():
    of = lambda name, m, statement, pairs: identity(name, m, statement, without_tail(m), pairs)
    of("gated_delta_rule", falcon1, "gated_deltanet with g = gamma, b = eta / gamma and values gamma v", as_gated_delta_rule)
    of(
        "undecayed_delta_rule", falcon1, "gated_deltanet, error = undecayed, with g = gamma and b = eta",
        lambda x: delta_rule_of(x, "undecayed", gains(falcon1, x, x.e).eta, x.v),
    )  # fmt: skip
    of("state_space_duality", falcon2a, "mamba2 with a = gamma, B = eta x, C = q", as_state_space_duality)
    of("retention", falcon2a, "constant gamma: retnet with k = eta x", as_retention)
    of("linear_attention", falcon2a, "eta = gamma = 1: linear_attention", as_linear_attention)
    of("window_as_tokens", falcon3a, "mamba2 with one token per pair of a window", window_as_tokens)


for part in (conventions, reductions, writes, least_squares, masks, descents, transitions, relations):
    part()
