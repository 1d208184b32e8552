"""The mistakes of the FALCON paper (falcon-family.md 7): its algorithms with one line as printed and the others correct."""
from assay.language import const, cumsum, exp, iota, log, maximum, minimum, outer, scan, shift, solve, sqrt, where, zeros
from assay.language.scope import integer
from deltanet import deltanet
from falcon1 import falcon1
from falcon2_lite import falcon2_lite
from falcon3 import falcon3
from falcon3a import falcon3a
from falcon_chunks import B, by_channels, cut, delta_gains, flow, followed, lower, mask, mean, overshooting, ratios, without_tail
from falcon_gains import answer, from_second, gains, given
from falcon_relations import impulses, without
from rls import rls
from rows import Inputs, chunk_of, erratum, eye, gradients, inner, inner_rows, inputs_of, one_hot, only, renamed, run

C = 3  # rows of a chunk: of seven tokens two full chunks and a short one
CT = {"ct_o": "T V : value", "ct_S": "K V : value"}
column = lambda a: a[:, None]


def trial(wrong):
    """The line on trial as printed, every other one corrected."""
    return lambda name, corrected, printed: printed if name == wrong else corrected


def derived(m, x, *names, **settings):
    """Gradients of the mechanism."""
    ct = {"o": x.ct_o, "final_state": x.ct_S}
    return only(gradients(lambda y: answer(m, y, **settings), x.without("ct_o", "ct_S"), ct), *names)


def last():
    return one_hot(C - 1, C)


def forward(step, x, S):
    """The states before every chunk, and the last one."""
    return scan(lambda S, n: (step(chunk_of(x, n, C)[0].but(S=S))[1], S), S, iota(3))


def backward(step, x, starts, dS, *sums):
    """Gradients from the last chunk to the first: dS before it, and those of its rows or of all."""

    def back(state, n, S):
        rows, P = chunk_of(x, n, C)
        dS, *found = step(rows.but(S=S, dS=state[0]))
        return (dS, *(a + (P.T @ b if b.shape[0] == C else b) for a, b in zip(state[1:], found))), None

    return scan(back, (dS, *sums), iota(3), starts, reverse=True)[0]


# ---- algorithm 6: FALCON-3A's


def masked(x):
    """The window's pairs are those of all tokens, X and V; A has their weights."""
    u = cumsum(log(x.gamma))
    D, delta = lower(exp(lower(u[:, None] - u))), exp(u)
    M = (D * x.eta) @ x.A
    return x.but(D=D, delta=delta, M=M), delta[-1] * x.S + (column(M[-1]) * x.X).T @ x.V


def masked_back(line):
    def step(x):
        x = masked(x)[0]
        H, P, dW = x.q @ x.S, x.q @ x.X.T, x.d_o @ x.V.T
        d_delta = inner_rows(line("E2", x.d_o, column(x.delta) * H), H)
        dH = column(line("E1", x.delta, d_delta)) * x.d_o
        write = x.X @ x.dS
        dv = line("E3", P * x.M, dW).T @ x.d_o + column(x.M[-1]) * write
        dM = dW * P + outer(last(), inner_rows(write, x.V))
        d_delta += last() * inner(x.dS, x.S)
        G = lower(dM @ (column(x.eta) * x.A).T * x.D)
        d_log = cumsum(x.delta * d_delta + G.sum(-1) - G.sum(0), reverse=True)
        d_alpha = -line("E4", d_log, log(x.gamma)) / x.gamma * line("E5", 1, 2)
        return x.q.T @ dH + x.delta[-1] * x.dS, dH @ x.S.T + dW * x.M @ x.X, d_alpha, dv

    return step


def algorithm_6(x, wrong=None):
    g, line = gains(falcon3a, x, x.e), trial(wrong)
    y = Inputs(q=x.q, eta=g.eta, gamma=g.gamma, A=mean(), d_o=x.ct_o)
    pairs = {"X": shift(x.k), "V": x.v}
    starts = forward(lambda c: masked(c.but(**pairs)), y, x.initial_state)[1]
    dS = line("G2", x.ct_S, 0 * x.ct_S)
    back = lambda c: masked_back(line)(c.but(**pairs))
    dS, dq, d_alpha, dv = backward(back, y, starts, dS, 0 * x.q, zeros("T"), 0 * x.v)
    return Inputs(q=dq, alpha=from_second(d_alpha), v=dv, initial_state=dS)


# ---- algorithm 8: the WY kernel's


def wy(x):
    sigma = sqrt(x.eta)
    U = column(sigma) * x.x
    L = eye(C, C) + lower(U @ U.T, strictly=True)
    E, M = solve(L, column(sigma) * x.v - U @ x.S), lower(x.q @ U.T)
    return x.but(sigma=sigma, U=U, L=L, E=E, M=M, o=x.q @ x.S + M @ E), x.S + U.T @ E


def wy_back(line):
    """Gradients of S, q, x, v and eta."""

    def step(x):
        x = wy(x)[0]
        dM = lower(x.d_o @ x.E.T)
        h = solve(x.L.T, line("E7", x.M, dM).T @ x.d_o + x.U @ x.dS)
        solved = lower(h @ x.E.T, strictly=True)
        dL = line("E6", -solved, solved)
        dU = dM.T @ x.q + x.E @ x.dS.T - h @ x.S.T + (dL + dL.T) @ x.U
        d_sigma = inner_rows(x.x, dU) + inner_rows(x.v, h)
        d_eta = where(line("E8", 0 < x.sigma, 0 < d_sigma), d_sigma / (2 * x.sigma), 0)
        dS = x.dS + x.q.T @ x.d_o - x.U.T @ h
        return dS, x.d_o @ x.S.T + dM @ x.U, column(x.sigma) * dU, column(x.sigma) * h, d_eta

    return step


def algorithm_8(x, wrong=None):
    y = Inputs(q=x.q, x=shift(x.k), v=x.v, eta=from_second(x.beta), d_o=x.ct_o)
    starts = forward(wy, y, x.initial_state)[1]
    _, _, dx, dv, d_eta = backward(wy_back(trial(wrong)), y, starts, x.ct_S, 0 * x.q, 0 * x.q, 0 * x.v, zeros("T"))
    return Inputs(k=shift(dx, -1), v=dv, beta=d_eta)


def zero_gain(x):
    """A row with eta = 0 and x != 0, where sigma = sqrt(eta) has no derivative."""
    x = x.but(beta=where(iota("T") == 3, 0, x.beta))
    ct = {"o": x.ct_o, "final_state": x.ct_S}
    corrected = gradients(lambda y: by_channels(ratios(1), y, delta_gains(y), C), x.without("ct_o", "ct_S"), ct)
    return algorithm_8(x).beta, corrected.beta, derived(deltanet, x, "beta", **DELTA_RULE)["beta"]


# ---- algorithm 11: FALCON-2 lite's


def lite(x):
    u = cumsum(log(x.gamma))
    before = exp(-shift(u))
    c, S = wy(x.but(eta=x.hat, v=column(before) * x.v))
    return x.but(delta=exp(u), before=before, wy=c, S_hat=S), exp(u[-1]) * S


def lite_back(line):
    """Gradients of S, v, eta, log gamma and x; those of eta and x without what follows from gamma."""

    def step(x):
        x, S_next = lite(x)
        d_o, dS = column(x.delta) * x.d_o, x.delta[-1] * line("E10", x.dS, S_next)
        du = inner_rows(d_o, x.wy.o) + last() * inner(line("E10", dS, x.S_hat), x.S_hat)
        dS, _, dx, dv_hat, d_hat = wy_back(trial(None))(x.wy.but(d_o=d_o, dS=dS))
        dv = line("E11", 0, dv_hat) + column(x.before) * line("E12", dv_hat, x.wy.v)
        du = du - shift(x.before * inner_rows(line("E13", dv_hat, x.wy.v), x.v), -1)
        hat = line("E14", d_hat, x.hat) / x.gamma
        return dS, dv, line("E11", 0, d_hat) + hat, cumsum(du, reverse=True) - x.eta * hat, dx

    return step


def algorithm_11(x, wrong=None, first=0, dummy=0):
    """`first` and `dummy` are the write feature and the renormalized gain of a sequence start."""
    g, line, start = gains(falcon2_lite, x, x.e, floor=FLOOR), trial(wrong), iota("T") == 0
    hat = where(start, const(dummy), g.eta / g.gamma)
    y = Inputs(q=x.q, x=where(start[:, None], first, shift(x.k)), v=x.v, eta=g.eta, gamma=g.gamma, hat=hat, d_o=x.ct_o)
    S, starts = forward(lite, y, x.initial_state)
    dS = line("G3", x.ct_S, 0 * x.ct_S)
    dS, dv, d_eta, d_log, dx = backward(lite_back(line), y, starts, dS, 0 * x.v, zeros("T"), zeros("T"), 0 * x.q)
    d_alpha = from_second(where(const(FLOOR) < g.gamma, -line("E15", d_log, log(g.gamma)) / g.gamma, 0))
    d_eta = from_second(d_eta) + g.ridge * d_alpha
    dD = -g.eta * d_eta / g.D
    return Inputs(
        v=dv, beta=from_second(d_eta / g.D), lam=g.eta * d_alpha + dD, initial_state=line("E16", dS, x.initial_state),
        x=dx + column(2 * dD) * y.x, final_state=S,
    )  # fmt: skip


def dummy_gain_in_dx(x):
    """Algorithm 11 behind algorithm 10 with eta^_1 = 1e-6 and x_1 = 0."""
    return algorithm_11(x, dummy="1/1000000").x, algorithm_11(x).x, shift(derived(falcon2_lite, x, "k", decay_floor=FLOOR)["k"])


def dummy_gain_writes(x):
    """Algorithm 10 with eps_eta = 0.1 where phi(0) is not 0."""
    state = lambda dummy: algorithm_11(x, first=1, dummy=dummy).final_state
    return state("1/10"), state(0), answer(falcon2_lite, x, decay_floor=FLOOR)["final_state"]


# ---- what the algorithms cannot do, and conditions


def segment_starts_again(x):
    """Algorithm 1 on 4 + 5 rows of one sequence."""
    head = renamed(falcon1, {"T": 4}, cut(x, 0, 4).but(eps=x.e))
    tail = followed(x, 5).but(eps=x.e, initial_state=head["final_state"])
    state = lambda starts: renamed(falcon1, {"T": 5}, tail.but(sequence_start=starts))["final_state"]
    return state(True), state(False), answer(falcon1, x)["final_state"]


def clamp_of_algorithm_4(x):
    """Algorithm 4 against algorithm 3 where eta lambda > 1."""
    x = overshooting(x).but(beta=zeros("T") + const("15/8"))
    state = lambda chunk, floor=None: by_channels(chunk, x, gains(falcon3, x, x.e, floor=floor), C).final_state
    return state(flow, "1/16"), state(ratios(B)), answer(falcon3, x)["final_state"]


def no_initial_state(x):
    """(4.24): O = (Q X^T o M) V."""
    g = gains(falcon3a, x, x.e)
    printed = (x.q @ shift(x.k).T * mask(g, B)) @ x.v
    return printed, printed + column(exp(cumsum(log(g.gamma)))) * (x.q @ x.initial_state), answer(falcon3a, x)["o"]


def stationary_mask_at_the_start(x):
    """4.6 where B_s < B at the start: one key, one value channel per token, so that o is the mask."""
    u, j = iota("T")[:, None] - iota("V"), iota("V")
    power = lambda n: where(0 <= n, (1 - x.a) ** maximum(n, integer(0)), 0)
    weights = lambda count: where(0 < j, sum((x.rho / count(b) * power(u - b) for b in range(1, B)), x.rho / count(0) * power(u)), 0)
    M = impulses(x.but(beta=zeros("T") + x.rho, alpha=zeros("T") + x.a))
    return weights(lambda b: const(B)), weights(lambda b: minimum(j + b, integer(B))), M


def ridge_of_every_step(x):
    """The minimizer of the sum of (3.1) has T ridges."""
    X = shift(x.k)
    minimizer = lambda ridge: solve(X.T @ X + ridge * eye("K", "K"), X.T @ x.v)
    return minimizer(7 * x.lam), minimizer(x.lam), run(rls, x)["final_state"]


def scale_of_the_decay(x):
    """eta ridge at 3 x, read off as the decay of a state that the write does not touch."""
    number = lambda a: one_hot(0, "T") @ a
    k = number(x.k)
    x = x.but(e=const("1/1000"))
    decay = lambda c: number(x.beta) * number(x.lam) / (1 + number(x.lam) + x.e / (c * c * inner(k, k)))
    i, j = iota("K")[:, None], iota("K")
    S = (where(i < j, const(1), 0) - where(j < i, const(1), 0)) @ k
    y = x.but(k=3 * x.k, v=zeros("T", 1), initial_state=column(S))
    out = answer(falcon1, y, alignment="same_step", ridge_coupling="live")["final_state"][:, 0]
    return decay(1), decay(3), 1 - inner(out, S) / inner(S, S)


# ---- the list

FLOOR = "7/8"  # some rows at it, some above
DELTA_RULE = {"alignment": "next_latent", "scale": 1}


def of_algorithm(algorithm, m, taken, **settings):
    """Rows of an algorithm's lines."""

    def line(name, place, printed, corrected, quantity, *of):
        def sides(x):
            found = lambda *wrong: only(algorithm(x, *wrong), *of)
            return found(name), found(), derived(m, x, *of, **settings)

        erratum(name, place, printed, corrected, quantity, taken, sides)

    return line


def errata():
    line = of_algorithm(algorithm_6, falcon3a, {**without_tail(falcon3a), **CT})
    line("E1", "Alg 6 line 7", "dH = Diag(d delta) dO_hist", "Diag(delta) dO_hist", "dq", "q")
    line("E2", "Alg 6 line 8", "d delta += rowdot(O_hist, H)", "rowdot(dO_hist, H)", "dalpha", "alpha")
    line("E3", "Alg 6 line 13", "dV_ext += dW^T dO", "W^T dO", "dv", "v")
    line("E4", "Alg 6 line 62", "dalpha = -exp(-lg) lg", "-exp(-lg) d(lg)", "dalpha", "alpha")
    line("E5", "Alg 6 line 63", "dalpha_t += dalpha_t, twice the value", "accumulate the local value once", "dalpha", "alpha")
    line("G2", "Alg 6 line 20", "dS_in(M+1) = 0", "the cotangent of the final state", "dS_init", "initial_state")

    delta_rule = {**inputs_of(deltanet), **CT}
    line = of_algorithm(algorithm_8, deltanet, delta_rule, **DELTA_RULE)
    line("E6", "Alg 8 line 5", "dL = +tril(dB X^T, -1)", "-tril(dB X^T, -1), as lines 39 and 46", "dx", "k")
    line(
        "E7", "Alg 8 lines 11-16, 23", "forward M, Lambda, E carry bars; line 16 then takes the cotangent of M",
        "dE = M^T dO with the forward M", "dv", "v",
    )  # fmt: skip
    line("E8", "Alg 8 line 63", "mask [d sigma > 0]", "[sigma > 0]", "deta", "beta")
    erratum("E9", "Alg 8 line 64", "eta_t = 0 gets deta = 0", "e_t.r_t unless x_t = 0", "deta", delta_rule, zero_gain)

    clamped = {**given(falcon2_lite), **CT}
    line = of_algorithm(algorithm_11, falcon2_lite, clamped, decay_floor=FLOOR)
    line(
        "E10", "Alg 11 lines 12-13", "forward S^_out and S_in where cotangents belong",
        "dS^_out = delta_C dS_in(k+1), du_C += <dS^_out, S^_out>", "dS_init", "initial_state",
    )  # fmt: skip
    line(
        "E11", "Alg 11 lines 14, 19, 25", "the WY backward is stored in dV and deta, then added again",
        "it returns dV^ and deta^, which lines 19 and 25 map once", "dv, dbeta", "v", "beta",
    )  # fmt: skip
    line("E12", "Alg 11 line 19", "s V^", "s dV^", "dv", "v")
    line("E13", "Alg 11 line 20", "<s V^, V>", "<s dV^, V>", "dlambda", "lam")
    line("E14", "Alg 11 lines 25-26", "eta^", "deta^", "dbeta", "beta")
    line("E15", "Alg 11 line 38", "-exp(-lg) lg", "-exp(-lg) d(lg)", "dlambda", "lam")
    line("E16", "Alg 11 line 53", "dS_init = S_in(1)", "dS_in(1)", "dS_init", "initial_state")
    erratum(
        "E17", "Alg 11 and Alg 10 line 4", "dummy eta^_1 = eps_eta leaks into dx_1", "zero dx_1, or eta^_1 = 0",
        "dx at eps_eta = 1e-6", clamped, dummy_gain_in_dx,
    )  # fmt: skip
    line("G3", "Alg 11 line 1", "dS_in(M+1) = 0", "the cotangent of the final state", "dS_init", "initial_state")

    erratum(
        "G1", "Alg 1, 3, 4, 5, 10", "no-op at every local t = 1", "only at a sequence start", "S_T of a 4 + 5 split", given(falcon1),
        segment_starts_again, shape=(9, 3, 2),
    )  # fmt: skip
    erratum(
        "G4", "Alg 10 line 4", "eta^_1 = eps_eta has no effect", "only if x_1 = 0", "S_T at eps_eta = 0.1", clamped, dummy_gain_writes
    )  # fmt: skip
    erratum(
        "G5", "Alg 3 and Alg 4", "said to realize the same recurrence", "Alg 4 is the clamped Alg 3; raw needs ratios",
        "S_T at eta lambda > 1", without_tail(falcon3), clamp_of_algorithm_4,
    )  # fmt: skip
    associative = without_tail(falcon3a)
    erratum("C1", "(4.22)-(4.24)", "no term of S_0", "add prod gamma S_0^T q_t", "o", associative, no_initial_state)
    constant = {**without(associative, "alpha", "beta"), "rho": " : gain", "a": " : decay_fraction"}
    erratum(
        "C2", "4.6, stationary mask", "for all j", "for j >= B + 1", "M", constant, stationary_mask_at_the_start, shape=(7, 7, 7)
    )  # fmt: skip
    erratum(
        "C3", "App. A", "cumulative ridge objective, read as the sum of (3.1)", "lambda once, not T times", "S_T",
        {**without(inputs_of(rls), "initial_state"), "lam": " : ridge"}, ridge_of_every_step,
    )  # fmt: skip
    erratum(
        "E18", "4.1", "the invariance becomes exact for eps << |x|^2",
        "it stays approximate: eta ridge is off by (eps / |x|^2) (1 - 1/c^2) / (1 + lambda_bar), relatively", "eta ridge at c = 3",
        inputs_of(falcon1), scale_of_the_decay, shape=(1, 2, 1),
    )  # fmt: skip


errata()
