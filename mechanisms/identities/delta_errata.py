"""The mistakes of Momentum DeltaNet, its baselines and their code: delta-family.md 8."""
from assay.language import const, cumsum, exp, iota, log, maximum, outer, scan, shift, sqrt, where, zeros
from comba import comba
from delta_family import (
    blocks_of_one_step, closed, coefficients, first_order, first_order_chunks, lower, map_of_mdn, momentum, momentum_chunk, prepared,
    scale, square,
)  # fmt: skip
from deltanet import deltanet
from gated_deltanet import gated_deltanet
from mdn import mdn
from mdn_front_end import mdn_front_end
from mdn_gates import mdn_gates
from rows import Inputs, chunk_of, erratum, eye, filled, gradients, inner, inner_rows, inputs_of, one_hot, only, run

MILLIONTH = "1/1000000"
CT = {"d_o": "T V : value"}


def column(a):
    return a[:, None]


def chunked(x, C, rule=coefficients):
    """S_T and o of C rows as one chunk."""
    S, _, o = momentum_chunk(chunk_of(x, 0, C)[0], C, rule)
    return Inputs(S=S, o=o)


def answer(m, x, output="o"):
    return run(m, x)[output]


# ---- formats


def bounded(digits, most):
    """Numbers beyond a format's largest are infinite."""

    def within(x):
        largest = const(2) ** (most + 1) * (1 - const(2) ** -digits)
        return where(largest < abs(x), where(x < 0, closed(), -closed()), x)

    return within


def nearest(digits, least, most):
    """Rounds to so many binary digits, ties to even, of exponents from least to most."""

    def rounded(x):
        full = lambda number: filled(number, x.shape)

        def doubled(state, _):
            power, jump = state
            return (where(power * jump <= abs(x), power * jump, power), sqrt(jump)), None

        def taken(state, _):
            whole, bit, odd = state
            fits = whole + bit <= units
            return (where(fits, whole + bit, whole), bit / 2, where(fits, full(1), full(0))), None

        last_place = scan(doubled, (full(const(2) ** least), const(2) ** 128), iota(8))[0][0] * const(2) ** (1 - digits)
        units = abs(x) / last_place
        whole, _, odd = scan(taken, (full(0), const(2) ** (digits - 1), full(0)), iota(digits))[0]
        up = (1 < 2 * (units - whole)) | ((2 * (units - whole) == 1) & (odd == 1))
        size = where(up, whole + 1, whole) * last_place
        return where(x == x, bounded(digits, most)(where(x < 0, -size, size)), x)

    return rounded


FP32, FP16 = nearest(24, -126, 127), nearest(11, -14, 15)


# ---- the logs that the published chunk code works with, section 2.7


def unrounded(a):
    return a


def logs(x, added=0, r=unrounded):
    """Prefix sums of log alpha and log mu, x and its prefix log-sum-exp, with `added` to every beta; r rounds every operation."""

    def step(state, alpha, mu, beta):
        log_a, log_m, c = state
        log_a, log_m = r(log_a + r(log(alpha))), r(log_m + r(log(mu)))
        y = r(r(r(log(r(beta + added))) + log_m) - log_a)
        largest = maximum(y, c)
        c = r(largest + r(log(r(r(exp(r(c - largest))) + r(exp(r(y - largest)))))))
        return (log_a, log_m, c), (log_a, log_m, y, c)

    return scan(step, (const(0), const(0), closed()), x.alpha, x.mu, x.beta)[1]


def parts(log_a, log_m, c, r):
    """a_i c_i / m_j and 1 - c_{j-1} / c_i, whose product is Gamma."""
    earlier = where(iota(c.shape[0]) == 0, closed(), shift(c))
    return r(exp(r(r(column(log_a) - log_m) + column(c)))), r(1 - r(exp(r(earlier - column(c)))))


def log_domain(added=0, r=unrounded):
    """Section 2.7, in the place of `coefficients`."""

    def rule(x, C):
        log_a, log_m, _, c = logs(x, added, r)
        leading, later = parts(log_a, log_m, c, r)
        seen = lambda a: where(iota(C) <= column(iota(C)), a, 0)
        return seen(r(leading * later)), seen(r(exp(r(column(log_m) - log_m)))), r(exp(log_a)), r(exp(r(log_a + c))), r(exp(log_m))

    return rule


def constant_gates(x, log_alpha, log_mu, beta):
    """From zero states."""
    gates = {"log_alpha": log_alpha, "log_mu": log_mu, "beta": beta}
    states = {name: zeros("K", "V") for name in ("initial_state", "initial_momentum")}
    return x.but(**{name: filled(const(a), ("T",)) for name, a in gates.items()}, **states)


def constant_on_beta(x):
    x = constant_gates(x, "-0.05", "-0.2", "1e-4")
    S = lambda added: chunked(momentum(x), 7, log_domain(added)).S
    return S(const(MILLIONTH)), S(0), answer(mdn, x, "final_state")


def padding_with_a_step(x):
    """The constant of E1 is taken off the tokens beforehand: what is left is the padding's."""
    y = momentum(x)
    lowered = y.but(beta=y.beta - MILLIONTH)
    return chunked(lowered, 16, log_domain(const(MILLIONTH))).S, chunked(y, 16).S, answer(mdn, x, "final_state")


def coefficients_in_fp32(C, log_mu):
    """One chunk of C tokens with its coefficients in fp32 and everything else exact."""

    def sides(x):
        x = constant_gates(x, "-0.05", log_mu, "0.3")
        return chunked(momentum(x), C, log_domain(0, FP32)).o, chunked(momentum(x), C).o, answer(mdn, x)

    return sides


def log_domain_gradients(x, ct, masks_before=True, extra=0):
    """Gradients of log_alpha and log_mu by the log-domain form in reverse: one chunk, p = 0, from zero states.

    There o = s (Gamma o Q K^T diag(eta)) V. `extra` is added to 1 - c_{j-1} / c_i where it is divided by.
    """
    log_a, log_m, y, c = logs(x)
    leading, later = parts(log_a, log_m, c, unrounded)
    leading = bounded(24, 127)(leading)  # exact, but for the range of fp32
    weight = lower(scale() * x.eta * (x.q @ x.k.T) * (ct @ x.v.T))
    leading = lower(leading) if masks_before else leading
    d_leading = weight * leading * later
    d_later = -weight * leading * (1 - later) * lower(later / (later + extra))
    d_c = (d_leading - d_later).sum(-1) + shift(d_later.sum(0), -1)
    d_y = d_c @ lower(exp(y - column(c)))
    d_alpha, d_mu = d_leading.sum(-1) - d_y, d_y - d_leading.sum(0)
    return {"log_alpha": cumsum(d_alpha, reverse=True), "log_mu": cumsum(d_mu, reverse=True)}


def backward(gates, name, **printed):
    """The gradient of a log gate, something of `log_domain_gradients` as printed."""

    def sides(x):
        y = constant_gates(x.without("d_o"), *gates).but(p=zeros("T", "K"))
        found = lambda **more: log_domain_gradients(momentum(y), x.d_o, **more)[name]
        return found(**printed), found(), gradients(lambda z: only(run(mdn, z), "o"), y, {"o": x.d_o})[name]

    return sides


# ---- the front end and the gates


def norm_of_the_decode_kernel(x):
    """Queries of norm 1e-3."""
    x = x.but(q=x.q / (1000 * column(sqrt(inner_rows(x.q, x.q)))))
    decode = lambda a, eps: a / column(sqrt(inner_rows(a, a)) + eps)
    o = lambda **norm: chunked(momentum(prepared(x, const(MILLIONTH), **norm)), 7).o
    return o(norm=decode), o(), answer(mdn_front_end, x)


def circle(angle):
    """cos and sin, by 64 terms of their series."""

    def step(state, n):
        re, im, cos, sin = state
        re, im = -im * angle / (n + 1), re * angle / (n + 1)
        return (re, im, cos + re, sin + im), None

    one, none = filled(1, angle.shape), filled(0, angle.shape)
    return scan(step, (one, none, one, none), iota(64))[0][2:]


def cosine_in_fp32(x):
    """phi = 1e-3, where the angle is all of the decay once a_log lets nothing else through."""
    phi = const("1/1000")
    near = FP32(phi)
    cosine = FP32(circle(FP32(near - near**3 / 3 + near**5 / 5))[0])
    right = run(mdn_gates, x, a_log=closed(), e=zeros("T"), log_factor=log(phi), tau=1)["log_alpha"]
    of_token = lambda a: zeros("T") + a
    return of_token(FP32(log(FP32(cosine * cosine)))), of_token(-log(1 + phi * phi)), right


def keys_in_16_bits(x):
    y = momentum(prepared(x, const(MILLIONTH)))
    narrow = y.but(p=FP16(y.p), k=FP16(column(y.eta) * y.k), eta=filled(1, ("T",)))
    return chunked(narrow, 7).o, chunked(y, 7).o, answer(mdn_front_end, x)


# ---- scalars that are dropped, products of steps


def dropped_step(x):
    y = momentum(x)
    dropped = y.but(eta=y.eta * y.beta, beta=filled(1, ("T",)))
    ratio = where(iota("T") == 0, 1, y.beta / where(iota("T") == 0, 1, shift(y.beta)))
    absorbed = dropped.but(mu=y.mu * ratio, M=one_hot(0, "T") @ y.beta * y.M)
    return chunked(dropped, 7).o, chunked(absorbed, 7).o, answer(mdn, x)


STEPS = (  # of section 2.9: angle, eta, strength, decay, mu
    ("-0.42", "1.6", "0", "0.99", "0.99"), ("2.73", "1.99", "0.99", "0.99", "0.99"), ("1.16", "1.99", "0.99", "0.99", "0.99"),
    ("1.16", "1.99", "0.99", "0.99", "0.99"), ("-0.36", "0.5", "0.08", "0.99", "0.37"), ("2.75", "1.37", "0", "0.99", "0.39"),
)  # fmt: skip


def spectral_radius(A):
    """lim |A^n|^{1/n} over n = 2^m: the constant in front of radius^n is gone to the 2^-700th power."""

    def step(state, _):
        A, log_radius, weight = state
        size = sqrt(inner(A, A))
        return ((A / size) @ (A / size), log_radius + weight * log(size), weight / 2), None

    return exp(scan(step, (A, const(0), const(1)), iota(700))[0][1])


def product_of_stable_steps(x):
    """The product of the steps' spectral radii, and the spectral radius of their product."""
    angle, eta, strength, decay, mu = (sum(const(a) * one_hot(t, "T") for t, a in enumerate(numbers)) for numbers in zip(*STEPS))
    phi = eta * "0.39"
    cos, sin = circle(angle)
    alpha, k = decay / (1 + phi * phi), column(cos) * one_hot(0, "K") + column(sin) * one_hot(1, "K")
    y = Inputs(k=k, p=column(alpha) * k, alpha=alpha, mu=mu, beta=phi * phi / (1 + phi * phi) * strength, eta=eta)

    def step(state, *row):
        radii, A = state
        B = square(blocks_of_one_step(Inputs(zip(y, row))), 4)
        return (radii * spectral_radius(B), B @ A), None

    radii, A = scan(step, (const(1), eye(4, 4)), *y.values())[0]
    in_the_room = x.but(k=y.k, p=y.p, log_alpha=log(alpha), log_mu=log(mu), beta=y.beta, eta=eta)
    return radii, spectral_radius(A), spectral_radius(square(map_of_mdn(in_the_room), 4))


# ---- rules of first order


def strongly_decaying(x):
    """Decays that a few tokens feel."""
    return x.but(log_decay=x.log_decay - 1)


def comba_on_the_decayed_state(x):
    x = strongly_decaying(x)
    o = lambda error: first_order_chunks(first_order(x), error)["o"]
    return o("decayed"), o("undecayed"), answer(comba, x)


def falcon_rule(x):
    """FALCON (2.8) as written, g (I - beta k k^T) S + beta k v^T, or with g on the identity alone."""
    x = strongly_decaying(x)

    def o(on_both):
        def step(S, q, k, v, beta, g):
            erased = beta * outer(k, k @ S)
            S = exp(g) * S - (exp(g) * erased if on_both else erased) + beta * outer(k, v)
            return S, scale() * (q @ S)

        return scan(step, x.initial_state, x.q, x.k, x.v, x.beta, x.log_decay)[1]

    return o(False), o(True), answer(gated_deltanet, x)


def forgotten_initial_state(x):
    y = first_order(x.but(log_decay=zeros("T")))
    o = lambda y: first_order_chunks(y, "decayed")["o"]
    return o(y.but(S=zeros("K", "V"))), o(y), answer(deltanet, x)


# ---- the list


def rule(name, place, printed, corrected, quantity, m, sides, *dropped, shape=(7, 4, 3), **other):
    erratum(name, place, printed, corrected, quantity, inputs_of(m, *dropped, **other), sides, shape)


def errata():
    rule(
        "E1", "authors' chunk reference and kernels", "log(beta + 1e-6)", "log(beta): 1e-6 / beta of every write, here at beta = 1e-4",
        "S_T", mdn, constant_on_beta,
    )  # fmt: skip
    rule(
        "E2", "authors' chunk reference", "pads the last chunk with beta = 0, which becomes 1e-6, and mu = 1",
        "padding does nothing; as printed S_T is off by 1e-6 M_T per token, here 9", "S_T", mdn, padding_with_a_step,
    )  # fmt: skip
    rule(
        "E3", "numerical stability of the split exponent, all chunk code",
        "Gamma_ij = exp(la_i - lm_j + lc_i) (1 - exp(lc_{j-1} - lc_i)) in fp32",
        "Gamma_ij = alpha_i Gamma_{i-1,j} + beta_i rho_ij; cancels for mu < alpha, here 24 tokens of log mu = -1, log alpha = -0.05",
        "o", mdn, coefficients_in_fp32(24, "-1"), shape=(24, 4, 3),
    )  # fmt: skip
    rule(
        "E4", "same", 'the same exponents, "upper overflow"',
        "no exponents; NaN for (C - 1)(log alpha - log mu) > 88.7, here 32 tokens of log mu = -3", "o", mdn, coefficients_in_fp32(32, "-3"),
        shape=(32, 4, 3),
    )  # fmt: skip
    rule(
        "E5", "authors' chunk reference under autograd", "exponentiates, then masks: 0 times inf in reverse", "masks before exponentiating",
        "dlog_alpha", mdn, backward(("-1", "-4", "0.3"), "log_alpha", masks_before=False), shape=(26, 4, 3), **CT,
    )  # fmt: skip
    rule(
        "E6", "authors' backward kernel", "1 / (1 - c_{j-1} / c_i + 1e-6)",
        "1 / (1 - c_{j-1} / c_i), here 12 tokens of log mu = -1, log alpha = -0.05", "dlog_mu", mdn,
        backward(("-0.05", "-1", "0.3"), "log_mu", extra=MILLIONTH), shape=(12, 4, 3), **CT,
    )  # fmt: skip
    rule(
        "E7", "l2 norm of the decode kernel", "x / (|x| + 1e-6), in the tests x / max(|x|, 1e-12)",
        "x / sqrt(|x|^2 + 1e-6) as in training, here |q| = 1e-3", "o", mdn_front_end, norm_of_the_decode_kernel, "log_d",
    )  # fmt: skip
    erratum(
        "E8", "min_log_mu", "default -1 in the paper; -2 in the layer and the 400M configurations, -1 for 1B",
        "has no default: every case states it", "log_mu",
    )  # fmt: skip
    rule(
        "E9", "layer gates", "log(cos^2(arctan phi)) in fp32", "-log(1 + phi^2), here phi = 1e-3", "log_alpha", mdn_gates, cosine_in_fp32,
        "a_log", "e", "log_factor", shape=(1, 4, 3),
    )  # fmt: skip
    erratum(
        "E10", "layer with more value than key heads", "per-head parameters by key heads, gates by value heads",
        "parameters per value head; as printed the shapes do not broadcast", "gates",
    )  # fmt: skip
    erratum(
        "E11", "authors' repository", "FLA_CACHE_RESULTS is not defined, with a Triton that autotunes with cache_results",
        "define it; as printed the import fails", "import",
    )  # fmt: skip
    rule(
        "E12", "paper, footnote on absorbed scalars", "beta or eta can be dropped: eta' = beta eta, beta' = 1",
        "only with mu'_t = mu_t beta_t / beta_{t-1} and M_0' = beta_1 M_0", "o", mdn, dropped_step,
    )  # fmt: skip
    rule(
        "E13", "paper, section 3.2", "every step has spectral radius < 1, so the dynamics is stable",
        "says nothing of products: the six steps of section 2.9, below 0.99 each, have 1.667 together", "spectral radius", mdn,
        product_of_stable_steps, shape=(6, 2, 4),
    )  # fmt: skip
    erratum(
        "E14", "authors' tests", "gates of one law, beta in [0.25, 0.37], backward against the chunk reference",
        "compare with the recurrence, log mu far below log alpha and beta near 0 included; as printed E1 to E6 stay unseen", "tests",
    )  # fmt: skip
    rule(
        "E15", "FLA comba, naive recurrence", "e = v - (alpha S)^T p",
        "e = v - S^T p, as in the paper, the chunk form and the decode kernel", "o", comba, comba_on_the_decayed_state,
    )  # fmt: skip
    rule(
        "E16", "FALCON (2.8), read as an error on the undecayed state", "(g I - beta k k^T) S + beta k v^T",
        "g (I - beta k k^T) S + beta k v^T, which is the error on the decayed state", "o", gated_deltanet, falcon_rule,
    )  # fmt: skip
    rule(
        "E17", "authors' training kernel", "alpha k and eta k rounded to the 16-bit type of the inputs", "not rounded, as in decode", "o",
        mdn_front_end, keys_in_16_bits, "log_d",
    )  # fmt: skip
    rule(
        "E18", "FLA naive forms",
        "delta_rule and retention are [B,H,T,D], others [B,T,H,D]; delta_rule by chunks starts from zero; some need T mod C = 0",
        "convert explicitly; starts from S_0", "o", deltanet, forgotten_initial_state,
    )  # fmt: skip


errata()
