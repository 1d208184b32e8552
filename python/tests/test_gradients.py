"""The core's gradients against dual numbers: every program's along a random direction of every input, in decimals. ASSAY names the program."""
import decimal
import fractions
import random
import unittest

import numpy as np
import support
from assay.language import const, detach, exp, iota, log, maximum, mechanism, minimum, outer, scan, shift, sqrt, where
from assay.language import cumsum, gradient, logsumexp, sigmoid, softmax, softplus, solve, tanh
from assay.language.infer import OPS
from evaluate import evaluate
from fields import PRECISE, Dual, decimals, duals

# Where inputs of a domain are drawn: far from what a domain refuses.
RANGES = {"log_decay": (-1, -0.05), "write_strength": (0.2, 0.9), "gain": (0.3, 1.5), "ridge": (0.1, 1), "bandwidth": (1.5, 2.5), "scale": (0.3, 0.6),
          "decay_fraction": (0.1, 0.5),
          "regularizer": (0.01, 0.1), "temperature": (2, 3), "decay_floor": (0.1, 0.4), "normalizer": (0.5, 1)}  # fmt: skip
PARAMETERS = {"window": 3, "head": 2, "block": 2}


def drawn(program, rng, lengths):
    """Inputs of short binary fractions by name, parameters with a default left out."""
    found = {}
    for i in program.inputs:
        if i.type.kind == "int" and i.name in PARAMETERS:
            found[i.name] = PARAMETERS[i.name]
        if i.type.kind != "real" or not i.gradient and i.default or i.name == "log_decay" and i.default:
            continue
        low, high = RANGES.get(i.domain, (-1, 1))
        shape = [lengths.get(a, a) for a in i.type.shape]
        x = np.empty(shape, dtype=object)
        for at in np.ndindex(*shape):
            x[at] = fractions.Fraction(round(rng.uniform(low, high) * 256), 256)
        found[i.name] = x
    return found


def directions(x, rng):
    """Short binary fractions, as many as x has elements."""
    return decimals().array(np.vectorize(lambda _: fractions.Fraction(rng.randint(-256, 256), 256), otypes=[object])(x) if x.size else x)


def cotangents(program, rng, lengths):
    shapes = {o: [lengths.get(a, a) for a in t.shape] for o, t in program.output_types().items()}
    return {o: directions(np.zeros(shape), rng) for o, shape in shapes.items()}


def total(pairs):
    return sum((a * b for x, y in pairs for a, b in zip(np.asarray(x).flat, np.asarray(y).flat)), decimal.Decimal(0))


def disagreement(program, given, rng, lengths, names):
    """The relative difference between reverse mode and dual numbers along a random direction of these inputs; NaN where one is undefined."""
    field, ct = decimals(), cotangents(program, rng, lengths)
    reverse = evaluate(gradient(program), {**given, **{"d_" + o: x for o, x in ct.items()}}, field, lengths)
    at = {name: field.array(given[name]) for name in names}
    along = {name: directions(x, rng) for name, x in at.items()}
    out = evaluate(program, given | {name: np.frompyfunc(Dual, 2, 1)(x, along[name]) for name, x in at.items()}, duals(), lengths)
    slope = total((ct[o], np.frompyfunc(lambda e: e.d, 1, 1)(np.asarray(out[o], dtype=object))) for o in program.outputs)
    pairs = [(reverse["d_" + name], x) for name, x in along.items()]
    return abs(slope - total(pairs)) / (total((np.abs(a), np.abs(b)) for a, b in pairs) or 1)


class Library(unittest.TestCase):
    def test_every_program_agrees_with_dual_numbers(self):
        with decimal.localcontext(PRECISE):
            for name, settings in support.variants():
                with self.subTest(name, **dict(settings)):
                    rng = random.Random(f"{name} {settings}")
                    p = support.program(name, settings)
                    self.agree(p, drawn(p, rng, support.LENGTHS), rng)

    def agree(self, p, given, rng, lengths=support.LENGTHS):
        """To within the digits that sums of some hundred terms of both signs lose of ninety."""
        names = [i.name for i in p.inputs if i.gradient and i.name in given]
        off = lambda names: disagreement(p, given, rng, lengths, names)
        self.assertTrue(names)
        if not off(names) < decimal.Decimal("1e-70"):
            self.fail(", ".join(f"d_{name}: off by {off([name]):.2e}" for name in names))

    def test_the_library_uses_nearly_all_operations(self):
        used = set().union(*(operations(support.program(*v, True).body) for v in support.variants()))
        self.assertLessEqual(used, set(OPS))
        self.assertGreaterEqual(len(used), 34)

    def test_gradients_of_gradients(self):
        """A gradient program is a program: here is its own gradient."""
        with decimal.localcontext(PRECISE):
            for name in ("gated_deltanet", "softmax_attention"):
                with self.subTest(name):
                    p, rng = support.program(name, (), True), random.Random(name)
                    outputs = [o.replace("d_", "slope_") for o in p.outputs]
                    p = type(p)(p.name, [as_differentiable(i) for i in p.inputs], p.body, outputs, p.settings)
                    self.agree(p, drawn(p, rng, support.LENGTHS), rng)


def as_differentiable(i):
    return type(i)(i.name.replace("d_", "along_"), i.type, i.domain, i.default, i.gradient or i.domain == "cotangent", i.hint)


# One function for each rule that the library may not reach.
@mechanism(x="T K", y="T K", lone="", b="bool = true", n="int = 3")
def every_operation(x, y, lone, b, n):
    t = iota("T")
    both = where(b & (x < y) | ~(x <= lone), maximum(x, y) * abs(y), minimum(x, lone)) + where((t == 1)[:, None], x / (2 + y * y), 0)
    some = tanh(x) + sigmoid(y) + softplus(x - y) + sqrt(1 + x * x) + log(2 + y) + exp(x) + (2 + x) ** n + (2 + y) ** -2 + x ** 0
    seen = t[:, None] <= t
    rows = softmax(x @ y.T, seen) @ x + logsumexp(y @ x.T, seen)[:, None] * detach(y)
    moved = shift(x, 2) - shift(y, -1) + cumsum(x) * cumsum(y, reverse=True)

    def back(S, x, y):
        inner, parts = scan(lambda c, u: (c * u, (c + u, u * u)), lone, x)
        S = S * x.sum() + inner * y + parts[0] @ y
        return S, (S * lone, -S)

    A = x.T @ x + where(iota("K")[:, None] == iota("K"), 1 + lone * lone, 0)
    solved = solve(A + outer(x.sum(0), y.sum(0)), y.T).T + solve(A, x.T, definite=True).T + outer(y.sum(-1), solve(A, x.sum(0), definite=True))

    S, (u, w) = scan(back, y.sum(0), x, y, reverse=True)
    return {"o": both + some + rows + moved + solved, "S": S, "u": u * w, "lone": lone * const("1/3")}


class Rules(unittest.TestCase):
    def test_every_operation(self):
        with decimal.localcontext(PRECISE):
            rng = random.Random(1)
            p = every_operation.trace()
            self.assertGreaterEqual(len(operations(p.body)), 35)
            Library.agree(self, p, drawn(p, rng, support.LENGTHS), rng)

    def test_what_is_not_selected_does_no_harm(self):
        """Backward as well, through quotients, logarithms and contractions."""

        @mechanism(x="T K", y="K")
        def guarded(x, y):
            n = x @ y
            q = where(n == 0, 0, 1 / n)
            m = where((n == 0)[:, None], 0, log(x / n[:, None]))
            return {"o": q, "m": where((n == 0)[:, None], x, m), "c": where(n == 0, 0, (x / n[:, None]) @ y),
                    "l": where(n == 0, 0, y @ (x / n[:, None]).T)}  # fmt: skip

        with decimal.localcontext(PRECISE):
            p = guarded.trace()
            given = {"x": np.array([["0", "0"], ["1", "2"]], dtype=object), "y": np.array(["1", "0.5"], dtype=object)}
            Library.agree(self, p, given, random.Random(2), {"T": 2, "K": 2})

    def test_ties_and_kinks(self):
        """max: to the first where it is strictly larger, else to the second; abs at 0: nothing; detach: nothing."""

        @mechanism(x="", y="")
        def kinks(x, y):
            return {"o": maximum(x, y) + 10 * abs(x) + 100 * detach(x) * y}

        with decimal.localcontext(PRECISE):
            out = evaluate(gradient(kinks.trace()), {"x": "0", "y": "0", "d_o": "1"}, decimals())
        self.assertEqual([int(out["d_x"]), int(out["d_y"])], [0, 1])

    def test_a_closed_gate_has_gradient_zero(self):
        p = support.program("gated_deltanet", (), True)
        given = {"q": [["1", "0"]], "k": [["1", "0"]], "v": [["1"]], "beta": ["1"], "log_decay": ["-Infinity"], "initial_state": [["2"], ["3"]],
                 "d_o": [["1"]], "d_final_state": [["1"], ["1"]]}  # fmt: skip
        with decimal.localcontext(PRECISE):
            out = evaluate(p, given, decimals())
        self.assertEqual(out["d_log_decay"][0], 0)
        self.assertTrue(all(x == 0 for x in out["d_initial_state"].flat))

    def test_no_tokens(self):
        for name in ("gated_deltanet", "kda", "rls"):
            p = support.program(name, (), True)
            lengths = {**support.LENGTHS, "T": 0}
            given = drawn(p, random.Random(3), lengths)
            given |= {i.name: np.zeros([lengths[a] for a in i.type.shape]) for i in p.inputs if i.domain == "cotangent"}
            with decimal.localcontext(PRECISE):
                out = evaluate(p, given, decimals(), lengths)
            self.assertEqual(out["o"].shape, (0, 2))
            np.testing.assert_array_equal(out["final_state"], given["initial_state"])


def operations(block):
    inner = [operations(n.attrs["body"]) for n in block.nodes if n.op == "scan"]
    return {n.op for n in block.nodes}.union(*inner)
