"""FALCON's symmetries: falcon-family.md 5."""
from assay.language import const
from falcon1 import falcon1
from falcon2 import falcon2
from falcon2_lite import falcon2_lite
from falcon2a import falcon2a
from falcon3 import falcon3
from falcon3a import falcon3a
from rls import rls
from rows import Inputs, along, eye, gradients, inner, inner_rows, inputs_of, only, reflection, row, run

STATE = ("o", "final_state")
ALL = (falcon1, falcon2, falcon2a, falcon3, falcon3a)
NORMALIZED = (falcon1, falcon2, falcon2a, falcon3)


def identity(name, m, statement, inputs, pairs, **more):
    row(name, m.name, statement, "falcon-family.md 5", inputs, pairs, **more)


def given(m, **other):
    """A mechanism's inputs; those with a window have a tail of pairs."""
    taken = inputs_of(m, "initial_normalizer", **other)
    return {**taken, "lam": " : ridge"} if m is rls else taken


def answer(m, x, **settings):
    """o and S_T; a window is of three pairs."""
    window = {"window": 3} if "window" in m.declared else {}
    floor = {"decay_floor": const("3/4")} if m is falcon2_lite else {}
    return only(run(m, x, **window, **floor, **settings), *STATE)


def scale_free(m, coupling="live"):
    """A ridge in proportion to the energy."""
    return {} if m is falcon3a else {"ridge_coupling": coupling}


def times(x, factors):
    return x.but(**{name: f * x[name] for name, f in factors.items() if name in x})


def rescaled(m, x, **settings):
    """o and c S_T for (c x, c q, S_0 / c)."""
    out = answer(m, times(x, {"k": x.c, "q": x.c, "tail_k": x.c, "initial_state": 1 / x.c}), **settings)
    return {"o": out["o"], "final_state": x.c * out["final_state"]}


C, EPS = {"c": ": normalizer"}, {"eps": ""}
CT = {"ct_o": "T V : value", "ct_S": "K V : value"}


def scale_defect(m):
    """At c x an eps is worth eps / c^2."""
    free = scale_free(m)

    def rate(x):
        names = [name for name in x if name not in ("c", "eps")]
        of_eps = lambda y: answer(m, y, **free)
        found = along(of_eps, Inputs((name, x[name]) for name in names).but(eps=const(0)), {"eps": const(1)})
        return {name: (1 / (x.c * x.c) - 1) * a for name, a in found.items()}

    identity(
        "scale_defect", m, "(x, q, S_0) -> (c x, c q, S_0 / c), eps -> 0: o stays", {**given(m), **C, **EPS},
        lambda x: (rescaled(m, x, **free), answer(m, x, **free)), order=1, rate=rate,
    )  # fmt: skip


def with_gradients(m, of, **settings):
    """The pairs that `of` makes of the inputs, the outputs, the gradients and the cotangents of outputs."""

    def pairs(x):
        ct, y = {"o": x.ct_o, "final_state": x.ct_S}, x.without("ct_o", "ct_S")
        f = lambda z: answer(m, z, **settings)
        return of(y, Inputs(f(y)), gradients(f, y, ct), Inputs(ct))

    return pairs


def total(a, b, *names):
    """The sum of the products of those that there are."""
    return sum((inner(a[name], b[name]) for name in names if name in a), const(0))


def euler_scale(x, y, d, ct):
    return {"sum": total(x, d, "k", "q", "tail_k") + inner(y.final_state, ct.final_state)}, {"sum": total(x, d, "initial_state")}


def euler_scale_detached(x, y, d, ct):
    left, right = euler_scale(x, y, d, ct)
    return {"sum": left["sum"] - right["sum"]}, {"sum": -2 * inner(x.lam, d.lam)}


def euler_linearity(x, y, d, ct):
    return {"sum": total(x, d, "v", "tail_v", "initial_state")}, {"sum": total(y, ct, *STATE)}


def euler_query(x, y, d, ct):
    return {"rows": inner_rows(x.q, d.q)}, {"rows": inner_rows(y.o, ct.o)}


def rotation(m):
    def pairs(x):
        R, out = reflection("K", "K"), answer(m, x)
        turned = x.but(**{name: x[name] @ R for name in ("q", "k", "tail_k") if name in x}, initial_state=R @ x.initial_state)
        return answer(m, turned), {"o": out["o"], "final_state": R @ out["final_state"]}

    return pairs


def value_mixing(m):
    def pairs(x):
        W = reflection("V", "V") + 2 * eye("V", "V")
        mixed = {name: x[name] @ W for name in ("v", "tail_v", "initial_state") if name in x}
        return answer(m, x.but(**mixed)), {name: a @ W for name, a in answer(m, x).items()}

    return pairs


def symmetries():
    for m in ALL:
        identity(
            "scale_invariance", m, "(x, q, S_0) -> (c x, c q, S_0 / c), eps = 0, no raw ridge: o stays", {**given(m), **C},
            lambda x, m=m: (rescaled(m, x, **scale_free(m)), answer(m, x, **scale_free(m))),
        )  # fmt: skip
    for m in ALL:
        scale_defect(m)
    for m in ALL:
        larger = lambda x: times(x, {"lam": x.c * x.c}).but(eps=x.c * x.c * x.eps)
        identity(
            "scale_with_ridge", m, "the same with lambda -> c^2 lambda, eps -> c^2 eps", {**given(m), **C, "eps": ": normalizer"},
            lambda x, m=m, larger=larger: (rescaled(m, larger(x)), answer(m, x)),
        )  # fmt: skip
    for m in ALL:
        says = "<x, dx> + <q, dq> - <S_0, dS_0> + <S_T, dS_T> = 0, eps = 0, live energies"
        identity("euler_scale", m, says, {**given(m), **CT}, with_gradients(m, euler_scale, **scale_free(m)))
    for m in NORMALIZED:  # what is detached has gradients that are not the derivatives of anything
        identity(
            "euler_scale_detached", m, "the same sum is -2 <lambda, dlambda>, detached", {**given(m), **CT},
            with_gradients(m, euler_scale_detached, ridge_coupling="detach"), proven=False,
        )  # fmt: skip
    for m in (falcon1, falcon2, falcon2_lite, falcon2a, falcon3, falcon3a, rls):
        inputs = {**given(m), **CT}
        identity("euler_linearity", m, "<v, dv> + <S_0, dS_0> = <o, do> + <S_T, dS_T>", inputs, with_gradients(m, euler_linearity))
        identity("euler_query", m, "<q_t, dq_t> = <o_t, do_t> at every t", inputs, with_gradients(m, euler_query))
        identity("rotation", m, "(x, q, S_0) -> (R x, R q, R S_0), R orthogonal: o stays", given(m), rotation(m))
        if m is not falcon2:
            identity("value_mixing", m, "(v, S_0) -> (v W, S_0 W): o -> o W", given(m), value_mixing(m))


symmetries()
