"""Softmax attention, Parallax, local linear attention and their relatives of equal weights: lla-family.md 0, 2 to 7, 9, 10 and 12."""
from affine_linear_attention import affine_linear_attention
from affine_mesanet import affine_mesanet
from assay.language import const, dot, exp, iota, log, outer, real, scan, shift, size, solve, sqrt, where, zeros
from common import diagonal, largest
from linear_attention import linear_attention
from lla import lla
from mesanet import mesanet
from parallax import parallax
from parallax_gate import parallax_gate
from rows import (
    Inputs, Reference, eye, filled, gradients, inner, inputs_of, one_hot, only, piece, reflection, renamed, row, run,
)  # fmt: skip
from softmax_attention import softmax_attention
from value_averaging import value_averaging

SOFTMAX = (softmax_attention, parallax, lla)
UNIFORM = (affine_linear_attention, affine_mesanet)
TEMPLATE = (softmax_attention, parallax, lla, value_averaging, affine_linear_attention, affine_mesanet)
TILTED = (softmax_attention, parallax, lla, affine_linear_attention, affine_mesanet, mesanet)
MODES = (("", "mass"), ("absolute_", "absolute"), ("max_", "max"))


def identity(name, mechanism, statement, source, inputs, pairs, **more):
    row(name, getattr(mechanism, "name", mechanism), statement, f"lla-family.md {source}", inputs, pairs, **more)


def given(m, *dropped, **other):
    """A mechanism's inputs, with one number for lambda."""
    taken = inputs_of(m, *dropped, "initial_state", "initial_normalizer", **other)
    return {**taken, "lam": " : ridge"} if "lam" in taken else taken


def o(m, x, **other):
    """The mechanism's o, causal, with keys and values along T if it has them there."""
    ridge = {"ridge": ""} if "lam" in m.declared and "ridge" not in other else {}
    x = x.without("initial_state", "eps")
    if m is value_averaging or m in UNIFORM or m in (mesanet, linear_attention):
        x = x.but(**{name: tokens(x[name]) for name in ("k", "v") if name in x})
        other = {name: tokens(a) if name in ("k", "v") else a for name, a in other.items()}
    return run(m, x, **ridge, **other)["o"]


def tokens(a):
    """Rows along S as rows along T, of as many."""
    return eye("T", "S") @ a if getattr(a, "shape", ())[:1] == ("S",) else a


def pair(left, right):
    return {"o": left}, {"o": right}


def at(t, a):
    return one_hot(t, a.shape[0]) @ a


# ---- forms that share nothing with the mechanisms: raw moments


def moments(w, q, x):
    """Moments of keys, values and a query under weights on keys: omega and means, C = Cov(k), X = Cov(v, k), z = kbar - q."""
    omega = w.sum()
    p = w / omega
    kbar, vbar = p @ x.k, p @ x.v
    C, X = (p[:, None] * x.k).T @ x.k - outer(kbar, kbar), (p[:, None] * x.v).T @ x.k - outer(vbar, kbar)
    return Inputs(w=w, omega=omega, kbar=kbar, vbar=vbar, z=kbar - q, C=C, X=X)


def softmax_weights(q, i, x):
    seen = iota(x.k.shape[0]) <= i
    return where(seen, exp(where(seen, (x.k @ q) / x.bandwidth, 0)), 0)


def equal_weights(q, i, x):
    return where(iota(x.k.shape[0]) <= i, const(1), const(0))


def each_row(x, f, weights=softmax_weights):
    """f(moments, query, i) of every query."""
    return scan(lambda _, q, i: (None, f(moments(weights(q, i, x), q, x), q, i)), None, x.q, iota("T"))[1]


def mass(mode, m, q, i, x):
    """The divisor of lambda: 1, omega_i, or omega_i exp(-m_i)."""
    if mode == "mass":
        return const(1)
    return m.omega if mode == "absolute" else m.omega * exp(-largest((x.k @ q) / x.bandwidth, iota("S") <= i))


def ridge_solve(C, ridge, z):
    return solve(C + diagonal(filled(ridge, ("K",)), "K"), z)


def basis(rows, count):
    """[K K]: the first rows, so many of them and K at most, made orthonormal; zeros where there are none."""

    def step(U, r, j):
        e = r - U.T @ (U @ r)
        return where((j < count) & (j < size("K")), U + outer(one_hot(j, "K"), e / sqrt(dot(e, e))), U), None

    return scan(step, zeros("K", "K"), rows, iota(rows.shape[0]))[0]


def pseudo_solve(A, U, count, b):
    """A^+ b of a symmetric matrix whose range the rows of U span."""
    inside = U @ A @ U.T + diagonal(where(iota("K") < count, const(0), const(1)), "K")
    return U.T @ solve(inside, U @ b)


def of_covariance(x, i):
    """The function that solves with C^+: its range is that of the differences of keys."""
    U = basis(shift(x.k, -1) - at(0, x.k), i)
    return lambda C, b: pseudo_solve(C, U, i, b)


def of_gram(x, i):
    U = basis(x.k, i + 1)
    return lambda G, b: pseudo_solve(G, U, i + 1, b)


# ---- 9: the ridge

LLA = given(lla)
EPS = {"eps": ""}
ABOVE = {**given(lla, "lam"), **EPS}


def slope(mode, x):
    return each_row(x, lambda m, q, i: -mass(mode, m, q, i, x) * (m.X @ m.z))


for name, mode in MODES:
    identity(
        name + "ridge_to_infinity", lla, "lambda = 1/eps: o -> softmax_attention, with -(omega / lambda) X zbar", "9", ABOVE,
        lambda x, mode=mode: pair(o(lla, x, lam=1 / x.eps, lambda_mode=mode), o(softmax_attention, x)), order=1,
        rate=lambda x, mode=mode: {"o": slope(mode, x)},
    )  # fmt: skip
for name, mode in MODES:
    identity(
        name + "ridge_to_infinity_second_order", lla,
        "lambda = 1/eps: o - softmax_attention + (omega / lambda) X zbar -> 0, with (omega / lambda)^2 X C zbar", "9", ABOVE,
        lambda x, mode=mode: pair(
            o(lla, x, lam=1 / x.eps, lambda_mode=mode), o(softmax_attention, x) + x.eps * slope(mode, x)
        ), order=2,
        rate=lambda x, mode=mode: {"o": each_row(x, lambda m, q, i: mass(mode, m, q, i, x) ** 2 * (m.X @ (m.C @ m.z)))},
    )  # fmt: skip


def dimensions():
    return real(iota("K")) + 1


identity(
    "ridge_of_dimensions_to_infinity", lla, "lambda = diag(1, 2, 3, 4) / eps: o -> softmax_attention, with -X lambda^{-1} zbar", "9", ABOVE,
    lambda x: pair(o(lla, x, lam=zeros("T", "K") + dimensions() / x.eps, ridge="T K"), o(softmax_attention, x)), order=1,
    rate=lambda x: {"o": each_row(x, lambda m, q, i: -(m.X @ (m.z / dimensions())))},
)  # fmt: skip


def back(m, x, *names, **other):
    """Gradients of o."""
    y = x.without("ct_o", "eps")
    return only(gradients(lambda z: {"o": o(m, z, **{n: f(x) for n, f in other.items()})}, y, {"o": x.ct_o}), *names)


CT = {"ct_o": "T V : value"}
ALIKE = {"shape": (5, 5, 3)}  # gradients carry sums along S, which is then no axis of tokens, and as long as K
identity(
    "ridge_to_infinity_gradients", lla, "lambda = 1/eps: dq, dk and dv -> those of softmax_attention", "9", {**ABOVE, **CT},
    lambda x: (back(lla, x, "q", "k", "v", lam=lambda x: 1 / x.eps), back(softmax_attention, x, "q", "k", "v")), order=1,
    **ALIKE,
)  # fmt: skip
for name, mode in MODES:
    identity(
        name + "ridge_to_zero", lla,
        "lambda = eps: o -> vbar - X C^+ zbar, C singular in early rows, with (lambda / omega) X (C^+)^2 zbar", "9", ABOVE,
        lambda x, mode=mode: pair(
            o(lla, x, lam=x.eps, lambda_mode=mode), each_row(x, lambda m, q, i: m.vbar - m.X @ of_covariance(x, i)(m.C, m.z))
        ), order=1,
        rate=lambda x, mode=mode: {
            "o": each_row(x, lambda m, q, i: m.X @ twice(of_covariance(x, i), m.C, m.z) / mass(mode, m, q, i, x))
        },
    )  # fmt: skip


def twice(inverse, A, b):
    return inverse(A, inverse(A, b))


def of_reference(x, params, **other):
    """o of lla's reference: its program has neither conjugate gradients, which stop where a number says, nor lambda0=limit."""
    return Reference("lla", {"lambda" if name == "lam" else name: a for name, a in x.but(**other).items()}, "o", params)


def in_the_limit(x, lam, **params):
    return of_reference(x.without("eps"), {"lambda0": "limit", **params}, lam=lam)


identity(
    "no_ridge", lla, "lambda = 0 under lambda0 limit: o = vbar - X C^+ zbar, C singular in early rows", "12", given(lla, "lam"),
    lambda x: (
        in_the_limit(x, const(0)), {"o": each_row(x, lambda m, q, i: m.vbar - m.X @ of_covariance(x, i)(m.C, m.z))}
    ), proven=False,
)  # fmt: skip


def ridge_of_dimensions(x, ridge):
    """lambda of two dimensions, then 3 and 4: neither coordinates nor keys make up C alone."""
    return zeros("T", "K") + where(iota("K") < 2, ridge, dimensions())


for name, settings in (
    ("ridge_of_dimensions_to_zero", {}), ("absolute_ridge_of_dimensions_to_zero", {"lambda_mode": "absolute"}),
    ("ridge_of_dimensions_to_zero_in_blocks", {"blocks": 2, "block_form": "centered"}),
):  # fmt: skip
    identity(
        name, lla, "lambda = diag(eps, eps, 3, 4): o -> that of lambda = diag(0, 0, 3, 4) under lambda0 limit", "12", ABOVE,
        lambda x, settings=settings: (
            {"o": o(lla, x, lam=ridge_of_dimensions(x, x.eps), ridge="T K", **settings)},
            in_the_limit(x, ridge_of_dimensions(x, 0), **settings),
        ), order=1,
    )  # fmt: skip


def by_row(mode, x):
    """lambda of every row in the unit of a mode, for one lambda in that of mode absolute."""
    return each_row(x, lambda m, q, i: mass(mode, m, q, i, x) / m.omega * x.lam)


def absolute(x):
    return o(lla, x, lambda_mode="absolute")


identity(
    "ridge_by_mass", lla, "lambda_mode mass at lambda_i = lambda / omega_i: o = that of mode absolute", "3", LLA,
    lambda x: pair(o(lla, x, lam=by_row("mass", x), ridge="T"), absolute(x)),
)  # fmt: skip
identity(
    "ridge_by_max", lla, "lambda_mode max at lambda_i = lambda exp(-m_i): o = that of mode absolute", "3", LLA,
    lambda x: pair(o(lla, x, lam=by_row("max", x), ridge="T", lambda_mode="max"), absolute(x)),
)  # fmt: skip
identity(
    "ridge_by_dimension", lla, "lambda of [T][K] with equal elements: o = that of one number", "3", LLA,
    lambda x: pair(o(lla, x, lam=filled(x.lam, ("T", "K")), ridge="T K", lambda_mode="absolute"), absolute(x)),
)  # fmt: skip


# ---- 9: the bandwidth


def equal(x, f):
    """f(moments, query, i, scores less their mean, their mean) of every query, at equal weights, scores times the bandwidth."""

    def of_row(m, q, i):
        scores = x.k @ q
        mean = (m.w * scores).sum() / m.omega
        return f(m, q, i, scores - mean, mean)

    return each_row(x, of_row, equal_weights)


def third(m, s, rows, mean, k, y):
    """E[s (rows - mean) (k - kbar).y]."""
    return (m.w * s * ((k - m.kbar) @ y)) @ (rows - mean) / m.omega


def slope_with_probe(m, q, s, x, y):
    return m.X @ q - third(m, s, x.v, m.vbar, x.k, y)


def slope_with_ridge(mode, x):
    """D of section 9: the ridge has a derivative of its own."""

    def of_row(m, q, i, s, mean):
        ridge, change = x.lam, const(0)
        if mode != "mass":
            ridge = x.lam / m.omega
            change = -ridge * (mean - (largest(x.k @ q, iota("S") <= i) if mode == "max" else 0))
        y = ridge_solve(m.C, ridge, m.z)
        dy = ridge_solve(m.C, ridge, m.C @ q - third(m, s, x.k, m.kbar, x.k, y) - change * y)
        return slope_with_probe(m, q, s, x, y) - m.X @ dy

    return {"o": equal(x, of_row)}


identity(
    "bandwidth_to_infinity", softmax_attention, "bandwidth = 1/eps: o -> value_averaging, with X_u q", "9",
    {**given(softmax_attention, "bandwidth"), **EPS},
    lambda x: pair(o(softmax_attention, x, bandwidth=1 / x.eps), o(value_averaging, x)), order=1,
    rate=lambda x: {"o": equal(x, lambda m, q, i, s, mean: m.X @ q)},
)  # fmt: skip
identity(
    "bandwidth_to_infinity", parallax, "bandwidth = 1/eps: o -> affine_linear_attention, with X_u q - T_v rho", "9",
    {**given(parallax, "bandwidth"), **EPS},
    lambda x: pair(o(parallax, x, bandwidth=1 / x.eps), o(affine_linear_attention, x)), order=1,
    rate=lambda x: {"o": equal(x, lambda m, q, i, s, mean: slope_with_probe(m, q, s, x, one_hot(i, "T") @ x.rho))},
)  # fmt: skip
for name, mode, says in (
    ("", "mass", "on the means"), ("absolute_", "absolute", "on the sums, with D"),
    ("max_", "max", "on the sums, with D where sbar - max s stands for sbar"),
):  # fmt: skip
    identity(
        name + "bandwidth_to_infinity", lla, f"bandwidth = 1/eps: o -> affine_mesanet with lambda {says}", "9",
        {**given(lla, "bandwidth"), **EPS},
        lambda x, mode=mode: pair(
            o(lla, x, bandwidth=1 / x.eps, lambda_mode=mode), o(affine_mesanet, x, lambda_scaling="mean" if mode == "mass" else "sum")
        ),
        order=1, rate=lambda x, mode=mode: slope_with_ridge(mode, x),
    )  # fmt: skip


def two_keys(x, apart):
    """Every query has, times the bandwidth, the scores 3 and 3 - apart on two keys; exp(-1 / bandwidth) = eps."""
    q = x.k.T @ solve(x.k @ x.k.T, 3 - apart * real(iota("S")))
    return x.but(q=zeros("T")[:, None] + q, bandwidth=-1 / log(x.eps))


def between(a):
    return at(1, a) - at(0, a)


def line(x, power=1):
    """Along d between the keys: d.(k_1 - q) / |d|^2 or |d|^4."""
    d = between(x.k)
    return dot(d, at(0, x.k) - at(1, x.q)) / dot(d, d) ** power


def to_zero(m, name, along, **settings):
    """The second key's weight is eps."""
    identity(
        name, m, "exp(-1 / bandwidth) = eps: o -> the value of the nearest key", "9",
        {**given(m, "q", "bandwidth"), "t": "T : value", **EPS},
        lambda x: pair(at(1, o(m, two_keys(x, 1), **settings)), at(0, x.v)), order=1,
        rate=lambda x: {"o": (1 - along(two_keys(x, 1))) * between(x.v)}, shape=(2, 4, 3),
    )  # fmt: skip


def line_of(x):
    d = between(x.k)
    return dot(d, at(0, x.k) - at(1, x.q)) / x.lam


to_zero(softmax_attention, "bandwidth_to_zero", lambda x: const(0))
to_zero(parallax, "bandwidth_to_zero", lambda x: dot(between(x.k), at(1, x.rho)))
to_zero(lla, "bandwidth_to_zero", line_of)
to_zero(lla, "max_bandwidth_to_zero", line_of, lambda_mode="max")
identity(
    "absolute_bandwidth_to_zero", lla,
    "exp(-1 / bandwidth) = eps: o -> the line through the two nearest keys, not the value of the nearest", "9",
    {**given(lla, "q", "bandwidth"), "t": "T : value", **EPS},
    lambda x: pair(at(1, absolute(two_keys(x, 2))), at(0, x.v) - line(two_keys(x, 2)) * between(x.v)), order=1,
    rate=lambda x: {"o": x.lam * line(two_keys(x, 2), 2) * between(x.v)}, shape=(2, 4, 3),
)  # fmt: skip


# ---- 9: probes


def probe_and_growth(x):
    """The paper's rho* and 1 + eta = 1 / (1 - mu.rho* / omega) of every row, from offsets of keys."""

    def of_row(_, q, i):
        w, z = softmax_weights(q, i, x), x.k - q
        mu = w @ z
        rho = ridge_solve((w[:, None] * z).T @ z, x.lam, mu)
        return None, (rho, 1 / (1 - dot(mu, rho) / w.sum()))

    return scan(of_row, None, x.q, iota("T"))[1]


def probe_of_the_line(x):
    rho, growth = probe_and_growth(x)
    softmax = o(softmax_attention, x)
    return pair(absolute(x), softmax + growth[:, None] * (o(parallax, x, rho=rho) - softmax))


def tilt_of_the_line(x):
    rho, growth = probe_and_growth(x)
    return pair(absolute(x), o(parallax, x, rho=growth[:, None] * rho))


def affine_along(scaling):
    ridge = lambda m, x: x.lam if scaling == "mean" else x.lam / m.omega
    probe = lambda x: each_row(x, lambda m, q, i: ridge_solve(m.C, ridge(m, x), m.z), equal_weights)
    return lambda x: pair(o(affine_mesanet, x, lambda_scaling=scaling), o(affine_linear_attention, x, rho=probe(x)))


identity(
    "probe_of_the_line", lla, "o - softmax_attention = (1 + eta) (parallax(rho*) - softmax_attention)", "9", LLA, probe_of_the_line
)
identity("tilt_of_the_line", lla, "o = parallax((1 + eta) rho*)", "9", LLA, tilt_of_the_line)
AFFINE = given(affine_mesanet)
identity(
    "probe_of_the_line", affine_mesanet, "o = affine_linear_attention((C_u + lambda / i)^{-1} zbar)", "0", AFFINE, affine_along("sum")
)
identity(
    "probe_of_the_line_on_means", affine_mesanet, "lambda on the means: o = affine_linear_attention((C_u + lambda)^{-1} zbar)", "0", AFFINE,
    affine_along("mean"),
)  # fmt: skip
identity(
    "no_probe", parallax, "rho = 0: o = softmax_attention", "9", given(parallax, "rho"),
    lambda x: pair(o(parallax, x, rho=0), o(softmax_attention, x)),
)  # fmt: skip
identity(
    "no_probe", parallax_gate, "w_r = 0: o = softmax_attention", "9", given(parallax_gate, "w_r"),
    lambda x: pair(o(parallax_gate, x, w_r=zeros("K", "D")), o(softmax_attention, x)),
)  # fmt: skip
identity(
    "half_open_gate", parallax_gate, "w_g = 0: o = parallax(W_r x / 2)", "2", given(parallax_gate, "w_g"),
    lambda x: pair(o(parallax_gate, x, w_g=zeros("D")), o(parallax, x, rho=x.x @ x.w_r.T / 2)),
)  # fmt: skip
identity(
    "no_probe", affine_linear_attention, "rho = 0: o = value_averaging", "9", given(affine_linear_attention, "rho"),
    lambda x: pair(o(affine_linear_attention, x, rho=zeros("T", "K")), o(value_averaging, x)),
)  # fmt: skip
identity(
    "linear_in_the_probe", parallax, "o(3 rho) - softmax_attention = 3 (o(rho) - softmax_attention)", "9",
    {**given(parallax), "c": ": value"},
    lambda x: pair(o(parallax, x, rho=x.c * x.rho), x.c * o(parallax, x) + (1 - x.c) * o(softmax_attention, x)),
)  # fmt: skip


def by_steps(x, iterations, tolerance="0"):
    return of_reference(x, {"solver": "cg", "iterations": iterations, "tolerance": tolerance})


def one_step(x):
    """rho on the first residual: x = (zbar.zbar) / (zbar.Sigma zbar) zbar, Sigma with sum w = 1."""

    def tilt(m):
        Sigma_z = m.C @ m.z + (dot(m.z, m.z) + x.lam) * m.z
        step = dot(m.z, m.z) / dot(m.z, Sigma_z) * m.z
        return step / (1 - dot(m.z, step))

    return centred(x, tilt)


def first_two(x):
    return x.but(**{name: piece(0, 2, x[name].shape[0]) @ x[name] for name in ("q", "k", "v")})


for name, statement, source, pairs in (
    (
        "no_steps", "solver cg, iterations = 0: o = softmax_attention", "9",
        lambda x: (by_steps(x, 0), {"o": o(softmax_attention, x)}),
    ),
    (
        "no_steps_within_tolerance", "solver cg, tolerance above every residual: o = softmax_attention", "5",
        lambda x: (by_steps(x, 4, "1e6"), {"o": o(softmax_attention, x)}),
    ),
    (
        "one_step", "solver cg, iterations = 1: o from rho on the first residual", "5",
        lambda x: (by_steps(x, 1), {"o": one_step(x)}),
    ),
    (
        "steps_of_full_rank", "solver cg, iterations = K: o = that of solver direct", "9",
        lambda x: (by_steps(x, 4), {"o": o(lla, x)}),
    ),
    (
        "steps_of_the_rank", "solver cg, iterations = 2: the rows that see two keys at most are those of solver direct", "9",
        lambda x: (by_steps(first_two(x), 2), {"o": piece(0, 2) @ o(lla, x)}),
    ),
):  # fmt: skip
    identity(name, lla, statement, source, LLA, pairs, proven=False)


# ---- 6: blocks


def centred(x, tilt):
    return each_row(x, lambda m, q, i: m.vbar - m.X @ tilt(m))


def blocks_of_one(x, sigma):
    def tilt(m):
        variance = (m.C * eye("K", "K")).sum(-1)
        y = m.z / (variance + x.lam + (m.z * m.z if sigma else 0))
        return y / (1 - dot(y, m.z)) if sigma else y

    return centred(x, tilt)


for name, form in (("one_block_of_sigma", "sigma"), ("one_block_centered", "centered")):
    identity(
        name, lla, f"blocks = 1, block_form {form}: o = the line from C + lambda", "9", LLA,
        lambda x, form=form: pair(o(lla, x, block_form=form), centred(x, lambda m: ridge_solve(m.C, x.lam, m.z))),
    )  # fmt: skip
for name, form, says in (
    ("blocks_of_one_dimension", "sigma", "rho_a = zbar_a / Sigma_aa"),
    ("centered_blocks_of_one_dimension", "centered", "y_a = zbar_a / (Var(k_a) + lambda)"),
):
    identity(
        name, lla, f"blocks = K, block_form {form}: {says}", "6", LLA,
        lambda x, form=form: pair(o(lla, x, blocks=4, block_form=form), blocks_of_one(x, form == "sigma")),
    )  # fmt: skip


# ---- 9 and 10: tokens


def tokens_of(x):
    return tokens(x.v)


for m in SOFTMAX:
    identity("window_of_all", m, "window = T: o = that without a window", "9", given(m), lambda x, m=m: pair(o(m, x, window=7), o(m, x)))
    identity("window_of_one", m, "window = 1: o = v", "9", given(m), lambda x, m=m: pair(o(m, x, window=1), tokens_of(x)))
    identity(
        "last_row_sees_all", m, "causal = false: the last row is that of causal = true", "10", given(m),
        lambda x, m=m: pair(at(6, o(m, x, causal=False)), at(6, o(m, x))),
    )  # fmt: skip


def one_key(m, statement, factor, **settings):
    identity(
        "one_key", m, statement, "9", given(m),
        lambda x: pair(o(m, x, **{name: f() for name, f in settings.items()}), factor(x) * tokens_of(x)), shape=(1, 4, 3),
    )  # fmt: skip


for m in TEMPLATE:
    one_key(m, "T = 1: o = v", lambda x: const(1))
one_key(linear_attention, "T = 1, scale = 1: o = (k.q) v", lambda x: (x.q * x.k).sum(-1)[:, None], scale=lambda: const(1))
one_key(
    mesanet, "T = 1: o = (k.q) / (k.k + lambda) v", lambda x: ((x.q * x.k).sum(-1) / ((x.k * x.k).sum(-1) + x.lam))[:, None]
)


def same_key(x):
    return x.but(k=filled(0, x.k.shape) + at(0, x.k))


for m in TEMPLATE:
    if m is not value_averaging:
        identity(
            "equal_keys", m, "equal keys: o = value_averaging", "9", given(m),
            lambda x, m=m: pair(o(m, same_key(x)), o(value_averaging, x)),
        )  # fmt: skip


def query_at_the_mean(x):
    """Keys moved so that their weighted mean is the last query: its scores change by one number, and its weights do not."""
    q = at(6, x.q)
    w = softmax_weights(q, 6, x)
    y = x.but(k=x.k - (w @ x.k) / w.sum() + q)
    return pair(at(6, o(lla, y)), at(6, o(softmax_attention, y)))


identity("query_at_the_mean", lla, "q = kbar(q): o = softmax_attention", "9", LLA, query_at_the_mean)


def doubled_tokens(m, name="doubled_tokens", halved=False, proven=True, **settings):
    """Four tokens along U; every token twice is along T and S."""
    ridge = {"ridge": ""} if "lam" in m.declared else {}
    single = {n: " ".join("U" if a in ("T", "S") else a for a in text.split(" ")) for n, text in given(m).items()}

    def pairs(x):
        twice = lambda axis: where((2 * iota("U") <= iota(axis)[:, None]) & (iota(axis)[:, None] < 2 * iota("U") + 2), const(1), const(0))
        rows = {n: twice("T" if n in ("q", "rho") else "S") @ a for n, a in x.items() if a.shape[:1] == ("U",)}
        odd = where(iota("T") == 2 * iota("U")[:, None] + 1, const(1), const(0))
        y = x.without("s", "t")
        if halved:
            y["lam"] = x.lam / 2
        return pair(odd @ o(m, x.but(**rows), **settings), renamed(m, {"T": "U", "S": "U"}, y, **ridge, **settings)["o"])

    identity(
        name, m, "every token twice: o = that at lambda / 2" if halved else "every token twice: o unchanged", "9",
        {**single, "t": "T : value", "s": "S : value"}, pairs, shape=(8, 4, 3), proven=proven,
    )  # fmt: skip


doubled_tokens(softmax_attention)
doubled_tokens(parallax)
doubled_tokens(lla)
doubled_tokens(lla, "absolute_doubled_tokens", True, lambda_mode="absolute")
doubled_tokens(lla, "max_doubled_tokens", True, False, lambda_mode="max")
doubled_tokens(value_averaging)
doubled_tokens(affine_linear_attention)
doubled_tokens(affine_mesanet, halved=True)
doubled_tokens(affine_mesanet, "doubled_tokens_by_means", lambda_scaling="mean")
doubled_tokens(mesanet, halved=True)
doubled_tokens(mesanet, "doubled_tokens_by_means", lambda_scaling="mean")


def is_odd(axis):
    return (const(-1) ** iota(axis) < 0)[:, None]


def duplicate_keys(m):
    def pairs(x):
        odd = is_odd(x.k.shape[0])
        k = where(odd, shift(x.k), x.k)
        mean = where(odd, shift(x.v) + x.v, x.v + shift(x.v, -1)) / 2
        seen = lambda a: where(is_odd("T"), a, 0)
        return pair(seen(o(m, x.but(k=k))), seen(o(m, x.but(k=k, v=mean))))

    identity(
        "duplicate_keys", m, "values of equal keys replaced by their mean: o unchanged", "10", given(m), pairs, shape=(6, 4, 3)
    )


for m in (*SOFTMAX, *UNIFORM):
    duplicate_keys(m)


# ---- 10: invariances

for m in TEMPLATE:
    identity(
        "constant_values", m, "v_j = c: o = c", "10", {**given(m), "c": "V : value"},
        lambda x, m=m: pair(o(m, x, v=filled(0, x.v.shape) + x.c), zeros("T", "V") + x.c),
    )  # fmt: skip
for m in (*TEMPLATE, mesanet, linear_attention):
    identity(
        "linear_in_values", m, "o(2 v - 3 w) = 2 o(v) - 3 o(w)", "10",
        {**given(m), "w": given(m)["v"], "a": ": value", "b": ": value"},
        lambda x, m=m: pair(o(m, x, v=x.a * x.v + x.b * x.w), x.a * o(m, x) + x.b * o(m, x, v=x.w)),
    )  # fmt: skip


def plane(m):
    """Values on a plane over the keys. Row i has a ridge only while its keys do not span; K = 4."""
    base = {} if m is mesanet else {"base": "V : value"}
    inputs = {**given(m, "v", "lam"), "slope": "V K : value", **base}

    def on(x, a):
        return a @ x.slope.T + (x.base if base else 0)

    spans = lambda a: where((iota("T") < 4)[:, None], 0, a)

    def read(x, lam):
        return spans(o(m, x, v=on(x, x.k), lam=where(iota("T") < 4, 1, lam), ridge="T"))

    def rate(x):
        y = x.but(v=on(x, x.k))

        def of_row(m_, q, i):
            A = m_.C if base else m_.C + outer(m_.kbar, m_.kbar)
            offset = m_.z if base else -q
            found = x.slope @ solve(where(i < 4, eye("K", "K"), A), offset)
            return found if m is lla else found / m_.omega

        return {"o": spans(each_row(y, of_row, softmax_weights if m is lla else equal_weights))}

    says = "v_j = b + B k_j: o {} b + B q" if base else "v_j = B k_j: o {} B q"
    identity(
        "plane_reproduced", m, f"lambda = 0, {says.format('=')} where K + 1 keys are seen", "10", inputs,
        lambda x: pair(read(x, 0), spans(on(x, x.q))),
    )  # fmt: skip
    identity(
        "ridge_to_zero_on_a_plane", m,
        f"lambda = eps, {says.format('->')}, with {'lambda B C^{-1} zbar' if base else '-lambda B G^{-1} q'}", "9", {**inputs, **EPS},
        lambda x: pair(read(x, x.eps), spans(on(x, x.q))), order=1, rate=rate,
    )  # fmt: skip


for m in (lla, affine_mesanet, mesanet):
    plane(m)


def rotated(m):
    turned = lambda x: x.but(**{name: x[name] @ reflection("K", "K") for name in ("q", "k", "rho") if name in x})
    says = "q U, k U, rho U for an orthogonal U: o unchanged"
    identity("rotation", m, says, "10", given(m), lambda x: pair(o(m, turned(x)), o(m, x)))


def rescaled(m):
    factors = {"q": lambda c: c, "k": lambda c: c, "bandwidth": lambda c: c * c, "lam": lambda c: c * c, "rho": lambda c: 1 / c}
    larger = lambda x: x.but(**{name: f(x.c) * x[name] for name, f in factors.items() if name in x})
    says = "3 q, 3 k, 9 bandwidth, 9 lambda, rho / 3: o unchanged"
    identity("scaling", m, says, "10", {**given(m), "c": ": normalizer"}, lambda x: pair(o(m, larger(x)), o(m, x)))


def permuted(m):
    """The last row sees all tokens, and has its query and probe in another place."""

    def reversed_rows(a):
        axis = a.shape[0]
        return where(iota(axis)[:, None] + iota(axis) + 1 == size(axis), const(1), const(0)) @ a

    turned = lambda x: x.but(**{name: reversed_rows(x[name]) for name in ("k", "v") if name in x})
    says = "k and v in reverse order: the last row unchanged"
    identity("permutation", m, says, "10", given(m), lambda x: pair(at(6, o(m, turned(x))), at(6, o(m, x))))


def rotation_of_gradients(m):
    def pairs(x):
        d = back(m, x, *(name for name in ("q", "k", "rho") if name in x))
        product = sum((x[name].T @ a for name, a in d.items()), zeros("K", "K"))
        return {"product": product}, {"product": product.T}

    identity("rotation_of_gradients", m, "q^T dq + k^T dk + rho^T drho is symmetric", "10", {**given(m), **CT}, pairs, **ALIKE)


def scaling_of_gradients(m, name="scaling_of_gradients", **settings):
    def pairs(x):
        names = [n for n in ("q", "k", "rho", "bandwidth", "lam") if n in x]
        d = back(m, x, *names, **{n: lambda x, s=s: s for n, s in settings.items()})
        along = {n: inner(x[n], d[n]) if n in names else const(0) for n in ("q", "k", "rho", "bandwidth", "lam")}
        return {"sum": along["q"] + along["k"]}, {"sum": along["rho"] - 2 * along["bandwidth"] - 2 * along["lam"]}

    says = "<q, dq> + <k, dk> - <rho, drho> + 2 bandwidth dbandwidth + 2 <lambda, dlambda> = 0"
    identity(name, m, says, "10", {**given(m), **CT}, pairs, **ALIKE)


for m in TILTED:
    rotated(m)
    rescaled(m)
    permuted(m)
    rotation_of_gradients(m)
    scaling_of_gradients(m)
scaling_of_gradients(lla, "absolute_scaling_of_gradients", lambda_mode="absolute")
scaling_of_gradients(lla, "max_scaling_of_gradients", lambda_mode="max")
rotated(linear_attention)
permuted(value_averaging)


def moved(m):
    line = m is affine_mesanet
    places = ("k", "q") if line else ("k",)
    further = lambda x: x.but(**{name: x[name] + x.c for name in places})
    says = "k + c, q + c: o unchanged" if line else "k + c: o unchanged"
    identity("translation", m, says, "10", {**given(m), "c": "K : value"}, lambda x: pair(o(m, further(x)), o(m, x)))

    def gradient_sums(x):
        """The first key's gradient, and all others'."""
        d = back(m, x, *places)
        keys = d["k"].sum(0)
        if line:
            return {"k": keys}, {"k": -d["q"].sum(0)}
        return {"k": at(0, d["k"])}, {"k": at(0, d["k"]) - keys}

    says = "sum_j dk_j + sum_i dq_i = 0" if line else "sum_j dk_j = 0"
    identity("translation_of_gradients", m, says, "10", {**given(m), **CT}, gradient_sums, **ALIKE)


for m in (softmax_attention, parallax, affine_linear_attention, affine_mesanet):
    moved(m)


def moved_line(x):
    """A shift at right angles to every difference of keys keeps a row's scores but for a constant."""
    D = piece(1, 2, "S") @ x.k - at(0, x.k)
    c = x.c - D.T @ solve(D @ D.T, D @ x.c)
    return pair(o(lla, x.but(k=x.k + c, q=x.q + c)), o(lla, x))


identity(
    "translation", lla, "k + c, q + c where c.(k_j - k_1) = 0: o unchanged", "10", {**LLA, "c": "K : value"}, moved_line, shape=(3, 4, 3)
)


# ---- 3, 4 and 10: shifted scores


def with_feature(x, of_query, of_key, of_probe):
    """The last dimension of queries, keys and probes replaced by numbers: all scores of a row shift by their product over bandwidth."""
    last = iota("K") + 1 == size("K")
    numbers = {"q": of_query if getattr(of_query, "shape", ()) == () else of_query[:, None], "k": of_key, "rho": of_probe}
    return x.but(**{name: where(last, a, x[name]) for name, a in numbers.items() if name in x})


def shifted(x):
    return with_feature(x, x.f, 1, x.g)


def without_feature(x):
    return with_feature(x, 0, 0, 0)


FEATURE = {"f": "T : value", "g": ": value"}


def unchanged(m, name="shifted_scores", **settings):
    identity(
        name, m, "scores s_ij + c: o unchanged", "3", {**given(m), **FEATURE},
        lambda x: pair(o(m, shifted(x), **settings), o(m, without_feature(x), **settings)),
    )  # fmt: skip


def no_sum(m, name="score_gradients_cancel", **settings):
    """The last dimension of a query's gradient is the sum over bandwidth; o stands beside what is zero."""

    def pairs(x):
        d = back(m, shifted(x).without("f", "g"), "q", **{n: lambda x, s=s: s for n, s in settings.items()})["q"]
        got = {"sum": d @ where(iota("K") + 1 == size("K"), const(1), const(0)), "o": o(m, shifted(x.without("ct_o")), **settings)}
        return got, {"sum": zeros("T"), "o": o(m, without_feature(x.without("ct_o")), **settings)}

    identity(name, m, "sum_j dL/ds_ij = 0", "10", {**given(m), **FEATURE, **CT}, pairs, **ALIKE)


for m in SOFTMAX:
    unchanged(m)
unchanged(lla, "max_shifted_scores", lambda_mode="max")
identity(
    "absolute_shifted_scores", lla, "scores s_ij + c: o = that at lambda exp(-c)", "3", {**LLA, **FEATURE},
    lambda x: pair(
        o(lla, shifted(x), lambda_mode="absolute"),
        o(lla, without_feature(x), lambda_mode="absolute", ridge="T", lam=x.lam * exp(-x.f / x.bandwidth)),
    ),
)  # fmt: skip
for m in SOFTMAX:
    no_sum(m)
no_sum(lla, "max_score_gradients_cancel", lambda_mode="max")


def euler(x):
    settings = {"lambda_mode": lambda x: "absolute", "ridge": lambda x: "T"}
    d = back(lla, shifted(x).without("f", "g"), "q", "lam", **settings)
    sums = d["q"] @ where(iota("K") + 1 == size("K"), const(1), const(0))
    return {"sum": x.bandwidth * sums}, {"sum": -x.lam * d["lam"]}


identity(
    "euler", lla, "lambda_mode absolute: sum_j dL/ds_ij = -lambda_i dL/dlambda_i", "4",
    {**LLA, "lam": "T : ridge", **FEATURE, **CT}, euler, **ALIKE,
)  # fmt: skip


# ---- 9 and 7: equal weights


def equal_rows(x, f):
    return each_row(x, f, equal_weights)


def sums_of(m):
    """S_i = sum v k^T and G_i = sum k k^T from moments."""
    return m.omega * (m.X + outer(m.vbar, m.kbar)), m.omega * (m.C + outer(m.kbar, m.kbar))


AFFINE_ABOVE = {**given(affine_mesanet, "lam"), **EPS}
for name, scaling, says in (
    ("ridge_to_infinity", "sum", "lambda = 1/eps: o -> value_averaging, with -(i / lambda) X_u zbar"),
    ("ridge_to_infinity_on_means", "mean", "lambda = 1/eps on the means: o -> value_averaging, with -X_u zbar / lambda"),
):
    identity(
        name, affine_mesanet, says, "9", AFFINE_ABOVE,
        lambda x, scaling=scaling: pair(o(affine_mesanet, x, lam=1 / x.eps, lambda_scaling=scaling), o(value_averaging, x)), order=1,
        rate=lambda x, scaling=scaling: {"o": equal_rows(x, lambda m, q, i: -(m.omega if scaling == "sum" else 1) * (m.X @ m.z))},
    )  # fmt: skip
identity(
    "ridge_to_zero", affine_mesanet, "lambda = eps on the means: o -> vbar - X_u C_u^+ zbar, with lambda X_u (C_u^+)^2 zbar", "9",
    AFFINE_ABOVE,
    lambda x: pair(
        o(affine_mesanet, x, lam=x.eps, lambda_scaling="mean"),
        equal_rows(x, lambda m, q, i: m.vbar - m.X @ of_covariance(x, i)(m.C, m.z)),
    ), order=1,
    rate=lambda x: {"o": equal_rows(x, lambda m, q, i: m.X @ twice(of_covariance(x, i), m.C, m.z))},
)  # fmt: skip


def by_products(m, q):
    S, G = sums_of(m)
    return S @ (G @ q)


MESA_ABOVE = {**given(mesanet, "lam"), **EPS}
for name, scaling, count, says in (
    ("ridge_to_infinity", "sum", "none", "lambda = 1/eps: lambda o -> linear_attention, with -S G q / lambda"),
    (
        "ridge_to_infinity_on_means", "mean", "count",
        "lambda = 1/eps on the means: lambda o -> linear_attention divided by the count, with -S G q / (i^2 lambda)",
    ),
):  # fmt: skip
    identity(
        name, mesanet, says, "9", MESA_ABOVE,
        lambda x, scaling=scaling, count=count: pair(
            o(mesanet, x, lam=1 / x.eps, lambda_scaling=scaling) / x.eps, o(linear_attention, x, normalization=count, scale=1)
        ), order=1,
        rate=lambda x, scaling=scaling: {
            "o": equal_rows(x, lambda m, q, i: -by_products(m, q) / (m.omega**2 if scaling == "mean" else 1))
        },
    )  # fmt: skip


def through_gram(x, inverse):
    def of_row(m, q, i):
        S, G = sums_of(m)
        return S @ inverse(of_gram(x, i), G, q)

    return equal_rows(x, of_row)


identity(
    "ridge_to_zero", mesanet, "lambda = eps: o -> S G^+ q, G singular in early rows, with -lambda S (G^+)^2 q", "9", MESA_ABOVE,
    lambda x: pair(o(mesanet, x, lam=x.eps), through_gram(x, lambda inverse, G, q: inverse(G, q))), order=1,
    rate=lambda x: {"o": -through_gram(x, twice)},
)  # fmt: skip


def symmetric(x):
    """Tokens in pairs (k, v), (-k, -v): after each pair the means vanish, and with them the intercept."""
    return x.but(**{name: where(is_odd("T"), -shift(x[name]), x[name]) for name in ("k", "v")})


def after_pairs(a):
    return where(is_odd("T"), a, 0)


for name, scaling in (("no_intercept", "sum"), ("no_intercept_on_means", "mean")):
    identity(
        name, affine_mesanet, "tokens in pairs (k, v), (-k, -v): o = mesanet after each pair", "7", AFFINE,
        lambda x, scaling=scaling: pair(*(after_pairs(o(m, symmetric(x), lambda_scaling=scaling)) for m in (affine_mesanet, mesanet))),
        shape=(6, 4, 3),
    )  # fmt: skip
identity(
    "no_intercept", affine_linear_attention, "tokens in pairs (k, v), (-k, -v): o = linear_attention at -rho, divided by the count", "7",
    given(affine_linear_attention),
    lambda x: pair(
        after_pairs(o(affine_linear_attention, symmetric(x))),
        after_pairs(o(linear_attention, symmetric(x), q=-x.rho, normalization="count", scale=1)),
    ), shape=(6, 4, 3),
)  # fmt: skip
