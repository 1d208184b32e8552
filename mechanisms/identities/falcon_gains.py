"""FALCON's steps as affine maps, and what its gains become: falcon-family.md 3 and 5."""
from assay.language import const, iota, maximum, scan, shift, size, where, zeros
from deltanet import deltanet
from falcon1 import falcon1
from falcon2 import falcon2
from falcon2_lite import falcon2_lite
from falcon2a import falcon2a
from falcon3 import falcon3
from falcon3a import falcon3a
from rows import Inputs, along, filled, inputs_of, only, row, run

STATE = ("o", "final_state")
ALL = (falcon1, falcon2, falcon2a, falcon3, falcon3a)
NORMALIZED = (falcon1, falcon2, falcon2a, falcon3)


def identity(name, m, statement, inputs, pairs, section="5", **more):
    row(name, m.name, statement, f"falcon-family.md {section}", inputs, pairs, **more)


def given(m, **other):
    """A mechanism's inputs, and e, the number in its denominators; those with a window have a tail of pairs."""
    return {**inputs_of(m, "initial_normalizer"), "e": ": normalizer", **other}


def answer(m, x, **settings):
    """o and S_T, the mechanism's eps being e; a window is of three pairs."""
    if "decay_floor" in settings:
        settings["decay_floor"] = const(settings["decay_floor"])
    window = {"window": 3} if "window" in m.declared else {}
    eps = {"eps": x.e} if "e" in x else {}
    return only(run(m, x, **{**eps, **window, **settings}), *STATE)


# ---- the affine form


def over(a, b):
    """a / b, or zero where b is."""
    return where(b == 0, 0, a / b)


def from_second(a):
    """Without the first row, which writes nothing."""
    first = iota("T") == 0
    return where(first if a.ndim == 1 else first[:, None], 0, a)


def wide(a, like):
    """A number for each step beside one for each channel."""
    return a[:, None] if like.ndim == 2 else a


def means(m, x):
    """The window's means of |x|^2, x x^T, which is zero of an associative write, and x v^T, before every step."""
    B = 3 if "window" in m.declared else 1
    features, t, j = shift(x.k), iota("T")[:, None], iota("T")
    near = where((0 < j) & (j <= t) & (t < j + B), const(1), const(0))
    count = near.sum(-1)
    tail = None
    if B > 1:
        tail = where(t < iota("P") - size("P") + B, const(1), const(0))
        count = count + tail.sum(-1)

    def at_step(_, n, near, *tail):
        sums = lambda pick: over(pick(features, x.v, near) + (pick(x.tail_k, x.tail_v, tail[0]) if tail else 0), n)
        energy = sums(lambda k, v, w: w @ (k * k).sum(-1))
        return None, (energy, sums(lambda k, v, w: (w[:, None] * k).T @ k), sums(lambda k, v, w: (w[:, None] * k).T @ v))

    E, C, N = scan(at_step, None, count, near, *([tail] if B > 1 else []))[1]
    return E, 0 * C if m in (falcon2a, falcon3a) else C, N


def gains(m, x, e, coupling="raw", floor=None):
    """E, the ridge, D, eta and gamma of every step; FALCON-3A's rho is eta."""
    E, _, _ = means(m, x)
    beta = from_second(x.beta)
    if m is falcon3a:
        return Inputs(E=E, ridge=0 * E, D=E + e, beta=beta, eta=over(beta, E + e), gamma=1 - from_second(x.alpha))
    ridge = x.lam * E if coupling == "live" else x.lam
    D = E + ridge + e
    eta = over(beta, wide(D, beta))
    gamma = 1 - eta * wide(ridge, eta)
    return Inputs(E=E, ridge=ridge, D=D, beta=beta, eta=eta, gamma=gamma if floor is None else maximum(gamma, const(floor)))


def affine(m, x, g):
    """S_t = S_{t-1} gamma_t + (N_t - C_t S_{t-1}) eta_t, o_t = S_t^T q_t."""
    _, C, N = means(m, x)

    def step(S, q, C, N, eta, gamma):
        S = S * gamma + (N - C @ S) * eta
        return S, q @ S

    S, o = scan(step, x.initial_state, x.q, C, N, g.eta, g.gamma)
    return {"o": o, "final_state": S}


AFFINE = "S_t = gamma S_{t-1} + eta (N_t - C_t S_{t-1}), N and C window means"


def affine_forms():
    for m in ALL:
        identity("affine_form", m, AFFINE, given(m), lambda x, m=m: (answer(m, x), affine(m, x, gains(m, x, x.e))), "3")
    for m in NORMALIZED:
        identity(
            "affine_form_coupled_clamped", m, AFFINE, given(m),
            lambda x, m=m: (
                answer(m, x, decay_floor="3/4", ridge_coupling="live"), affine(m, x, gains(m, x, x.e, "live", "3/4"))
            ), "3",
        )  # fmt: skip


# ---- limits of the gains


def response(m, x, base, eta, gamma):
    """The change of the answer around `base` when gains drift."""
    return along(lambda y: affine(m, x, y), Inputs(eta=base.eta, gamma=base.gamma), {"eta": eta, "gamma": gamma})


def limit(name, m, statement, left, right, drift, e=True):
    """`drift`: the gains in the limit, and how eta and gamma start to move."""
    taken = given(m, eps="")
    identity(
        name, m, statement, taken if e else {n: text for n, text in taken.items() if n != "e"},
        lambda x: (left(x), right(x)), order=1, rate=lambda x: response(m, x, *drift(x)),
    )  # fmt: skip


def bare(x):
    return x.but(lam=zeros("T"))


def delta_rule(x):
    g = gains(falcon1, bare(x), x.e)
    return only(run(deltanet, x.without("eps"), beta=g.eta, scale=1, alignment="next_latent"), *STATE)


def ridge_to_zero(m, statement, right):
    def drift(x):
        g = gains(m, bare(x), x.e)
        decay = g.eta * wide(x.lam, g.eta)
        return g, -over(decay, wide(g.D, decay)), -decay

    limit("ridge_to_zero", m, statement, lambda x: answer(m, x.but(lam=x.eps * x.lam)), right, drift)


def eps_to_zero(m):
    def drift(x):
        g = gains(m, x, const(0))
        d_eta = -over(g.eta, wide(g.D, g.eta))
        return g, d_eta, -d_eta * wide(g.ridge, d_eta)

    says = "eps -> 0 where every step has energy"
    zero = lambda x: answer(m, x.but(e=const(0)))
    limit("eps_to_zero", m, says, lambda x: answer(m, x.but(e=x.eps)), zero, drift, e=False)


def still(x, gamma):
    return Inputs(eta=filled(0, x.beta.shape), gamma=gamma)


def beta_to_zero(m):
    own = m is falcon3a
    base = lambda x: still(x, gains(m, x, x.e).gamma if own else filled(1, x.beta.shape))

    def drift(x):
        g = gains(m, x, x.e)
        return base(x), g.eta, 0 * g.eta if own else -g.eta * wide(g.ridge, g.eta)

    says = f"beta -> 0: S_T -> {'prod (1 - alpha) ' if own else ''}S_0"
    right = lambda x: affine(m, x, base(x))
    limit("beta_to_zero", m, says, lambda x: answer(m, x.but(beta=x.eps * x.beta)), right, drift)


def ridge_to_infinity(name, m, statement, floor=None, **coupling):
    """eta' = beta / ridge and gamma' = beta (E + eps) / ridge, but at a floor."""

    def base(x):
        gamma = 1 - from_second(x.beta)
        return still(x, gamma if floor is None else maximum(gamma, const(floor)))

    def drift(x):
        g, to = gains(m, x, x.e, coupling.get("ridge_coupling", "raw")), base(x)
        d_eta = over(g.beta, wide(g.ridge, g.beta))
        return to, d_eta, where(to.gamma == 1 - g.beta, d_eta * wide(g.E + x.e, g.beta), 0)

    settings = {**coupling, **({} if floor is None else {"decay_floor": floor})}
    larger = lambda x: answer(m, x.but(lam=x.lam / x.eps), **settings)
    limit(name, m, statement, larger, lambda x: affine(m, x, base(x)), drift)


def gain_limits():
    ridge_to_zero(falcon1, "lambda -> 0: deltanet with beta / (|x|^2 + eps)", delta_rule)
    for m in (falcon2, falcon2a, falcon3):
        ridge_to_zero(m, "lambda -> 0: lambda = 0", lambda x, m=m: answer(m, bare(x)))
    for m in ALL:
        eps_to_zero(m)
    for m in (*NORMALIZED, falcon3a):
        beta_to_zero(m)
    for m in NORMALIZED:
        ridge_to_infinity("ridge_to_infinity", m, "lambda = 1/eps, raw: S_T -> prod (1 - beta) S_0")
    for m in NORMALIZED:
        says = "lambda_bar = 1/eps, ridge lambda_bar E: S_T -> prod (1 - beta) S_0"
        ridge_to_infinity("ratio_to_infinity", m, says, ridge_coupling="live")
    for m in (falcon2_lite, falcon2, falcon2a, falcon3):
        says = "lambda = 1/eps, clamped: S_T -> prod max(1 - beta, floor) S_0"
        ridge_to_infinity("ridge_to_infinity_clamped", m, says, floor="1/2")


affine_forms()
gain_limits()
