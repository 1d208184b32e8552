"""The delta family: delta-family.md sections 2.5 to 2.9, 3 and 4."""
from assay.language import const, cumsum, detach, dot, exp, iota, log, outer, real, scan, shift, size, sqrt, tanh, where, zeros
from comba import comba
from deltanet import deltanet
from gated_deltanet import gated_deltanet
from gla import gla
from kda import kda
from linear_attention import linear_attention
from mamba2 import mamba2
from mdn import mdn
from mdn_front_end import mdn_front_end
from mdn_gates import mdn_gates
from retnet import retnet
from rows import (
    Inputs, along, chunk_of, eye, filled, gradients, inner, inner_rows, inputs_of, one_hot, only, piece, products, reflection, row, run,
    running, substituted,
)  # fmt: skip

STATE = ("o", "final_state")
MOMENTUM = ("o", "final_state", "final_momentum")
SIZES = (1, 3, 7, 9)  # of chunks, of 7 tokens


def scale():
    return 1 / sqrt(size("K"))


def closed():
    """The log of a gate that lets nothing through."""
    return log(const(0))


def with_closed_gates(x):
    """One decay zero in the middle; not the same token for both decays of mdn."""
    for name, token in (("log_alpha", 3), ("log_mu", 5), ("log_decay", 3)):
        if name in x:
            here = iota("T") == token
            x = x.but(**{name: where(here if x[name].ndim == 1 else here[:, None] & (iota("K") == 2), closed(), x[name])})
    return x


def in_chunks(chunk, x, C, *states):
    """The outputs and states that `chunk` makes of rows and states, one chunk of C rows after the other: o, and the states after each."""

    def step(state, n):
        rows, P = chunk_of(x, n, C)
        *after, o = chunk(rows.but(**dict(zip(states, state))), C)
        return (*after, state[-1] + P.T @ o), state[:-1]

    (*after, o), starts = scan(step, (*(x[name] for name in states), zeros("T", "V")), chunks(C))
    return {"o": o, **{f"final_{name}": S for name, S in zip(("state", "momentum"), after)}}, starts


def chunks(C):
    """The numbers of the chunks of 7 tokens."""
    return iota(-(-7 // C))


# ---- Momentum DeltaNet by chunks


def momentum(x):
    """An mdn problem with its gates as numbers."""
    return Inputs(
        q=x.q, k=x.k, v=x.v, p=x.p, alpha=exp(x.log_alpha), mu=exp(x.log_mu), beta=x.beta, eta=x.eta, S=x.initial_state,
        M=x.initial_momentum,
    )  # fmt: skip


def coefficients(x, C):
    """Section 2.5, the stable evaluation: Gamma and rho, [C C]; a, b, m, after every row."""

    def step(state, alpha, mu, beta, i):
        gamma, rho, a, b, m = state
        rho, m = mu * rho + one_hot(i, C), mu * m
        gamma, a, b = alpha * gamma + beta * rho, alpha * a, alpha * b + beta * m
        return (gamma, rho, a, b, m), (gamma, rho, a, b, m)

    start = (zeros(C), zeros(C), const(1), const(0), const(1))
    return scan(step, start, x.alpha, x.mu, x.beta, iota(C))[1]


def before(a, first=0):
    """The rows before, `first` before the first."""
    return shift(a) + first * one_hot(0, a.shape[0])


def momentum_chunk(x, C, rule=coefficients):
    """Section 2.5."""
    gamma, rho, a, b, m = rule(x, C)
    column = lambda g: g[:, None]
    L = shift(gamma) * x.eta * (x.p @ x.k.T)
    E = substituted(L, x.v - column(before(a, 1)) * (x.p @ x.S) + column(before(b)) * (x.p @ x.M))
    o = column(a) * (x.q @ x.S) - column(b) * (x.q @ x.M) + (gamma * x.eta * (x.q @ x.k.T)) @ E
    S = a[-1] * x.S - b[-1] * x.M + (column(gamma[-1] * x.eta) * x.k).T @ E
    M = m[-1] * x.M - (column(rho[-1] * x.eta) * x.k).T @ E
    return S, M, scale() * o


def momentum_chunks(x, C=7):
    return in_chunks(momentum_chunk, x, C, "S", "M")[0]


def momentum_chunk_back(x, d_o, G, N, C):
    """Section 2.6: the gradients of a chunk's rows, gates and states; G and N are those of the states after it."""
    gamma, rho, a, b, m = coefficients(x, C)
    s, column = scale(), lambda g: g[:, None]
    earlier, a_before, b_before = shift(gamma), before(a, 1), before(b)
    QK, PK = x.q @ x.k.T, x.p @ x.k.T
    L = earlier * x.eta * PK
    E = substituted(L, x.v - column(a_before) * (x.p @ x.S) + column(b_before) * (x.p @ x.M))
    dE = column(x.eta) * (column(gamma[-1]) * (x.k @ G) - column(rho[-1]) * (x.k @ N) + s * (gamma * QK).T @ d_o)
    dR = from_below(L.T, dE, C)
    X, F = s * (d_o @ E.T), -(dR @ E.T)
    last = one_hot(C - 1, C)
    dk = column(gamma[-1]) * (E @ G.T) - column(rho[-1]) * (E @ N.T) + (X * gamma).T @ x.q + (F * earlier).T @ x.p
    lower = where(iota(C) <= iota(C)[:, None], const(1), const(0))
    d_gamma = lower * X * x.eta * QK + lower * shift(F * x.eta * PK, -1) + outer(last, x.eta * inner_rows(x.k @ G, E))
    da = s * inner_rows(x.q @ x.S, d_o) + last * inner(G, x.S) - shift(inner_rows(x.p @ x.S, dR), -1)
    db = -s * inner_rows(x.q @ x.M, d_o) - last * inner(G, x.M) + shift(inner_rows(x.p @ x.M, dR), -1)
    d_alpha, d_mu, d_beta = coefficients_back(x, (gamma, rho, a, b, m), (d_gamma, da, db), -x.eta * inner_rows(x.k @ N, E), inner(N, x.M))
    rows = Inputs(
        q=s * (column(a) * (d_o @ x.S.T) - column(b) * (d_o @ x.M.T)) + (X * gamma * x.eta) @ x.k,
        k=column(x.eta) * dk, v=dR, p=column(b_before) * (dR @ x.M.T) - column(a_before) * (dR @ x.S.T) + (F * earlier * x.eta) @ x.k,
        log_alpha=x.alpha * d_alpha, log_mu=x.mu * d_mu, beta=d_beta, eta=inner_rows(x.k, dk),
    )  # fmt: skip
    S = a[-1] * G + s * (column(a) * x.q).T @ d_o - (column(a_before) * x.p).T @ dR
    M = m[-1] * N - b[-1] * G + (column(b_before) * x.p).T @ dR - s * (column(b) * x.q).T @ d_o
    return rows, S, M


def from_below(U, b, C):
    """The X with (1 + U) X = b for U above the diagonal, from the last row up."""
    step = lambda X, u, row, i: (where((iota(C) == i)[:, None], row - u @ X, X), None)
    return scan(step, filled(0, b.shape), U, b, iota(C), reverse=True)[0]


def coefficients_back(x, forward, d, d_rho, h):
    """The recurrences of `coefficients` in reverse: the gradients of alpha, mu and beta."""
    (gamma, rho, a, b, m), (d_gamma, da, db) = forward, d

    def step(state, alpha, mu, beta, gamma, rho, rho_i, a, b, m, m_i, d_gamma, da, db):
        X, Y, A, B, h = state
        A, B, X = A + da, B + db, X + d_gamma
        Y, h = Y + beta * X, h + beta * B
        found = (B * b + A * a + dot(X, gamma), dot(Y, rho) + h * m, B * m_i + dot(X, rho_i))
        return (alpha * X, mu * Y, alpha * A, alpha * B, mu * h), found

    sequences = (x.alpha, x.mu, x.beta, shift(gamma), shift(rho), rho, before(a, 1), before(b), before(m, 1), m, d_gamma, da, db)
    return scan(step, (0 * d_rho, d_rho, const(0), const(0), h), *sequences, reverse=True)[1]


def momentum_chunks_back(x, C, d_o, d_S, d_M):
    """The gradients of an mdn problem, chunk by chunk from the last."""
    y = momentum(x)
    starts = in_chunks(momentum_chunk, y, C, "S", "M")[1]
    names = [name for name in x if not name.startswith("initial_")]

    def step(state, n, S, M):
        G, N, *sums = state
        rows, P = chunk_of(y, n, C)
        found, G, N = momentum_chunk_back(rows.but(S=S, M=M), P @ d_o, G, N, C)
        return (G, N, *(total + P.T @ found[name] for name, total in zip(names, sums))), None

    start = (d_S, d_M, *(filled(0, x[name].shape) for name in names))
    G, N, *sums = scan(step, start, chunks(C), *starts, reverse=True)[0]
    return {**dict(zip(names, sums)), "initial_state": G, "initial_momentum": N}


# ---- rules of first order by chunks


def first_order(x):
    """A problem of a rule of first order, its decays as numbers of every channel; those of retnet's head 3 where it has none."""
    g = x.get("log_decay")
    D = filled(const("255/256"), ("T", "K")) if g is None else exp(g if g.ndim == 2 else g[:, None] + zeros("T", "K"))
    return Inputs(q=x.q, k=x.k, v=x.v, p=x.get("p", x.k), beta=x.get("beta", filled(1, ("T",))), D=D, S=x.initial_state)


def first_order_chunk(error):
    """Section 3.3; the error is taken on the decayed state, the undecayed one, or there is none."""

    def chunk(x, C):
        P, a = products(x.D), running(x.D)
        weigh = lambda rows, P: (rows[:, None] * P * x.k).sum(-1) * x.beta
        E = x.v
        if error:
            p = x.D * x.p if error == "decayed" else x.p
            a_before = shift(a) + one_hot(0, C)[:, None]
            E = substituted(weigh(p, shift(P)), x.v - (p * a_before) @ x.S)
        o = scale() * ((x.q * a) @ x.S + weigh(x.q, P) @ E)
        return a[-1][:, None] * x.S + (P[-1] * x.k * x.beta[:, None]).T @ E, o

    return chunk


def first_order_chunks(x, error, C=7):
    return in_chunks(first_order_chunk(error), x, C, "S")[0]


# ---- rows

MDN = inputs_of(mdn)
RATE = {"eps": ""}


def identity(name, mechanism, statement, source, inputs, pairs, **more):
    row(name, mechanism, statement, f"delta-family.md {source}", inputs, pairs, **more)


def chunk_rows(m, error_on, name="chunks", **settings):
    taken = inputs_of(m, *(["log_decay"] if m is retnet else []))

    def pairs(x):
        problems = (x, with_closed_gates(x)) if "log_decay" in x else (x,)
        number = lambda y: first_order(y if m is retnet or "log_decay" in y else y.but(log_decay=zeros("T")))
        return [(only(run(m, y, **settings), *STATE), first_order_chunks(number(y), error_on, C)) for y in problems for C in SIZES]

    identity(name, m.name, "chunks of 1, 3, 7 and 9 tokens, decays of 0 included: the recurrence", "3.3, I1", taken, pairs)


identity(
    "chunks", "mdn", "chunks of 1, 3, 7 and 9 tokens, decays of 0 included: the recurrence", "2.5, I1", MDN,
    lambda x: [(run(mdn, y), momentum_chunks(momentum(y), C)) for y in (x, with_closed_gates(x)) for C in SIZES],
)  # fmt: skip


def chunk_gradients(x):
    cotangents = {"o": x.ct_o, "final_state": x.ct_S, "final_momentum": x.ct_M}
    back = lambda y: gradients(lambda z: run(mdn, z), y, cotangents)
    problems = [x.without("ct_o", "ct_S", "ct_M")]
    problems.append(with_closed_gates(problems[0]))
    return [(back(y), momentum_chunks_back(y, C, x.ct_o, x.ct_S, x.ct_M)) for y in problems for C in SIZES[:3]]


CT = {"ct_o": "T V : value", "ct_S": "K V : value"}
identity(
    "chunk_gradients", "mdn", "gradients by chunks of 1, 3 and 7 tokens, decays of 0 included: the recurrence's", "2.6, I2",
    {**MDN, **CT, "ct_M": "K V : value"}, chunk_gradients,
)  # fmt: skip
chunk_rows(deltanet, "decayed")
chunk_rows(gated_deltanet, "decayed")
chunk_rows(gated_deltanet, "undecayed", "chunks_undecayed", error="undecayed")
chunk_rows(kda, "decayed")
chunk_rows(comba, "undecayed")
chunk_rows(mamba2, None)
chunk_rows(gla, None)
chunk_rows(retnet, None, head=3)
chunk_rows(linear_attention, None)


# ---- I3: segments


def segments(m, **settings):
    """Tokens 1 to 3, then the others from the states that the first leave."""

    def pairs(x):
        cut = lambda first, count: x.but(**{n: piece(first, count) @ v for n, v in x.items() if v.shape[:1] == ("T",)})
        head = run(m, cut(0, 3), **settings)
        carried = {"initial_" + name[6:]: S for name, S in head.items() if name.startswith("final_")}
        tail = run(m, cut(3, 4).but(**carried), **settings)
        return {**tail, "o": piece(0, 3).T @ head["o"] + piece(3, 4).T @ tail["o"]}, run(m, x, **settings)

    return pairs


def segment_rows(*mechanisms, name="segments", **settings):
    for m in mechanisms:
        dropped = [] if settings or m is not linear_attention else ["initial_normalizer"]
        says = "tokens 1-3, then 4-7 from the carried states (gradients back): one run"
        identity(name, m.name, says, "4, I3", inputs_of(m, *dropped), segments(m, **settings))


segment_rows(mdn, mdn_front_end, deltanet, gated_deltanet)
segment_rows(gated_deltanet, name="segments_undecayed", error="undecayed")
segment_rows(kda, comba, mamba2, gla, retnet, linear_attention)
segment_rows(linear_attention, name="segments_features", normalization="features")


# ---- I4 to I8: no momentum

STILL = inputs_of(mdn, "log_mu", "initial_momentum")


def without_momentum(x, **other):
    return run(mdn, x, **{"log_mu": closed(), "initial_momentum": 0, **other})


def absorbed(x):
    """Inputs of a rule of first order: beta eta for beta, log_alpha for its decay."""
    taken = x.but(beta=x.beta * x.eta, log_decay=x.log_alpha) if "log_alpha" in x else x.but(beta=x.beta * x.eta)
    return taken.without("log_alpha", "eta")


def decayed_key(x):
    return exp(x.log_alpha)[:, None] * x.k


def at(t, a):
    """Row t."""
    return one_hot(t, "T") @ a


def decayed_without_momentum(x):
    """The last momentum is the last gradient, of the state before the last token."""
    got = without_momentum(x, p=decayed_key(x))
    y = absorbed(x)
    S = run(gated_deltanet, y.but(**{n: piece(0, 6) @ v for n, v in y.items() if v.shape[0] == "T"}))["final_state"]
    e = at(6, x.v) - at(6, decayed_key(x)) @ S
    return got, {**run(gated_deltanet, y), "final_momentum": -at(6, x.eta) * outer(at(6, x.k), e)}


identity(
    "without_momentum_decayed", "mdn", "mu = 0, p = alpha k: gated_deltanet(beta eta), M_T = -eta k e^T", "4, I4",
    inputs_of(mdn, "p", "log_mu", "initial_momentum"), decayed_without_momentum,
)  # fmt: skip
identity(
    "without_momentum_undecayed", "mdn", "mu = 0, p = k: gated_deltanet(error=undecayed, beta eta)", "4, I5",
    inputs_of(mdn, "p", "log_mu", "initial_momentum"),
    lambda x: (only(without_momentum(x, p=x.k), *STATE), run(gated_deltanet, absorbed(x), error="undecayed")),
)  # fmt: skip
identity(
    "without_momentum_any_key", "mdn", "mu = 0: comba(beta eta)", "4, I5", STILL,
    lambda x: (only(without_momentum(x), *STATE), run(comba, absorbed(x))),
)  # fmt: skip
identity(
    "without_momentum_undecaying", "mdn", "mu = 0, alpha = 1, p = k: deltanet(beta eta)", "4, I6",
    inputs_of(mdn, "p", "log_alpha", "log_mu", "initial_momentum"),
    lambda x: (only(without_momentum(x, p=x.k, log_alpha=0), *STATE), run(deltanet, absorbed(x))),
)  # fmt: skip
identity(
    "without_momentum_unpredicted", "mdn", "mu = 0, p = 0: mamba2(v = beta eta v)", "4, I7",
    inputs_of(mdn, "p", "log_mu", "initial_momentum"),
    lambda x: (only(without_momentum(x, p=0), *STATE), run(mamba2, absorbed(x), v=(x.beta * x.eta)[:, None] * x.v)),
)  # fmt: skip


def rate_of_momentum(numbers, **direction):
    """The derivative of the outputs by chunks along a direction."""
    return along(momentum_chunks, numbers, direction)


identity(
    "momentum_to_gated_deltanet", "mdn", "p = alpha k, M_0 = 0, mu = eps mu: o, S_T -> gated_deltanet(beta eta)", "4, I8",
    inputs_of(mdn, "p", "initial_momentum", **RATE),
    lambda x: (
        only(without_momentum(x, p=decayed_key(x), log_mu=x.log_mu + log(x.eps)), *STATE), run(gated_deltanet, absorbed(x)),
    ),
    order=1,
    rate=lambda x: only(
        rate_of_momentum(
            momentum(x.but(p=decayed_key(x), initial_momentum=zeros("K", "V"))).but(mu=zeros("T")), mu=exp(x.log_mu)
        ), *STATE,
    ),
)  # fmt: skip


def vanishing(name, statement, given, gate, logarithmic):
    """A gate eps times its own size, against the chunks with zeros there."""
    identity(
        name, "mdn", statement, "4, I8, I9", {**MDN, **RATE},
        lambda x: (
            run(mdn, x, **{given: x[given] + log(x.eps) if logarithmic else x[given] * x.eps}),
            momentum_chunks(momentum(x).but(**{gate: zeros("T")})),
        ),
        order=1,
        rate=lambda x: rate_of_momentum(momentum(x).but(**{gate: zeros("T")}), **{gate: momentum(x)[gate]}),
    )  # fmt: skip


vanishing("momentum_to_zero", "mu = eps mu: outputs -> those of mu = 0", "log_mu", "mu", True)
vanishing("decay_to_zero", "alpha = eps alpha: outputs -> those of alpha = 0", "log_alpha", "alpha", True)
vanishing("step_to_zero", "beta = eps beta: S_T -> a_T S_0, o_t -> a_t S_0^T q_t", "beta", "beta", False)
vanishing("weight_to_zero", "eta = eps eta: S_T -> a_T S_0 - b_T M_0, M_T -> m_T M_0", "eta", "eta", False)


# ---- I9 to I13


def gamma(x):
    """Gamma_ij = sum over l = j .. i of beta_l (alpha_{l+1} .. alpha_i) (mu_{j+1} .. mu_l), as the sum that defines it."""
    return (products(x.alpha) * x.beta) @ products(x.mu)


def momentum_weight(x):
    """b_i = sum over l <= i of beta_l (alpha_{l+1} .. alpha_i) (mu_1 .. mu_l)."""
    return products(x.alpha) @ (x.beta * running(x.mu))


def masked_attention(x):
    y = momentum(x.but(p=x.k))
    o = (gamma(y) * x.eta * (x.q @ x.k.T)) @ x.v
    states = running(y.alpha)[:, None] * (x.q @ y.S) - momentum_weight(y)[:, None] * (x.q @ y.M)
    return only(run(mdn, x, p=0), "o"), {"o": scale() * (states + o)}


identity(
    "masked_attention", "mdn", "p = 0: attention under the mask Gamma_tj eta_j, plus the states' reads", "4, I9", inputs_of(mdn, "p"),
    masked_attention,
)  # fmt: skip


def nothing_written(x):
    y, weightless, stepless = momentum(x), run(mdn, x, eta=0), run(mdn, x, beta=0)
    a, b, m = at(6, running(y.alpha)), at(6, momentum_weight(y)), at(6, running(y.mu))
    got = {"S": weightless["final_state"], "M": weightless["final_momentum"], "S_without_steps": stepless["final_state"]}
    return got, {"S": a * y.S - b * y.M, "M": m * y.M, "S_without_steps": a * y.S}


identity(
    "nothing_written", "mdn", "eta = 0: S_T = a_T S_0 - b_T M_0, M_T = m_T M_0; beta = 0: S_T = a_T S_0", "4, I9", MDN, nothing_written
)


def shared_factor(x):
    got, want = run(mdn, x, eta=x.c * x.eta, beta=x.beta / x.c, initial_momentum=x.c * x.initial_momentum), run(mdn, x)
    return got, {**want, "final_momentum": x.c * want["final_momentum"]}


identity(
    "shared_factor", "mdn", "(eta, beta, M_0) -> (c eta, beta / c, c M_0): o, S_T stay, M_T -> c M_T", "4, I10",
    {**MDN, "c": ": normalizer"}, shared_factor,
)  # fmt: skip


def absorbed_step(x):
    last = where(iota("T") == 0, x.beta, shift(x.beta))
    got = run(
        mdn, x, eta=x.eta * x.beta, beta=1, log_mu=x.log_mu + log(x.beta / last), initial_momentum=at(0, x.beta) * x.initial_momentum
    )
    return only(got, *STATE), only(run(mdn, x), *STATE)


identity(
    "absorbed_step", "mdn", "eta beta for eta, mu_t beta_t / beta_{t-1} for mu, beta_1 M_0, 1 for beta: o, S_T", "4, I11", MDN,
    absorbed_step,
)  # fmt: skip


def second_order_rule(x):
    """All states are what queries along each axis read."""
    reads = scan(lambda _, i: (None, run(mdn, x, q=zeros("T")[:, None] + one_hot(i, "K"))["o"]), None, iota("K"))[1]
    states = scan(lambda _, t: (None, scan(lambda _, S: (None, at(t, S)), None, reads)[1] / scale()), None, iota("T"))[1]
    y = momentum(x)
    earlier, older = [where((iota("T") < by)[:, None, None], x.initial_state, shift(states, by)) for by in (1, 2)]
    before = lambda g: where(iota("T") == 0, 1, shift(g))

    def step(_, k, v, p, alpha, last_alpha, mu, beta, last_beta, eta, S, older):
        return None, alpha * S + beta * mu / last_beta * (S - last_alpha * older) + beta * eta * outer(k, v - p @ S)

    want = scan(step, None, y.k, y.v, y.p, y.alpha, before(y.alpha), y.mu, y.beta, before(y.beta), y.eta, earlier, older)[1]
    later = lambda S: where((iota("T") == 0)[:, None, None], 0, S)
    return {"states": later(states)}, {"states": later(want)}


identity("second_order_rule", "mdn", "S_{t+1} from S_t, S_{t-1} and the error alone", "4, I12", MDN, second_order_rule)


def linear(m):
    names = [name for name in ("v", "initial_state", "initial_momentum") if name in m.declared]
    more = {name + "_2": text for name, text in inputs_of(m).items() if name in names}

    def pairs(x):
        mixed = lambda a, b: x.a * a + x.b * b
        first, second = run(m, x), run(m, x, **{name: x[name + "_2"] for name in names})
        both = run(m, x, **{name: mixed(x[name], x[name + "_2"]) for name in names})
        return both, {name: mixed(first[name], second[name]) for name in both}

    return {**inputs_of(m), **more, "a": ": value", "b": ": value"}, pairs


identity("linear_in_values_and_states", "mdn", "(v, S_0, M_0) -> (o, S_T, M_T) is linear", "4, I13", *linear(mdn))
identity("linear_in_values_and_states", "gated_deltanet", "(v, S_0) -> (o, S_T) is linear", "4, I13", *linear(gated_deltanet))


def independent_columns(m):
    def pairs(x):
        column = lambda a: (a @ where(iota("V") + 1 == size("V"), const(1), const(0)))[:, None]
        values = [name for name in ("v", "initial_state", "initial_momentum") if name in x]
        one = run(m, x, **{name: column(x[name]) for name in values})
        return one, {name: column(a) for name, a in run(m, x).items()}

    return pairs


for m in (mdn, kda):
    identity(
        "independent_columns", m.name, "the last value column alone: its outputs and gradients", "4, I13", inputs_of(m),
        independent_columns(m),
    )  # fmt: skip


def rotated_keys(m):
    def pairs(x):
        Q = reflection("K", "K")
        rows = {name: x[name] @ Q for name in ("q", "k", "p") if name in x}
        states = {name: Q.T @ x[name] for name in ("initial_state", "initial_momentum") if name in x}
        return run(m, x, **rows, **states), {name: a if name == "o" else Q.T @ a for name, a in run(m, x).items()}

    return pairs


identity(
    "rotated_keys", "mdn", "q, k, p, S_0, M_0 in another orthonormal basis: the same o", "4, I13", MDN, rotated_keys(mdn)
)
identity(
    "rotated_keys", "comba", "q, k, p, S_0 in another orthonormal basis: the same o", "4, I13", inputs_of(comba), rotated_keys(comba)
)


# ---- I14 to I17: the rules of first order


def all_channels(g):
    return g[:, None] + zeros("T", "K")


def same(left, right, **other):
    """Two mechanisms on the same inputs, the first with others in the places of some."""
    return lambda x: (run(left, x, **{name: f(x) for name, f in other.items()}), run(right, x))


identity(
    "equal_channels", "kda", "one decay for all channels: gated_deltanet", "4, I14", inputs_of(gated_deltanet),
    same(kda, gated_deltanet, log_decay=lambda x: all_channels(x.log_decay)),
)  # fmt: skip
identity(
    "equal_channels", "gla", "one decay for all channels: mamba2", "4, I14", inputs_of(mamba2),
    same(gla, mamba2, log_decay=lambda x: all_channels(x.log_decay)),
)  # fmt: skip
PLAIN = inputs_of(linear_attention, "initial_normalizer")
for m in (gla, mamba2):
    identity(
        "undecaying", m.name, "log_decay = 0: linear_attention", "4, I14", PLAIN, same(m, linear_attention, log_decay=lambda x: const(0))
    )
identity(
    "constant_decay", "mamba2", "log_decay = log(1 - 2^-8): retnet(head=3)", "4, I14", PLAIN,
    lambda x: (run(mamba2, x, log_decay=log(1 - const("1/256"))), run(retnet, x, head=3)),
)  # fmt: skip
DELTA = inputs_of(deltanet)
identity("undecaying", "gated_deltanet", "log_decay = 0: deltanet", "4, I15", DELTA, same(gated_deltanet, deltanet, log_decay=lambda x: 0))
identity(
    "undecaying_undecayed", "gated_deltanet", "error=undecayed, log_decay = 0: deltanet", "4, I15", DELTA,
    lambda x: (run(gated_deltanet, x, error="undecayed", log_decay=0), run(deltanet, x)),
)  # fmt: skip
identity("undecaying", "kda", "log_decay = 0: deltanet", "4, I14, I15", DELTA, same(kda, deltanet, log_decay=lambda x: 0))
identity(
    "unpredicted", "comba", "p = 0: mamba2(v = beta v)", "4, I15", inputs_of(comba, "p"),
    lambda x: (run(comba, x, p=0), run(mamba2, x, v=x.beta[:, None] * x.v)),
)  # fmt: skip
identity(
    "predicting_with_the_decayed_key", "comba", "p = alpha k: gated_deltanet", "4, I16", inputs_of(gated_deltanet),
    same(comba, gated_deltanet, p=lambda x: exp(x.log_decay)[:, None] * x.k),
)  # fmt: skip
identity(
    "conventions_exchanged", "gated_deltanet", "error=undecayed: error=decayed of (beta / alpha, alpha v)", "4, I16",
    inputs_of(gated_deltanet),
    lambda x: (
        run(gated_deltanet, x, error="undecayed"),
        run(gated_deltanet, x, beta=x.beta / exp(x.log_decay), v=exp(x.log_decay)[:, None] * x.v),
    ),
)  # fmt: skip


def rate_of_decay(x, direction, *errors):
    """The derivative of the outputs by chunks along a direction of the decays, less that of another error."""
    rates = [along(lambda y, e=e: first_order_chunks(y, e), x, {"D": direction}) for e in errors]
    return rates[0] if len(rates) == 1 else {name: a - rates[1][name] for name, a in rates[0].items()}


def undecayed_numbers(x):
    return first_order(x.but(log_decay=zeros("T")))


def slow_decay(m, plain, error):
    identity(
        "slow_decay", m.name, f"log_decay = eps g: {plain.name}", "4, I14, I15",
        inputs_of(m, **RATE), lambda x: (run(m, x, log_decay=x.eps * x.log_decay), run(plain, x.without("eps"))), order=1,
        rate=lambda x: rate_of_decay(
            undecayed_numbers(x), x.log_decay if x.log_decay.ndim == 2 else all_channels(x.log_decay), error
        ),
    )  # fmt: skip


slow_decay(gated_deltanet, deltanet, "decayed")
slow_decay(kda, deltanet, "decayed")
slow_decay(gla, linear_attention, None)
slow_decay(mamba2, linear_attention, None)


def nearly_equal_channels(m, one, error):
    identity(
        "nearly_equal_channels", m.name, f"log_decay = g + eps k: {one.name}", "4, I14", inputs_of(one, **RATE),
        lambda x: (run(m, x, log_decay=all_channels(x.log_decay) + x.eps * x.k), run(one, x)), order=1,
        rate=lambda x: rate_of_decay(first_order(x), first_order(x).D * x.k, error),
    )  # fmt: skip


nearly_equal_channels(kda, gated_deltanet, "decayed")
nearly_equal_channels(gla, mamba2, None)
identity(
    "conventions_meet", "gated_deltanet", "log_decay = eps g: error=undecayed -> error=decayed", "3.1", inputs_of(gated_deltanet, **RATE),
    lambda x: tuple(run(gated_deltanet, x, log_decay=x.eps * x.log_decay, error=error) for error in ("undecayed", "decayed")), order=1,
    rate=lambda x: rate_of_decay(undecayed_numbers(x), all_channels(x.log_decay), "undecayed", "decayed"),
)  # fmt: skip


def lower(A, strictly=False):
    """The part of [T T] on and below the diagonal, or below it."""
    t = iota("T")
    return where(t < t[:, None] if strictly else t <= t[:, None], A, 0)


identity(
    "small_steps", "deltanet", "beta = eps, S_0 = 0: o / eps -> linear_attention", "3.1",
    {**inputs_of(deltanet, "beta", "initial_state"), **RATE},
    lambda x: (
        {"o": run(deltanet, x, beta=x.eps)["o"] / x.eps}, only(run(linear_attention, x.without("eps")), "o"),
    ),
    order=1, rate=lambda x: {"o": -scale() * (lower(x.q @ x.k.T) @ (lower(x.k @ x.k.T, strictly=True) @ x.v))},
)  # fmt: skip


def recalled(m, weights, **given):
    """Four orthonormal keys on zero states: k_j S_T = weight_j v_j."""

    def pairs(x):
        k = reflection("T", "K")
        states = {name: 0 for name in ("initial_state", "initial_momentum") if name in m.declared}
        keys = {name: k for name in ("k", "p") if name in m.declared}
        read = k @ run(m, x, **keys, **states, **given, q=k)["final_state"]
        return {"read": read}, {"read": weights(x)[:, None] * x.v}

    return pairs


SQUARE = {"shape": (4, 4, 3)}
identity(
    "recalled_exactly", "deltanet", "orthonormal keys, S_0 = 0, beta = 1: S_T^T k_j = v_j", "4, I17", {"v": "T V", "axis": "K : value"},
    recalled(deltanet, lambda x: filled(1, ("T",)), beta=1), **SQUARE,
)  # fmt: skip
identity(
    "recalled_decayed", "gated_deltanet", "orthonormal keys, S_0 = 0, beta = 1: S_T^T k_j = (a_T / a_j) v_j", "4, I17",
    {"v": "T V", "log_decay": "T", "axis": "K : value"},
    recalled(gated_deltanet, lambda x: last_row(products(exp(x.log_decay))), beta=1), **SQUARE,
)  # fmt: skip


def last_row(a):
    return where(iota("T") + 1 == size("T"), const(1), const(0)) @ a


GATES = {"v": "T V", "log_alpha": "T", "log_mu": "T", "beta": "T", "eta": "T", "axis": "K : value"}
identity(
    "recalled_with_momentum", "mdn", "orthonormal keys, S_0 = M_0 = 0: S_T^T k_j = Gamma_Tj eta_j v_j", "4, I17", GATES,
    recalled(mdn, lambda x: last_row(gamma(Inputs(alpha=exp(x.log_alpha), mu=exp(x.log_mu), beta=x.beta))) * x.eta), **SQUARE,
)  # fmt: skip
identity(
    "overshooting", "mdn", "... alpha = beta = eta = 1: S_T^T k_j = (1 - mu^m) / (1 - mu) v_j, m = T - j + 1", "4, I17",
    {"v": "T V", "log_mu": " : log_decay", "axis": "K : value"},
    recalled(mdn, lambda x: (1 - exp(x.log_mu) ** (size("T") - iota("T"))) / (1 - exp(x.log_mu)), log_alpha=0, beta=1, eta=1), **SQUARE,
)  # fmt: skip


# ---- gradient identities that need no second form: cotangents are inputs


def with_gradients(m, of, **settings):
    """The pairs that `of` makes of the other inputs, the outputs, the gradients and the cotangents of outputs."""

    def pairs(x):
        ct = {"o": x.ct_o, "final_state": x.ct_S, **({"final_momentum": x.ct_M} if "ct_M" in x else {})}
        y = x.without("ct_o", "ct_S", "ct_M")
        f = lambda z: run(m, z, **settings)
        return of(y, Inputs(f(y)), gradients(f, y, ct), Inputs(ct))

    return pairs


def total(a, b, *names):
    """The sum of the products of those of both."""
    return sum((inner(a[name], b[name]) for name in names), const(0))


def momentum_values_balance(x, y, d, ct):
    got = {"values": total(x, d, "v", "initial_state", "initial_momentum"), "q": inner_rows(x.q, d.q), "k": inner_rows(x.k, d.k)}
    return got, {"values": total(y, ct, *MOMENTUM), "q": inner_rows(y.o, ct.o), "k": x.eta * d.eta}


def telescoped(gate, more, extra, first, last):
    """A gate's gradients telescope: gate_t + more_t = gate_{t+1} + extra_{t+1}, `last` after the last token, `first` at the first."""
    sums = gate + extra
    return {"rows": gate + more, "first": at(0, sums)}, {"rows": where(iota("T") + 1 == size("T"), last, shift(sums, -1)), "first": first}


def momentum_gates_telescope(x, y, d, ct):
    ends = inner(x.initial_momentum, d.initial_momentum), inner(y.final_momentum, ct.final_momentum)
    return telescoped(d.log_mu, x.eta * d.eta - x.beta * d.beta, zeros("T"), *ends)


def state_gates_telescope(x, y, d, ct):
    ends = inner(x.initial_state, d.initial_state), inner(y.final_state, ct.final_state)
    return telescoped(d.log_alpha, x.beta * d.beta - inner_rows(x.q, d.q), inner_rows(x.p, d.p), *ends)


def decayed_gates_telescope(x, y, d, ct):
    """2 beta dbeta - <k, dk> = beta dbeta - <p, dp> where p = k."""
    gate = d.log_decay if d.log_decay.ndim == 1 else d.log_decay.sum(-1)
    ends = inner(x.initial_state, d.initial_state), inner(y.final_state, ct.final_state)
    return telescoped(gate, 2 * x.beta * d.beta - inner_rows(x.k, d.k) - inner_rows(x.q, d.q), zeros("T"), *ends)


def gates_without_division(x, y, d, ct):
    """Section 3.2: per channel if the gate is, else summed over them."""
    reads = x.q * d.q - x.k * d.k
    want = cumsum(reads, reverse=True) + (y.final_state * ct.final_state).sum(-1)
    if "p" in x:
        predicted = x.p * d.p
        want = want + cumsum(predicted, reverse=True) - predicted
    return {"gate": d.log_decay}, {"gate": want if d.log_decay.ndim == 2 else want.sum(-1)}


def values_balance(x, y, d, ct):
    got = {"values": total(x, d, "v", "initial_state"), "q": inner_rows(x.q, d.q)}
    return got, {"values": total(y, ct, *STATE), "q": inner_rows(y.o, ct.o)}


MDN_CT = {**MDN, **CT, "ct_M": "K V : value"}
identity(
    "values_balance", "mdn",
    "<dv, v> + <dS_0, S_0> + <dM_0, M_0> = <do, o> + <dS_T, S_T> + <dM_T, M_T>; <dq, q> = <do, o>, <dk, k> = eta deta",
    "4", MDN_CT, with_gradients(mdn, momentum_values_balance),
)  # fmt: skip
identity(
    "momentum_gates_telescope", "mdn", "dlog_mu_t + eta deta - beta dbeta = dlog_mu_{t+1}, <dM, M> at the ends", "4", MDN_CT,
    with_gradients(mdn, momentum_gates_telescope),
)  # fmt: skip
identity(
    "state_gates_telescope", "mdn", "dlog_alpha_t + beta dbeta - <q, dq> = dlog_alpha_{t+1} + <p, dp>_{t+1}, <dS, S> at the ends", "4",
    MDN_CT, with_gradients(mdn, state_gates_telescope),
)  # fmt: skip
for m in (gated_deltanet, kda):
    identity(
        "gates_telescope", m.name, "dg_t + beta dbeta - <p, dp> - <q, dq> = dg_{t+1}, <dS, S> at the ends", "4", {**inputs_of(m), **CT},
        with_gradients(m, decayed_gates_telescope),
    )  # fmt: skip
for m, says in (
    (comba, "dg_t from q dq - k dk of t and later, p dp of later tokens"),
    (gla, "dg_t from q dq - k dk of t and later, channel by channel"),
    (mamba2, "dg_t from <q, dq> - <k, dk> of t and later"),
):
    identity("gates_without_division", m.name, says, "3.2", {**inputs_of(m), **CT}, with_gradients(m, gates_without_division))
for m in (deltanet, comba, retnet):
    identity(
        "values_balance", m.name, "<dv, v> + <dS_0, S_0> = <do, o> + <dS_T, S_T>; <dq, q> = <do, o>", "4", {**inputs_of(m), **CT},
        with_gradients(m, values_balance),
    )  # fmt: skip


# ---- 3.5: normalised linear attention

FEATURES = inputs_of(linear_attention)


def positive(x):
    """Positive features, so that every denominator is."""
    return x.but(q=abs(x.q), k=abs(x.k))


def normalized(x, **other):
    return run(linear_attention, x, normalization="features", **other)


def denominators(x, eps):
    return scale() * inner_rows(x.q, cumsum(x.k) + x.initial_normalizer) + eps


def weighted_means(x):
    """Weights that add up to one leave a constant as it is."""
    y = positive(x)
    weights = lower(y.q @ y.k.T)
    got = {"o": normalized(y)["o"], "constant": normalized(y, v=x.c)["o"]}
    return got, {"o": (weights @ x.v) / weights.sum(-1)[:, None], "constant": filled(x.c, ("T", "V"))}


identity(
    "features_are_weighted_means", "linear_attention",
    "normalization=features, zero states: o_t = sum <q, k_j> v_j / sum <q, k_j>; a constant v stays",
    "3.5", {**inputs_of(linear_attention, "initial_state", "initial_normalizer"), "c": ": value"}, weighted_means,
)  # fmt: skip


def scale_free(x):
    y = positive(x)
    other = y.but(q=x.a * y.q, k=y.k / x.b, initial_state=x.initial_state / x.b, initial_normalizer=x.initial_normalizer / x.b)
    return only(normalized(other, scale=x.c), "o"), only(normalized(y), "o")


identity(
    "features_are_scale_free", "linear_attention", "normalization=features, eps = 0: scale, |q|, |k| do not matter", "3.5",
    {**FEATURES, "a": ": normalizer", "b": ": normalizer", "c": ": normalizer"}, scale_free,
)  # fmt: skip


def features_gradients(x):
    y, ct = positive(x).without("ct_o", "ct_S", "eps"), {"o": x.ct_o, "final_state": x.ct_S}
    f = lambda z: normalized(z, eps=x.eps)
    out, d = f(y), gradients(f, y, ct)
    got = {"q": inner_rows(y.q, d.q), "values": total(y, d, "v", "initial_state")}
    return got, {"q": x.eps / denominators(y, x.eps) * inner_rows(out["o"], x.ct_o), "values": total(out, ct, *STATE)}


identity(
    "features_gradients", "linear_attention", "<q, dq> = (eps / n) <do, o>; <dv, v> + <dS_0, S_0> = <do, o> + ..", "3.5",
    {**FEATURES, **CT, "eps": ": normalizer"}, features_gradients,
)  # fmt: skip


def eps_to_zero(x):
    y = positive(x)
    return only(normalized(y), "o"), only(normalized(y.without("eps")), "o")


identity(
    "eps_to_zero", "linear_attention", "normalization=features: o(eps) -> o(0)", "3.5", {**FEATURES, **RATE}, eps_to_zero, order=1,
    rate=lambda x: {"o": -normalized(positive(x).without("eps"))["o"] / denominators(positive(x), 0)[:, None]},
)  # fmt: skip


# ---- 2.9: the spectrum of one step


def map_of_mdn(x):
    """The map of [S; M] by one token as the mechanism does it, in blocks [K K]: S from S and M, then M from S and M."""
    step = lambda S, M: run(mdn, x, v=zeros("T", "K"), initial_state=S, initial_momentum=M)
    one, none = eye("K", "K"), zeros("K", "K")
    from_state, from_momentum = step(one, none), step(none, one)
    return [a[name] for name in ("final_state", "final_momentum") for a in (from_state, from_momentum)]


def token(x):
    """The only token's gates as numbers, and its k and p."""
    gates = {"alpha": exp(x.log_alpha), "mu": exp(x.log_mu)}
    return Inputs((name, v.sum(0)) for name, v in x.but(**gates).items() if v.shape[:1] == ("T",))


def square(blocks, rows=6):
    """The matrix of the blocks, of 2 K rows."""
    first = where(iota(rows)[:, None] == iota("K"), const(1), const(0))
    second = where(iota(rows)[:, None] == iota("K") + size("K"), const(1), const(0))
    places = [(a, b) for a in (first, second) for b in (first, second)]
    return sum((a @ m @ b.T for m, (a, b) in zip(blocks, places)), zeros(rows, rows))


def determinant(A):
    """By elimination without pivots."""
    n = A.shape[0]

    def step(state, c):
        A, product = state
        here = one_hot(c, n)
        pivot = dot(here @ A, here)
        return (A - outer(where(c < iota(n), A @ here / pivot, 0), here @ A), product * pivot), None

    return scan(step, (A, const(1)), iota(n))[0][1]


ONE = inputs_of(mdn, "v", "initial_state", "initial_momentum")
ONE_TOKEN = {"shape": (1, 3, 6)}


def blocks_of_one_step(y):
    kp, one = y.eta * outer(y.k, y.p), eye("K", "K")
    return y.alpha * one - y.beta * kp, -y.beta * y.mu * one, kp, y.mu * one


def map_of_one_step(x):
    named = lambda blocks: {f"block_{i}": a for i, a in enumerate(blocks)}
    return named(map_of_mdn(x)), named(blocks_of_one_step(token(x)))


identity(
    "map_of_one_step", "mdn", "[S; M] -> [[alpha - beta eta k p^T, -beta mu], [eta k p^T, mu]] [S; M]", "2.9", ONE,
    map_of_one_step, **ONE_TOKEN,
)  # fmt: skip


def characteristic_polynomial(x):
    """At a number that is drawn, and at 0."""
    y, A, z = token(x), square(map_of_mdn(x)), x.z
    tau = y.alpha + y.mu - y.beta * y.eta * dot(y.p, y.k)
    want = ((z - y.alpha) * (z - y.mu)) ** (size("K") - 1) * (z * z - tau * z + y.alpha * y.mu)
    return {"at_z": determinant(z * eye(6, 6) - A), "at_0": determinant(A)}, {"at_z": want, "at_0": (y.alpha * y.mu) ** size("K")}


identity(
    "characteristic_polynomial", "mdn", "(x - alpha)^{K-1} (x - mu)^{K-1} (x^2 - tau x + alpha mu); det = (alpha mu)^K", "2.9",
    {**ONE, "z": ": value"}, characteristic_polynomial, **ONE_TOKEN,
)  # fmt: skip


def equal_decays_are_defective(x):
    """With alpha = mu, A - alpha takes [u; w] that p does not see to [-beta mu w; 0], and that to nothing."""
    A, y = map_of_mdn(x.but(log_mu=x.log_alpha)), token(x.but(log_mu=x.log_alpha))
    unseen = lambda u: u - dot(y.p, u) / dot(y.p, y.p) * y.p
    times = lambda a, b: (A[0] @ a + A[1] @ b, A[2] @ a + A[3] @ b)
    a, b = unseen(x.u), unseen(x.w)
    once = times(a, b)
    twice = times(*once)
    got = {"state": once[0], "momentum": once[1], "state_twice": twice[0], "momentum_twice": twice[1]}
    want = y.alpha * a - y.beta * y.mu * b, y.alpha * b
    more = [2 * y.alpha * c - y.alpha**2 * d for c, d in zip(once, (a, b))]
    return got, dict(zip(got, (*want, *more)))


identity(
    "equal_decays_are_defective", "mdn", "alpha = mu: (A - alpha)^2 = 0 != A - alpha on what p does not see", "2.9",
    {**inputs_of(mdn, "v", "log_mu", "initial_state", "initial_momentum"), "u": "K : value", "w": "K : value"},
    equal_decays_are_defective, **ONE_TOKEN,
)  # fmt: skip


def token_with(x, strength):
    """The problem with beta eta <p, k> = strength(alpha, mu)."""
    y = token(x)
    return x.but(beta=filled(strength(y.alpha, y.mu) / (y.eta * dot(y.p, y.k)), ("T",)))


def stability_edge(x):
    """The eigenvalue -1 is missed by eps: det(A + 1) = (1 + alpha)^{K-1} (1 + mu)^{K-1} eps."""
    y = token_with(x, lambda alpha, mu: (1 + alpha) * (1 + mu) - x.eps)
    return {"det": determinant(square(map_of_mdn(y)) + eye(6, 6))}, {"det": const(0)}


def half_plane_edge(x):
    """The pair is off +-i sqrt(alpha mu) by its trace eps.

    det(A^2 + alpha mu) = alpha mu eps^2 (alpha^2 + alpha mu)^{K-1} (mu^2 + alpha mu)^{K-1}.
    """
    y = token_with(x, lambda alpha, mu: alpha + mu - x.eps)
    A = square(map_of_mdn(y))
    return {"det": determinant(A @ A + token(x).alpha * token(x).mu * eye(6, 6))}, {"det": const(0)}


EDGE = {**inputs_of(mdn, "v", "beta", "initial_state", "initial_momentum"), **RATE}
identity(
    "stability_edge", "mdn", "beta eta <p, k> = (1 + alpha)(1 + mu) - eps: det(A + 1) -> 0", "2.9", EDGE, stability_edge, order=1,
    rate=lambda x: {"det": ((1 + token(x).alpha) * (1 + token(x).mu)) ** (size("K") - 1)}, **ONE_TOKEN,
)  # fmt: skip
identity(
    "half_plane_edge", "mdn", "beta eta <p, k> = alpha + mu - eps: det(A^2 + alpha mu) -> 0", "2.9", EDGE, half_plane_edge, order=2,
    rate=lambda x: {
        "det": token(x).alpha * token(x).mu * (token(x).alpha * token(x).mu * (token(x).alpha + token(x).mu) ** 2) ** (size("K") - 1)
    }, **ONE_TOKEN,
)  # fmt: skip


# ---- 2.8: gates

GATES_OF = {**inputs_of(mdn_gates), "tau": ": normalizer"}


def gates_share_an_angle(x):
    """sin^2 + cos^2 = 1, with exp(A softplus(x)) = (1 + e^x)^A."""
    y = run(mdn_gates, x)
    decay = exp(exp(x.a_log) * log(1 + exp(x.a + x.dt_bias)))
    ratio = exp(2 * x.e / x.tau)
    got = {"angle": y["beta"] * (1 + exp(-x.b)) + exp(y["log_alpha"]) * decay, "eta": (y["eta"] - 1) * (1 + ratio)}
    return got, {"angle": filled(1, ("T",)), "eta": ratio - 1}


identity(
    "gates_share_an_angle", "mdn_gates", "beta / sigmoid(b) + alpha exp(decay) = 1; eta = 1 + tanh(e / tau)", "2.8", GATES_OF,
    gates_share_an_angle,
)  # fmt: skip


def clamped_momentum(x):
    """The floor is the mean, so that some are below it and some are not."""
    free = run(mdn_gates, x)["log_mu"]
    floor = detach(free.sum() / real(size("T")))
    return only(run(mdn_gates, x, min_log_mu=floor), "log_mu"), {"log_mu": where(free < floor, floor, free)}


identity("clamped_momentum", "mdn_gates", "min_log_mu: a floor without gradient", "2.8", GATES_OF, clamped_momentum)
OPEN = {**inputs_of(mdn_gates, "a", "b"), "tau": ": normalizer", **RATE}


def open_gates(x, **other):
    """sigmoid(b) = 1 / (1 + eps), softplus(a + dt_bias) = log(1 + eps)."""
    return Inputs(run(mdn_gates, x, a=log(x.eps) - x.dt_bias, b=-log(x.eps), **other))


def angle_budget(x):
    y = open_gates(x)
    return {"sum": exp(y.log_alpha) + y.beta}, {"sum": filled(1, ("T",))}


def angle_rate(x):
    square = ((1 + tanh(x.e / x.tau)) * exp(x.log_factor)) ** 2
    return {"sum": -(square + exp(x.a_log)) / (1 + square)}


identity(
    "angle_budget", "mdn_gates", "sigmoid(b) = 1 / (1 + eps), softplus(a) = log(1 + eps): alpha + beta -> 1", "2.8", OPEN, angle_budget,
    order=1, rate=angle_rate, shape=(1, 4, 3),
)  # fmt: skip


def half_plane_bound(x):
    """sup alpha (beta eta - 1) = 1/8, at sin^2 theta = 3/4 as eta -> 2."""
    eta = 2 - x.eps
    y = open_gates(x, e=x.tau * log(eta / (2 - eta)) / 2, log_factor=log(sqrt(const(3)) / eta))
    return {"bound": exp(y.log_alpha) * (y.beta * y.eta - 1)}, {"bound": filled(const("1/8"), ("T",))}


identity(
    "half_plane_bound", "mdn_gates", "eta = 2 - eps, sin^2 theta = 3/4: alpha (beta eta - 1) -> 1/8", "2.9", OPEN, half_plane_bound,
    order=1, rate=lambda x: {"bound": filled(-exp(x.a_log) / 8 - const("9/16"), ("T",))}, shape=(1, 4, 3),
)  # fmt: skip


# ---- 2.3: the front end

RAW = inputs_of(mdn_front_end)
UNCORRECTED = inputs_of(mdn_front_end, "log_d")


def unit(a, l2_eps):
    return a / sqrt(inner_rows(a, a) + l2_eps)[:, None]


def prepared(x, l2_eps, D=0, norm=unit):
    """The inputs of mdn that the front end hands on."""
    k = norm(x.k, l2_eps)
    return x.but(q=norm(x.q - D * x.k, l2_eps), k=k, p=exp(x.log_alpha)[:, None] * k)


identity(
    "prepares_for_mdn", "mdn_front_end", "mdn on N(q - D k), N(k), alpha N(k)", "2.3", RAW,
    lambda x: (run(mdn_front_end, x), run(mdn, prepared(x, const("1e-6"), exp(x.log_d)))),
)  # fmt: skip


def norms_are_scale_free(x):
    ct, D = {"o": x.ct_o, "final_state": x.ct_S, "final_momentum": x.ct_M}, exp(x.log_d)
    y = x.without("ct_o", "ct_S", "ct_M", "c", "l2_eps")
    f = lambda z, l2_eps=0: run(mdn_front_end, z, l2_eps=l2_eps)
    d = gradients(f, y, ct)
    larger = y.but(q=x.c * x.q, k=x.c * x.k)
    named = lambda suffix, out: {name + suffix: a for name, a in out.items()}
    got = {"q": inner_rows(d.q, x.q), "k": inner_rows(d.k, x.k), "log_d": d.log_d}
    want = {"q": D * inner_rows(d.q, x.k), "k": -D * inner_rows(d.q, x.k), "log_d": -D * inner(d.q, x.k)}
    scaled = {**f(larger), **named("_with_eps", f(larger, x.c * x.c * x.l2_eps))}
    return {**got, **scaled}, {**want, **f(y), **named("_with_eps", f(y, x.l2_eps))}


identity(
    "norms_are_scale_free", "mdn_front_end", "l2_eps = 0: <dq, q - D k> = <dk + D dq, k> = 0; 3 q, 3 k, 9 l2_eps", "2.3",
    {**RAW, **CT, "ct_M": "K V : value", "c": ": normalizer", "l2_eps": ": normalizer"}, norms_are_scale_free,
)  # fmt: skip


def zero_key(x):
    """A key of zeros has no direction: its gradient is that of its unit key over sqrt(l2_eps), or nothing."""
    ct = {"o": x.ct_o, "final_state": x.ct_S, "final_momentum": x.ct_M}
    y = x.without("ct_o", "ct_S", "ct_M")
    y = y.but(k=where((iota("T") == 3)[:, None], 0, x.k))
    d_k = lambda l2_eps: at(3, gradients(lambda z: run(mdn_front_end, z, l2_eps=l2_eps), y, ct).k)
    l2_eps = const("1e-6")
    core = gradients(lambda z: run(mdn, z), prepared(y, l2_eps), ct)
    want = (at(3, core.k) + at(3, exp(x.log_alpha)) * at(3, core.p)) / sqrt(l2_eps)
    return {"k": d_k(l2_eps), "k_without_eps": d_k(0)}, {"k": want, "k_without_eps": zeros("K")}


identity(
    "zero_key", "mdn_front_end", "k_t = 0: dk = (dk' + alpha dp) / sqrt(l2_eps), 0 for l2_eps = 0", "1",
    {**UNCORRECTED, **CT, "ct_M": "K V : value"}, zero_key,
)  # fmt: skip


def front_end_rate(x, dq, dk):
    """The rates of the outputs when what the front end hands on moves with dq and dk."""
    return rate_of_momentum(momentum(prepared(x, 0)), q=dq, k=dk, p=exp(x.log_alpha)[:, None] * dk)


identity(
    "l2_eps_to_zero", "mdn_front_end", "l2_eps = eps: outputs of exact unit norms", "2.3", {**UNCORRECTED, **RATE},
    lambda x: (run(mdn_front_end, x, l2_eps=x.eps), run(mdn_front_end, x, l2_eps=0)), order=1,
    rate=lambda x: front_end_rate(x, *(-a / (2 * inner_rows(a, a) * sqrt(inner_rows(a, a)))[:, None] for a in (x.q, x.k))),
)  # fmt: skip


def correction_rate(x):
    """d/dD N(q - D k) = -(k - y <y, k>) / |q| at D = 0, y = N(q)."""
    y = unit(x.q, 0)
    return front_end_rate(x, -(x.k - inner_rows(y, x.k)[:, None] * y) / sqrt(inner_rows(x.q, x.q))[:, None], zeros("T", "K"))


identity(
    "correction_to_zero", "mdn_front_end", "exp(log_d) = eps: outputs without the correction", "2.3", {**UNCORRECTED, **RATE},
    lambda x: (run(mdn_front_end, x, l2_eps=0, log_d=log(x.eps)), run(mdn_front_end, x, l2_eps=0)), order=1, rate=correction_rate,
)  # fmt: skip
