"""The mistakes of the papers on local linear attention (L) and Parallax (P), and of the first one's code: lla-family.md 13 and 15."""
from affine_linear_attention import affine_linear_attention
from affine_mesanet import affine_mesanet
from assay.language import const, dot, exp, iota, log, scan, solve, sqrt, where
from common import diagonal, largest
from lla import lla
from lla_family import at, each_row, equal_weights, given, moments, of_reference, ridge_solve, softmax_weights, sums_of, symmetric
from mesanet import mesanet
from parallax import parallax
from rows import Inputs, Reference, erratum, eye, gradients, inner_rows, one_hot, only, piece, renamed


def answer(m, x, **settings):
    """The mechanism's o; keys are along T everywhere."""
    return renamed(m, {"S": "T"}, x, **({"ridge": ""} if "lam" in m.declared else {}), **settings)["o"]


def derived(x, **settings):
    """dq of local linear attention."""
    return gradients(lambda y: {"o": answer(lla, y, **settings)}, x.without("d_o"), {"o": x.d_o}).q


def absolute(x, **settings):
    return answer(lla, x, lambda_mode="absolute", **settings)


def by_query(x, f, *sequences):
    """f(q_i, i) of every query, and of row i of further sequences."""
    return scan(lambda _, q, i, *more: (None, f(q, i, *more)), None, x.q, iota("T"), *sequences)[1]


def largest_score(q, i, x):
    return largest((x.k @ q) / x.bandwidth, iota("T") <= i)


def shifted_weights(q, i, x):
    """exp(s_ij - m_i)."""
    return exp(-largest_score(q, i, x)) * softmax_weights(q, i, x)


# ---- o


def system(w, ridge, q, x):
    """L(7) and L(8) in any unit of the weights, which is the ridge's too: Sigma rho* = mu, delta = omega - mu.rho*."""
    z = x.k - q
    Sigma, mu, omega = (w[:, None] * z).T @ z + ridge * eye("K", "K"), w @ z, w.sum()
    rho = solve(Sigma, mu)
    return Inputs(w=w, z=z, q=q, Sigma=Sigma, mu=mu, omega=omega, ridge=ridge, rho=rho, delta=omega - dot(mu, rho))


def intercept(w, z, rho, delta, x):
    """sum w (1 - z.rho) / delta v."""
    return (w * (1 - z @ rho) / delta) @ x.v


def on_the_line(l, x):
    return intercept(l.w, l.z, l.rho, l.delta, x)


def by_line(x, ridge, weights=softmax_weights):
    """L(8) with ridge(q, i) and weights(q, i, x)."""
    return by_query(x, lambda q, i: on_the_line(system(weights(q, i, x), ridge(q, i), q, x), x))


def minimiser(x, penalty):
    """b of the argmin over b, W of sum w |v - b - W z|^2 / 2 + penalty |W|^2, by the normal equations of W and b."""

    def of_query(q, i):
        w, last = softmax_weights(q, i, x), one_hot(4, 5)
        features = (x.k - q) @ eye("K", 5) + last
        normal = (w[:, None] * features).T @ features + diagonal(2 * penalty * (1 - last), 5)
        return solve(normal, (w[:, None] * features).T @ x.v)[-1]

    return by_query(x, of_query)


def regression(x, penalty):
    """W q for the argmin over W of sum |v - W k|^2 / 2 + penalty(i) |W|^2, of i tokens."""

    def of_row(m, q, i):
        S, G = sums_of(m)
        return S @ ridge_solve(G, 2 * penalty(m.omega), q)

    return each_row(x, of_row, equal_weights)


def affine_regression(x, ridge):
    """vbar - X (C + ridge(i))^{-1} zbar at equal weights, of i tokens."""
    return each_row(x, lambda m, q, i: m.vbar - m.X @ ridge_solve(m.C, ridge(m.omega), m.z), equal_weights)


def ridge_under_the_shift(x):
    ridge = lambda q, i: exp(-largest_score(q, i, x)) * x.lam
    return by_line(x, lambda q, i: x.lam, shifted_weights), by_line(x, ridge, shifted_weights), absolute(x)


def conjugate_gradients(multiply, b, steps, ends=lambda square: square <= 0):
    """`steps` steps from zero on multiply(x) = b, fewer where the residual's square ends them."""
    x, r, p = 0 * b, b, b
    for _ in range(steps):
        Sp, square = multiply(p), dot(r, r)
        step = where(ends(square), 0, square / dot(p, Sp))
        x, r = x + step * p, r - step * Sp
        p = r + where(ends(square), 0, dot(r, r) / square) * p
    return x


def flash(x, along_q=lambda p, c: dot(p, c.q), key_sum=lambda c: c.M, omega=lambda c: c.omega, more=lambda p, c: 0, seen=None):
    """L-Alg 1 and 2: K steps on Sigma p = L' p + (p.Q) (omega Q - M) - (M.p) Q + sum w (k.p) k, M uncentred; parts are the caller's."""

    def of_query(q, i):
        i = i if seen is None else seen
        w = shifted_weights(q, i, x)
        c = Inputs(w=w, q=q, M=w @ x.k, omega=w.sum())
        mu = c.M - omega(c) * q
        c = c.but(mu=mu)

        def multiply(p):
            sums, along = key_sum(c), along_q(p, c)
            of_keys = (w * (x.k @ p)) @ x.k
            return exp(-largest_score(q, i, x)) * x.lam * p + along * (c.omega * q - sums) - dot(sums, p) * q + of_keys + more(p, c)

        rho = conjugate_gradients(multiply, mu, 4)
        return intercept(w, x.k - q, rho, c.omega - dot(mu, rho), x)

    return by_query(x, of_query)


def sum_of_the_last_tile(x):
    """Of tiles of three keys the third has one."""
    last = lambda c: at(6, c.w)
    return flash(x, omega=last, seen=6), flash(x, seen=6), absolute(x.but(causal=False))


def centred_key_sum(x):
    """With the centred sum the other signs are right: - (p.q) mu - (mu.p) q - omega (p.q) q."""
    centred = lambda c: c.mu
    signs = lambda p, c: -2 * c.omega * dot(p, c.q) * c.q
    return flash(x, key_sum=centred), flash(x, key_sum=centred, more=signs), absolute(x)


def no_causal_mask(x):
    ridge, of_all = lambda q, i: x.lam, lambda q, i, x: softmax_weights(q, 6, x)
    return by_line(x, ridge, of_all), by_line(x, ridge), absolute(x)


def standard_linear_attention(x):
    """After tokens (k, v), (-k, -v) both means vanish."""
    y = symmetric(x)
    averaged = y.v.T @ (y.k @ at(1, y.rho)) / 2
    return averaged, -averaged, at(1, answer(affine_linear_attention, y))


def powers_of_two(x):
    def printed(scale):
        weights = lambda q, i, x: where(iota("T") <= i, exp(log(const(2)) * scale * (x.k @ q)), 0)
        return by_query(x, lambda q, i, rho: covariance_form(moments(weights(q, i, x), q, x), rho), x.rho)

    return printed(1 / x.bandwidth), printed(1 / (log(const(2)) * x.bandwidth)), answer(parallax, x)


def covariance_form(m, rho):
    return m.vbar - m.X @ rho


def orthogonal_probe(x):
    """The seeded probe less its part along rho*."""
    along = by_query(x, lambda q, i: system(softmax_weights(q, i, x), x.lam, q, x).rho)
    y = x.but(rho=x.rho - (inner_rows(x.rho, along) / inner_rows(along, along))[:, None] * along)
    read = lambda f: by_query(y, lambda q, i, rho: f(moments(softmax_weights(q, i, y), q, y), rho), y.rho)
    return read(lambda m, rho: m.vbar), read(covariance_form), answer(parallax, y)


def radial_kernel(x):
    """Queries and keys of norm 1, where exp(-|q - k|^2 / (2 h)) is exp(q.k / h) but for exp(1 / h)."""
    y = x.but(**{name: x[name] / sqrt(inner_rows(x[name], x[name]))[:, None] for name in ("q", "k")})

    def radial(q, i, x):
        return where(iota("T") <= i, exp(-inner_rows(x.k - q, x.k - q) / (2 * x.bandwidth)), 0)

    ridge = lambda q, i: x.lam
    return by_line(y, ridge), by_line(y, ridge, radial), absolute(y.but(lam=exp(1 / x.bandwidth) * x.lam))


def alignment_without_parentheses(x):
    """Of the last row, for two value dimensions."""
    q, rho = at(6, x.q), at(6, x.rho)
    X = moments(softmax_weights(q, 6, x), q, x).X
    along, square = X @ rho, X @ X.T
    trace, determinant = (square * eye("V", "V")).sum(-1).sum(), square_determinant(square)
    norm_of_matrix = sqrt((trace + sqrt(trace * trace - 4 * determinant)) / 2)
    length = lambda a: sqrt(dot(a, a))
    last = {name: piece(6, 1) @ x[name] for name in ("q", "rho")}
    reported = Reference("parallax", {**last, **only(x, "k", "v", "bandwidth")}, "diagnostics.cpa", {})
    return length(along) / length(rho) * norm_of_matrix, length(along) / (length(rho) * norm_of_matrix), reported


def square_determinant(A):
    a, b, c, d = (one_hot(i, "V") @ A @ one_hot(j, "V") for i in range(2) for j in range(2))
    return a * d - b * c


def constant_in_the_denominator(x):
    """A small ridge, so that the first rows' denominators are small."""
    y = x.but(lam=const("1/65536"))

    def with_added(constant):
        def of_query(q, i):
            w = shifted_weights(q, i, y)
            l = system(w, w.sum() * y.lam, q, y)
            return intercept(l.w, l.z, l.rho, l.delta + where(l.delta < 0, -constant, constant), y)

        return by_query(y, of_query)

    return with_added(const("1e-12")), with_added(const(0)), answer(lla, y)


def tolerance_on_the_square(x):
    """The last row of mode mass, alone."""
    q, relative = at(6, x.q), const("1/16")
    w = shifted_weights(q, 6, x)
    l = system(w, w.sum() * x.lam, q, x)

    def stopped(relative_square):
        rho = conjugate_gradients(lambda p: l.Sigma @ p, l.mu, 4, lambda square: square <= relative_square * dot(l.mu, l.mu))
        return intercept(w, l.z, rho, l.omega - dot(l.mu, rho), x)

    tolerance = relative * sqrt(dot(l.mu, l.mu))
    alone = of_reference(x, {"solver": "cg", "iterations": 4}, q=piece(6, 1) @ x.q, tolerance=tolerance)
    return stopped(relative), stopped(relative * relative), alone


# ---- dq, by the backward pass of L-App D


def backward(l, g, x):
    """A row's, in the unit of its weights; e is the sum of ridge times its derivative."""
    a, along = x.v @ g, l.z @ l.rho
    c = a * l.w / l.delta
    beta = dot(g, on_the_line(l, x)) / l.delta
    u = solve(l.Sigma, c @ l.z)
    return l.but(a=a, along=along, c=c, beta=beta, u=u, dmu=2 * beta * l.rho - u, e=l.ridge * dot(l.rho, u - beta * l.rho))


def score_gradient(r, mass=1, inside=True):
    """D of L(42): `mass` times its -w beta, and its last term inside of W.( ) or outside."""
    linear, last = r.z @ r.dmu, (r.z @ r.u) * r.along / 2
    outside = where(0 < r.w, last, 0)
    return r.c * (1 - r.along) + r.w * (-mass * r.beta + linear - linear * r.along / 2) + (r.w * last if inside else outside)


def query_gradient(r, D, x, sign=-1):
    """dq_i = sum_j D_ij k_j / h + sign sum_j dz_ij."""
    column = lambda a: a[:, None]
    of_u = column(r.along) * r.u + column(r.z @ r.u - 2 * r.beta * r.along) * r.rho
    dz = column(r.w) * (r.dmu + of_u) - column(r.c) * r.rho
    return D @ x.k / x.bandwidth + sign * dz.sum(0)


def query_gradients(x, of_row, ridge):
    """dq with of_row(row, q, i) and ridge(omega, m), weights exp(s - m)."""

    def of_query(q, i, g):
        w = shifted_weights(q, i, x)
        return of_row(backward(system(w, ridge(w.sum(), largest_score(q, i, x)), q, x), g, x), q, i)

    return by_query(x, of_query, x.d_o)


def printed_gradient(**printed):
    """dq of mode absolute with something of `score_gradient` or the sign as printed."""
    sign = printed.pop("sign", -1)

    def sides(x):
        ridge = lambda omega, m: exp(-m) * x.lam
        dq = lambda sign=-1, **parts: query_gradients(x, lambda r, q, i: query_gradient(r, score_gradient(r, **parts), x, sign), ridge)
        return dq(sign, **printed), dq(), derived(x, lambda_mode="absolute")

    return sides


def with_chain(x, ridge, chain):
    """dq where the ridge follows the weights: chain(row, q, i) more on every score, and nothing more."""
    dq = lambda more: query_gradients(x, lambda r, q, i: query_gradient(r, score_gradient(r) + more(r, q, i), x), ridge)
    return dq(lambda r, q, i: 0), dq(chain)


def gradient_through_the_shift(x):
    def chain(r, q, i):
        scores = (x.k @ q) / x.bandwidth
        return where((scores == largest_score(q, i, x)) & (iota("T") <= i), r.e, 0)

    return *with_chain(x, lambda omega, m: x.lam, chain), derived(x, lambda_mode="max")


def mass_chain(r, q, i):
    return r.w / r.omega * r.e


def detached_ridge(x):
    return *with_chain(x, lambda omega, m: omega * x.lam, mass_chain), derived(x)


def scale_in_bf16(x):
    """The scale 2^{-1/2} of K = 2 loses 1e-4 in bf16, like those of K = 32 and 128; weights are made again with what was saved."""
    x = x.but(bandwidth=sqrt(const(2)))

    def at_scale(scale):
        y = x.but(bandwidth=1 / scale)

        def of_row(r, q, i):
            w = exp(-largest_score(q, i, x)) * softmax_weights(q, i, y)
            again = r.but(w=w, c=r.a * w / r.delta)
            return query_gradient(again, score_gradient(again) + mass_chain(again, q, i), y)

        return query_gradients(x, of_row, lambda omega, m: omega * x.lam)

    return at_scale(const("181/256")), at_scale(1 / sqrt(const(2))), derived(x)


# ---- the list


def line(name, place, printed, corrected, quantity, m, sides, shape=(7, 4, 3), proven=True, **other):
    """A row on inputs of the mechanism, keys along T, lambda = 1/2 and the bandwidth of four dimensions.

    A row is not proven where steps end at a residual that is zero but for rounding, or where a side is a reference's.
    """
    taken = {n: text.replace("S", "T") for n, text in given(m, "lam", "bandwidth", **other).items()}
    usual = lambda x: x.but(lam=const("1/2"), bandwidth=const(2))
    erratum(name, place, printed, corrected, quantity, taken, lambda x: sides(usual(x)), shape, proven)


def errata():
    half_penalty = lambda x: (minimiser(x, x.lam), minimiser(x, x.lam / 2), absolute(x))
    regressions = lambda printed: lambda x: (
        regression(x, printed(x.lam)), regression(x, lambda i: x.lam / 2), answer(mesanet, x)
    )  # fmt: skip
    CT = {"d_o": "T V : value"}
    line(
        "E1", "L(6)", "penalty lambda |W|_F^2, where the data term has 1/2", "(lambda / 2) |W|_F^2; as printed, L(7) has 2 lambda", "o",
        lla, half_penalty,
    )  # fmt: skip
    line(
        "E2", "L(1) vs L(2)", "the same factor; and the brace names the inverse H_i, P(9) the matrix", "(lambda / 2) |W|_F^2", "o",
        mesanet, regressions(lambda lam: lambda i: lam),
    )  # fmt: skip
    line(
        "E3", "L sec. 3.2; L-Alg 2 line 10", "homogeneous in w: lambda P with max-shifted W",
        "lambda exp(-m_i) P; as printed it is lambda_mode max", "o", lla, ridge_under_the_shift,
    )  # fmt: skip
    line(
        "E4", "L-Alg 1 line 14", "brsum(W), where W is the last tile alone", "bcast(omega) of all tiles", "o", lla, sum_of_the_last_tile
    )  # fmt: skip
    line(
        "E5", "L-Alg 2 line 9", "P_Q = brsum(Y.Q)", "brsum(P.Q) of the step's P", "o", lla,
        lambda x: (flash(x, along_q=lambda p, c: dot(c.mu, c.q)), flash(x), absolute(x)), proven=False,
    )  # fmt: skip
    line(
        "E6", "L-Alg 2 lines 9-10", "M_r, the name of the centred sum of Alg 1 line 14, for the uncentred one",
        "M uncentred, or centred with all signs minus", "o", lla, centred_key_sum, proven=False,
    )  # fmt: skip
    line("E7", "L-Alg 1 lines 8-11, 19; L-Alg 2 line 6", "no causal mask", "tril as in L(14), in every pass", "o", lla, no_causal_mask)
    line("E8", "L(41)", "no -w beta term", "gamma s - w beta + ..., as in L(32) and (42)", "dq", lla, printed_gradient(mass=0), **CT)
    line(
        "E9", "L(50) with L(48)-(49)", "Delta_Q = Delta_W^Q + Delta_Z^Q", "minus, as in L(36)", "dq", lla, printed_gradient(sign=1), **CT
    )  # fmt: skip
    line(
        "E10", "L(42)-(43)", "unbalanced parentheses: the last term reads as outside W.( )", "inside W.( )", "dq", lla,
        printed_gradient(inside=False), **CT,
    )  # fmt: skip
    line(
        "E11", "L-App D with L-Alg 1 and 2", "no gradient through m, which the printed lambda follows",
        "sum_a lambda_a dlambda_a on the score of the arg-max", "dq", lla, gradient_through_the_shift, **CT,
    )  # fmt: skip
    erratum("E12", "L-App D", "dlambda and dh are missing", "-x y / omega and -sum D s / h", "dlambda, dh")
    line(
        "E13", "P(9)-(10), (13)", "ridge lambda on the averaged H", "lambda / i, the limit of P(3); or lambda_mode mass", "o",
        affine_mesanet,
        lambda x: (affine_regression(x, lambda i: x.lam), affine_regression(x, lambda i: x.lam / i), answer(affine_mesanet, x)),
    )  # fmt: skip
    line(
        "E14", 'P(5) vs P(9), "drop intercept"', "ridge lambda on sums in P(5), i lambda by P(9)", "say which", "o", mesanet,
        regressions(lambda lam: lambda i: i * lam / 2),
    )  # fmt: skip
    line(
        "E15", "P sec. 3.2, P(12) with vbar = kbar = 0", '"standard Linear Attention"',
        "-S rho / i: the sign and 1/i (the number is of the sign alone)", "o", affine_linear_attention, standard_linear_attention,
        shape=(2, 4, 3),
    )  # fmt: skip
    line("E16", "P-Alg 1 lines 4-5", "exp2 with an unspecified s, read as 1/h", "s = log2(e) / h", "o", parallax, powers_of_two)
    line(
        "E17", "P sec. 3.2, text", "a probe orthogonal to rho* does not contribute: o = softmax attention", "only null(X_i) does not", "o",
        parallax, orthogonal_probe,
    )  # fmt: skip
    line(
        "E18", "L sec. 2.1", 'the constant of the RBF kernel "cancels"', "in softmax attention alone; in LLA it divides lambda", "o", lla,
        radial_kernel,
    )  # fmt: skip
    erratum("t1", "L sec. 3.1", 'conjugate gradients "twice" in the backward', "one solve (u) suffices", "-")
    erratum(
        "t2", "L(27)", 'W_lam in R^{d x d_lam} times x_i; "d_lam = d_h, head dimension"',
        "the transpose; one per head is probably meant for the number of heads", "-",
    )  # fmt: skip
    erratum("t3", "P after (8)", "t_ij - t_i", "t_ij - tbar_i", "-")
    erratum(
        "t4", "L-Table 1", "block-diagonal steps T d^2 / g^2; LLA compute T d^2",
        "g blocks of (d/g)^2: d^2 / g per step; a matrix-free product costs n d per step and query", "-",
    )  # fmt: skip
    line(
        "t5", "P(17)", "numerator / |rho| |X|_2, no parentheses", "divided by the product", "cpa", parallax,
        alignment_without_parentheses, shape=(7, 4, 2), proven=False,
    )  # fmt: skip
    line(
        "15a", "FlashLLA, backward", "the ridge lambda omega constant under changes of q and k",
        "p_ij sum_a lambda_a dlambda_a more on every score", "dq", lla, detached_ridge, **CT,
    )  # fmt: skip
    line(
        "15b", "FlashLLA, backward", "the scale saved in the type of the inputs, bf16", "saved in fp32 at least", "dq", lla, scale_in_bf16,
        shape=(7, 2, 3), **CT,
    )  # fmt: skip
    erratum(
        "15c", "FlashLLA, backward, T no multiple of the tile", "padded rows load denominator 0 and weight 1: NaN", "masked rows", "dk, dv"
    )  # fmt: skip
    erratum(
        "15d", "FlashLLA, few steps in bf16", "omega - mu.rho of an unconverged rho passes near zero",
        "sum w (1 - z.rho), over the rounded terms that the output sums", "o",
    )  # fmt: skip
    line("15e", "FlashLLA, denominator", "1e-12 sign(delta) added to delta", "delta", "o", lla, constant_in_the_denominator)
    line(
        "15f", "FlashLLA, conjugate gradients", "stops where |r|^2 <= rtol |r0|^2: rtol acts on the square", "|r| <= rtol |r0|", "o", lla,
        tolerance_on_the_square, proven=False,
    )  # fmt: skip


errata()
