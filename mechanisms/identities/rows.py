"""Identities and limits as pairs of programs: both sides of a statement, on the same inputs.

A row of order 0 says that two programs are one function. A row of order n says that their difference is a coefficient times eps^n and
higher powers; `rate`, where there is one, is the program of that coefficient.
"""
import dataclasses
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python")]
os.environ.setdefault("ASSAY", str(HERE.parents[1] / "build/assay"))  # for gradients

from assay.language import Program, canonical, const, declare, gradient, iota, outer, read, scan, where  # noqa: E402
from assay.language.program import Block, Input  # noqa: E402
from assay.language.scope import Scope, emit, lift, number_type  # noqa: E402


class Inputs(dict):
    """The inputs of a row by name, x.q as well as x["q"]."""

    __getattr__ = dict.__getitem__

    def but(self, **other):
        """These with others in their places, or beside them."""
        return Inputs({**self, **other})

    def without(self, *names):
        """These without some."""
        return Inputs({name: x for name, x in self.items() if name not in names})


@dataclasses.dataclass(frozen=True)
class Reference:
    """A side that no program can be: a room's reference, with options that its program lacks, on inputs that a program makes."""

    mechanism: str
    inputs: object  # values by the room's names
    output: str
    params: dict


@dataclasses.dataclass(frozen=True)
class Row:
    """`pairs`: the function of the inputs that gives the sides that are equal, [(left, right), ...], each its outputs by name.

    A side is a Reference where its outputs need one. A row without pairs is an erratum that has no numbers.

    Not `proven`: the outputs are compared in 200 digits, of one pair. So it is where enclosures decide nothing, for equal numbers are
    compared, and where a row is about gradients whose own gradients do not exist.
    """

    name: str
    mechanism: str
    statement: str
    source: str
    inputs: dict
    pairs: object
    order: int = 0
    rate: object = None
    shape: tuple = (7, 4, 3)
    proven: bool = True
    words: dict = dataclasses.field(default_factory=dict)  # of an erratum

    def traced(self, function, made):
        """The result of `made` for the outputs of `function` on the inputs, and for the maker of a program of outputs by name."""
        declared = [declare.parse(name, text, {}) for name, text in self.inputs.items()]
        inputs = [declare.as_input(d, declared[:i]) for i, d in enumerate(declared)]
        with Scope([d.type for d in declared]) as scope:
            found = function(Inputs((d.name, scope.value(i)) for i, d in enumerate(declared)))

            def program(out):
                results = [number_type(lift(x)).id for x in out.values()]
                block = Block(scope.block.params, scope.block.nodes, results, scope.block.base)
                return canonical(Program(self.name, inputs, block, list(out)))

            return made(found, program)

    def programs(self):
        """Those of the pairs, and that of the rate or None."""

        def side(a, program):
            return dataclasses.replace(a, inputs=program(a.inputs)) if isinstance(a, Reference) else program(a)

        pairs = self.traced(self.pairs, lambda found, program: [tuple(side(a, program) for a in pair) for pair in found])
        return pairs, self.rate and self.traced(self.rate, lambda found, program: program(found))


rows = []


def row(name, mechanism, statement, source, inputs, pairs, **more):
    """One more row of the list. `pairs` may give one pair, (left, right), in place of a list."""
    listed = lambda x: found if isinstance(found := pairs(x), list) else [found]
    rows.append(Row(name, mechanism, statement, source, inputs, listed, **more))


def erratum(name, place, printed, corrected, quantity, inputs=None, sides=None, shape=(7, 3, 2), proven=True):
    """One more erratum: `sides` gives the quantity as printed, as corrected, and as the mechanism has it.

    As printed it misses the mechanism, in 200 digits; as corrected it is the mechanism. Without sides it has no numbers: a missing
    formula, a failing import.
    """

    def pairs(x):
        as_printed, as_corrected, right = (side if isinstance(side, (dict, Reference)) else {"value": side} for side in sides(x))
        return [(as_printed, right), (as_corrected, right)]

    words = {"place": place, "printed": printed, "corrected": corrected, "quantity": quantity}
    rows.append(Row(name, None, None, None, inputs, sides and pairs, shape=shape, proven=proven, words=words))


def inputs_of(mechanism, *dropped, **other):
    """The inputs of a mechanism, as declarations without defaults: no parameters, and nothing that is dropped."""
    taken = {}
    for name, text in mechanism.declared.items():
        d = declare.parse(name, text, mechanism.settings)
        if not d.is_parameter and name not in (*dropped, "k_carry"):
            taken[name] = f"{' '.join(map(str, d.type.shape))} : {d.domain}"
    return {**taken, **other}


def run(mechanism, x, **other):
    """The mechanism's outputs on those of the inputs that it takes, with others in their places."""
    taken = {name: value for name, value in x.items() if name in mechanism.declared}
    return mechanism(**{**taken, **other})


def renamed(mechanism, axes, given, **settings):
    """The mechanism's outputs where it calls its axes otherwise: of other tokens, say, than those of its inputs."""
    other = lambda t: " ".join(str(axes.get(a, a)) for a in t.split(" "))

    def block(data):
        nodes = [[op, args, *({k: block(a) if k == "body" else axes.get(a, a) if k in ("axis", "size") else a for k, a in more.items()}
                              for more in rest)] for op, args, *rest in data["nodes"]]  # fmt: skip
        return {**data, "params": [other(t) for t in data["params"]], "nodes": nodes}

    data = mechanism.trace(**settings).to_json()
    inputs = [{**i, "type": other(i["type"]), "default": i["default"] and block(i["default"])} for i in data["inputs"]]
    given = {declare.PUBLIC.get(name, name): x for name, x in given.items()}
    return inlined(read(json.dumps({**data, "inputs": inputs, "body": block(data["body"])})), given)


def inlined(program, given):
    """The program's outputs as values; what is not given has its default."""
    values = []
    for i in program.inputs:
        values.append(spliced(i.default, values)[0] if i.name not in given else lift(given[i.name]))
    return dict(zip(program.outputs, spliced(program.body, values)))


def spliced(block, args):
    """The values of a block's results."""
    values = list(args)
    for n in block.nodes:
        values.append(emit(n.op, *[values[v] for v in n.args], **n.attrs))
    return [values[r] for r in block.results]


def only(outputs, *names):
    """Some of the outputs."""
    return {name: outputs[name] for name in names}


def gradients(function, x, cotangents):
    """The gradients of `function`, of inputs by name to outputs by name, as values by the inputs' names.

    `cotangents`: the loss's derivatives by the outputs; outputs that have none count nothing.
    """
    x = {name: lift(v) for name, v in x.items()}
    with Scope([v.type for v in x.values()]) as scope:
        out = function(Inputs((name, scope.value(i)) for i, name in enumerate(x)))
        out = {name: v for name, v in out.items() if name in cotangents}
        scope.block.results = [lift(v).id for v in out.values()]
    captured = {f"outer_{i}": s.value(v) for i, (s, v) in enumerate(scope.captured)}
    inputs = [Input(name, v.type) for name, v in x.items()] + [Input(name, v.type, gradient=False) for name, v in captured.items()]
    back = gradient(canonical(Program("inner", inputs, scope.block, list(out))))
    given = {**x, **captured, **{"d_" + name: cotangents[name] for name in out}}
    found = inlined(back, given)
    return Inputs((name, found["d_" + name]) for name in x)


def along(function, x, direction):
    """The derivatives of the outputs along a direction, which has some of the inputs.

    The sum of gradients times direction is linear in the cotangents, and its gradient by these is what is wanted.
    """

    def weighed(cotangents):
        back = gradients(function, x, cotangents)
        return {"sum": sum((inner(back[name], d) for name, d in direction.items()), lift(0))}

    return gradients(weighed, Inputs((name, filled(0, v.shape)) for name, v in function(x).items()), {"sum": lift(1)})


# ---- arrays


def filled(number, axes):
    """The number along all axes."""
    x = lift(number)
    for i, axis in enumerate(axes):
        x = emit("expand", x, at=i, size=axis)
    return x


def one_hot(i, axis):
    """1 at i, else 0."""
    return where(iota(axis) == i, lift(1), lift(0))


def eye(rows, columns):
    """1 where the numbers of row and column agree."""
    return where(iota(rows)[:, None] == iota(columns), lift(1), lift(0))


def piece(first, count, axis="T"):
    """The matrix that takes rows first .. first + count - 1."""
    return where(iota(count)[:, None] + first == iota(axis), lift(1), lift(0))


def reflection(rows, columns):
    """I - 2 u u^T / |u|^2 with u = (1, 2, ...): orthogonal, and no entry is zero."""
    u = number_type(iota(columns)) + 1
    return eye(rows, columns) - 2 / (u * u).sum() * outer(number_type(iota(rows)) + 1, u)


def inner_rows(a, b):
    """<a_t, b_t> for every row."""
    return (a * b).sum(-1)


def inner(a, b):
    """The sum of all products."""
    c = a * b
    while c.ndim:
        c = c.sum(-1)
    return c


def running(a):
    """The products of the rows up to each, element by element."""
    return scan(lambda c, g: (c * g, c * g), filled(1, a.shape[1:]), a)[1]


def products(a):
    """[t, l]: the product of rows l + 1 .. t, element by element; 1 for l = t, 0 above."""
    axis = a.shape[0]

    def step(last, g, t):
        here = one_hot(t, axis)
        last = g * last + (here if a.ndim == 1 else here[:, None])
        return last, last

    return scan(step, filled(0, a.shape), a, iota(axis))[1]


def chunk_of(x, n, C):
    """Chunk n of C rows, and the matrix that takes it. Rows that are not there have gates of one and are zero otherwise."""
    P = where(iota(C)[:, None] + n * C == iota("T"), const(1), const(0))
    rows = Inputs((name, P @ v if v.shape[0] == "T" else v) for name, v in x.items())
    for name in ("alpha", "mu", "gamma", "D"):
        if name in rows:
            more = 1 - P.sum(-1)
            rows[name] += more if rows[name].ndim == 1 else more[:, None]
    return rows, P


def substituted(L, b):
    """The X with (1 + L) X = b for L below the diagonal, row by row."""
    axis = b.shape[0]
    step = lambda X, l, row, i: (where((iota(axis) == i)[:, None], row - l @ X, X), None)
    return scan(step, filled(0, b.shape), L, b, iota(axis))[0]


# ---- files


def text(listed):
    """The JSON of rows. Programs, lists of inputs, and bodies of scans are there once, and are numbers elsewhere."""
    programs, inputs, bodies = {}, {}, {}

    def interned(block):
        for n in block["nodes"]:
            if len(n) > 2 and "body" in n[2]:
                body = compact(interned(n[2]["body"]))
                n[2]["body"] = bodies.setdefault(body, len(bodies))
        return block

    def number(p):
        if p is None:
            return None
        if isinstance(p, Reference):
            return {**dataclasses.asdict(dataclasses.replace(p, inputs=None)), "inputs": number(p.inputs)}
        data = p.to_json()
        side = compact({"body": interned(data["body"]), "outputs": data["outputs"], "version": data["version"]})
        return programs.setdefault(side, len(programs))

    def line(r):
        if r.pairs is None:
            return compact({"name": r.name, **r.words})
        pairs, rate = r.programs()
        first = next(side for side in pairs[0] if not isinstance(side, Reference))
        taken = compact([[i.name, str(i.type), i.domain, *([i.default.to_json()] if i.default else [])] for i in first.inputs])
        return compact({
            "name": r.name, "mechanism": r.mechanism, "statement": r.statement, "source": r.source, "order": r.order, "shape": r.shape,
            "proven": r.proven and r.order == 0,
            **r.words, "inputs": inputs.setdefault(taken, len(inputs)), "pairs": [[number(a), number(b)] for a, b in pairs], "rate": number(rate),
        })  # fmt: skip

    lists = {"rows": [line(r) for r in listed], "inputs": inputs, "programs": programs, "bodies": bodies}
    parts = [f'"{name}":[\n' + ",\n".join(lines) + "\n]" for name, lines in lists.items()]
    return '{"format":"assay-identities","version":1,\n' + ",\n".join(parts) + "}\n"


def compact(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
