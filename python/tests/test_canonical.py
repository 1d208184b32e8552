"""Canonical form and digest: equal for two spellings of one computation, different for another computation."""
import dataclasses
import random
import unittest

import support
from assay.language import Block, canonical, digest, dot, exp, iota, mechanism, outer, scan, where, write
from assay.language.core import program_of
from assay.language.program import Node

DELTA = dict(q="T K", k="T K", v="T V", beta="T", log_decay="T", initial_state="K V = 0", scale='param = 1 / sqrt(size("K"))')


@mechanism(**DELTA)
def plain(q, k, v, beta, log_decay, initial_state, scale):
    def step(S, q, k, v, b, g):
        R = exp(g) * S
        S = R + outer(k, b * (v - k @ R))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}


@mechanism(**DELTA)
def spelled_otherwise(q, k, v, beta, log_decay, initial_state, scale):
    """Other names, another order of outputs and of what is named; what is not used; broadcasts written out; signs that undo each other."""

    def token(state, query, key, value, strength, gate):
        unused = outer(query, value) + state
        old = exp(gate)[None, None] * state
        new = old + outer(key, strength[None] * (value - key @ (exp(--gate) * state)))
        read_out = query @ new
        assert unused is not read_out
        return -(-new), scale * read_out

    final, out = scan(token, initial_state, q, k, v, beta, log_decay)
    return {"final_state": final, "o": out[:, None, :][:, 0]}


def changed(step):
    @mechanism(**DELTA)
    def other(q, k, v, beta, log_decay, initial_state, scale):
        S, o = scan(lambda *x: step(scale, *x), initial_state, q, k, v, beta, log_decay)
        return {"o": o, "final_state": S}

    return other.trace()


def other_steps():
    def associated(scale, S, q, k, v, b, g):
        R = exp(g) * S
        S = R + outer(b * k, v - k @ R)
        return S, scale * (q @ S)

    def exchanged(scale, S, q, k, v, b, g):
        R = exp(g) * S
        S = outer(k, b * (v - k @ R)) + R
        return S, scale * (q @ S)

    def undecayed(scale, S, q, k, v, b, g):
        S = exp(g) * S + outer(k, b * (v - k @ S))
        return S, scale * (q @ S)

    return associated, exchanged, undecayed


class Digests(unittest.TestCase):
    def test_two_spellings_are_one(self):
        self.assertEqual(digest(spelled_otherwise.trace()), digest(plain.trace()))
        self.assertNotEqual(write(spelled_otherwise.trace()), write(plain.trace()))  # the name is in the text

    def test_other_computations_are_others(self):
        digests = [digest(plain.trace())] + [digest(changed(step)) for step in other_steps()]
        self.assertEqual(len(set(digests)), 4)

    def test_names_settings_and_hints_do_not_count(self):
        p = plain.trace()
        hinted = [dataclasses.replace(i, hint={"low": "-2"}) for i in p.inputs]
        self.assertEqual(digest(dataclasses.replace(p, name="x", settings={"a": 1}, inputs=hinted)), digest(p))
        self.assertIn('"hint":{"low":"-2"}', write(dataclasses.replace(p, inputs=hinted)))
        renamed = [dataclasses.replace(i, name=i.name + "_") for i in p.inputs]
        self.assertNotEqual(digest(dataclasses.replace(p, inputs=renamed)), digest(p))

    def test_gates_with_an_axis_inside_or_outside(self):
        inside = mechanism(x="K", y="K V")(lambda x, y: {"o": exp(x[:, None]) * y}).trace
        outside = mechanism(x="K", y="K V")(lambda x, y: {"o": exp(x)[:, None] * y}).trace
        for f in (inside, outside):
            f.__self__.name = "f"
        self.assertEqual(digest(inside()), digest(outside()))


def shuffled(block, rng, order=None, unread=()):
    """The block with dead nodes, twins of nodes and double negations put in, and its nodes in another order that is possible. Its
    parameters are those of `order`, and behind them `unread` ones, of these types."""
    order = range(len(block.params)) if order is None else order
    params, nodes, at = [*(block.params[v] for v in order), *unread], [], {v: i for i, v in enumerate(order)}

    def put(n):
        nodes.append(n)
        return len(params) + len(nodes) - 1

    waiting = list(enumerate(block.nodes, len(block.params)))
    while waiting:
        v, n = rng.choice([(v, n) for v, n in waiting if all(a in at for a in n.args)])
        waiting.remove((v, n))
        attrs, args = dict(n.attrs), [at[a] for a in n.args]
        if n.op == "scan":
            first, more = attrs["carry"] + attrs["xs"], rng.randrange(len(params))
            outers = [*range(first), *rng.sample(range(first, len(args)), len(args) - first)]
            attrs["body"], args = shuffled(attrs["body"], rng, outers, [params[more]]), [*(args[i] for i in outers), more]
        at[v] = put(Node(n.op, tuple(args), attrs, n.type))
        if rng.random() < 0.3:
            at[v] = put(Node(n.op, tuple(args), attrs, n.type))
        if n.op not in ("scan", "get", "neg") and getattr(n.type, "kind", "") == "real" and rng.random() < 0.3:
            at[v] = put(Node("neg", (put(Node("neg", (at[v],), {}, n.type)),), {}, n.type))
        if n.op not in ("scan", "get") and n.type.kind == "real" and len(n.type.shape) < 8 and rng.random() < 0.2:
            wide = put(Node("expand", (at[v],), {"at": 0, "size": 1}, None))
            at[v] = put(Node("index", (wide,), {"axis": 0, "i": 0}, n.type))
    return Block(params, nodes, [at[r] for r in block.results])


class Shuffled(unittest.TestCase):
    def test_any_order_is_one_program(self):
        """Of nodes, of outputs, and of the outer values of a scan, one of which its step does not read."""
        rng = random.Random(5)
        for name, settings in support.variants():
            with self.subTest(name, **dict(settings)):
                p = support.program(name, settings)
                for _ in range(3):
                    body = shuffled(p.body, rng)
                    order = rng.sample(range(len(p.outputs)), len(p.outputs))
                    body.results = [body.results[i] for i in order]
                    other = dataclasses.replace(p, body=body, outputs=[p.outputs[i] for i in order])
                    self.assertEqual(digest(program_of(other.to_json())), digest(p))
                self.assertEqual(write(canonical(canonical(p))), write(p))


class Examples(unittest.TestCase):
    def test_a_program_and_its_text(self):
        """The file, whole: a small program as it is written."""

        @mechanism(x="T K", w="K : weight low=-1 high=1", n="int = 2", on="bool = true", half="param = 1/2")
        def scored(x, w, n, on, half, kind="dot"):
            return {"y": where(on & (iota("T") < n), half * (x @ w), 0)}

        found = write(scored.trace())
        with open(support.ROOT / "docs" / "mechanism-language.md") as f:
            self.assertIn(found, f.read())

    def test_an_input_may_be_an_output(self):
        p = mechanism(x="T")(lambda x: {"b": x, "a": dot(x, x), "c": x}).trace
        p.__self__.name = "f"
        self.assertEqual(p().outputs, ["a", "b", "c"])
        self.assertEqual(p().body.results, [1, 0, 0])
