"""A second evaluator of programs, which shares nothing with the core's, over the numbers of fields.py."""
import fractions

import numpy as np

import support  # noqa: F401
from assay.language import MechanismError

INTEGER = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "neg": np.negative}
COMPARE = {"lt": np.less, "le": np.less_equal, "eq": np.equal}
LOGIC = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}


class Interpreter:
    def __init__(self, field, lengths):
        self.f, self.lengths = field, lengths

    def length(self, axis):
        return axis if isinstance(axis, int) else self.lengths[axis]

    def block(self, b, args):
        """The values of a block's results."""
        values = list(args)
        for n in b.nodes:
            values.append(self.node(n, [values[v] for v in n.args], [b.type(v) for v in n.args]))
        return [values[r] for r in b.results]

    def node(self, n, x, types):
        op, f = n.op, self.f
        if op == "scan":
            return self.scan(n, x, types)
        if op == "get":
            return x[0][n.attrs["i"]]
        if op == "solve":
            return self.solution(*x, len(types[0].shape) > len(types[1].shape), **n.attrs)
        if op in LOGIC:
            return LOGIC[op](*x)
        if op in STRUCTURE:
            return STRUCTURE[op](self, x, types[0] if types else None, **n.attrs)
        if types[0].kind == "int" and op in COMPARE:
            return COMPARE[op](*x)
        if n.type.kind == "int" and op in INTEGER:
            return INTEGER[op](*x)
        if op in ("add", "sub", "mul", "div"):
            return self.arithmetic(op, *x, n.attrs.get("absorb", False))
        if op in ("softmax", "logsumexp"):
            return self.rows(op, *x)
        if op == "pow":
            return f.power(*x)
        return -x[0] if op == "neg" else getattr(f, op)(*x)

    def arithmetic(self, op, a, b, absorb):
        if absorb:  # an exact zero times anything is zero
            b = np.where(self.f.eq(a, self.f.lift(0)), self.f.lift(1), b)
        return a + b if op == "add" else a - b if op == "sub" else a * b if op == "mul" else self.f.div(a, b)

    def solution(self, a, b, vector, definite=False, absorb=False):
        """A system after the other."""
        f, b = self.f, np.asarray(b)[..., None] if vector else np.asarray(b)
        lead = np.broadcast_shapes(np.shape(a)[:-2], b.shape[:-2])
        a, b = np.broadcast_to(a, lead + np.shape(a)[-2:]), np.broadcast_to(b, lead + b.shape[-2:])
        y = f.array(np.zeros(b.shape, dtype=int))
        for at in np.ndindex(lead):
            x = self.eliminated(a[at], b[at], definite)
            y[at] = np.where(np.asarray(f.eq(b[at], f.lift(0))).all(axis=0), f.lift(0), x) if absorb else x
        return y[..., 0] if vector else y

    def eliminated(self, a, b, definite):
        """x with a x = b; undefined if a pivot is zero, or, of a definite matrix, not positive."""
        f, both = self.f, np.concatenate([a, b], axis=1)
        for j in range(len(a)):
            best = j
            for i in range(j + 1, 0 if definite else len(a)):
                best = i if f.lt(f.abs(both[best, j]), f.abs(both[i, j])) else best
            both[[j, best]] = both[[best, j]]
            if not (f.lt(f.lift(0), both[j, j]) or not definite and f.lt(both[j, j], f.lift(0))):
                return np.broadcast_to(f.lift("NaN"), b.shape)
            row = f.div(both[j], both[j, j])
            both = both - both[:, j : j + 1] * row[None]
            both[j] = row
        return both[:, len(a) :]

    def rows(self, op, s, seen):
        seen = np.broadcast_to(seen, np.shape(s))
        out = np.empty(s.shape if op == "softmax" else s.shape[:-1], dtype=object)
        for at in np.ndindex(s.shape[:-1]):
            out[at] = self.one_row(op, s[at], np.flatnonzero(seen[at]))
        return out

    def one_row(self, op, s, visible):
        """Softmax or logsumexp of one row of objects."""
        f = self.f
        if op == "softmax":
            y = np.full(s.shape, f.one(0), dtype=object)
            if len(visible):
                w = f.exp(s[visible] - self.largest(s[visible]))
                y[visible] = f.div(w, np.asarray(w.sum(), dtype=object))
            return y
        if not len(visible):
            return f.one("-Infinity")
        top = self.largest(s[visible])
        return f.log(np.asarray(f.exp(s[visible] - top).sum(), dtype=object))[()] + top

    def largest(self, row):
        top = row[0]
        for x in row[1:]:
            top = x if self.f.lt(top, x) else top
        return self.f.detach(np.asarray(top, dtype=object))[()]

    def scan(self, n, x, types):
        a, carry = n.attrs, n.attrs["carry"]
        last = carry + a["xs"]
        states, rest = list(x[:carry]), list(x[last:])
        order, rows = range(self.length(types[carry].shape[0])), []
        for t in reversed(order) if a["reverse"] else order:
            out = self.block(a["body"], states + [s[t] for s in x[carry:last]] + rest)
            states = out[:carry]
            rows.append(out[carry:])
        rows = rows[::-1] if a["reverse"] else rows
        return tuple(states) + tuple(self.stacked([r[i] for r in rows], t) for i, t in enumerate(n.type[carry:]))

    def stacked(self, rows, t):
        if rows:
            return np.stack(rows)
        none = np.zeros([self.length(a) for a in t.shape], dtype=int)
        return self.f.array(none) if t.kind == "real" else none.astype(t.kind)


def constant(run, x, t, value):
    return np.bool_(value) if isinstance(value, bool) else run.f.lift(fractions.Fraction(value))


def expand(run, x, t, at, size):
    return np.repeat(np.expand_dims(x[0], at), run.length(size), axis=at)


def total(run, x, t, axis):
    y = np.asarray(x[0])
    if t.kind != "real":
        return y.sum(axis=axis)
    return np.asarray(y.sum(axis=axis), dtype=object) if y.size else run.f.array(np.zeros(np.delete(y.shape, axis), dtype=int))


def moved(run, x, t, by):
    y, n = np.broadcast_to(run.f.lift(0), np.shape(x[0])).copy(), len(x[0])
    if abs(by) < n:
        y[max(by, 0) : n + min(by, 0)] = x[0][max(-by, 0) : n - max(by, 0)]
    return y


def contraction(run, x, t, spec, absorb=False):
    """Sums of products; with `absorb` a zero in the first operand makes its products zero."""
    a, b = x
    fine = np.asarray(run.f.finite(b))
    if not absorb or fine.all():
        return run.f.contract(spec, a, b)
    y = run.f.contract(spec, a, np.where(fine, b, run.f.lift(0)))
    hit = np.einsum(spec, ~np.asarray(run.f.eq(a, run.f.lift(0))) * 1, ~fine * 1) > 0
    return np.where(hit, run.f.lift("NaN"), y)


STRUCTURE = {
    "const": constant,
    "int": lambda run, x, t, value: np.int64(value),
    "size": lambda run, x, t, axis: np.int64(run.length(axis)),
    "iota": lambda run, x, t, axis: np.arange(run.length(axis)),
    "real": lambda run, x, t: run.f.array(x[0]),
    "select": lambda run, x, t: np.where(*x),
    "round": lambda run, x, t, site: x[0],
    "expand": expand,
    "transpose": lambda run, x, t, perm: np.transpose(x[0], perm),
    "index": lambda run, x, t, axis, i: np.take(x[0], i, axis=axis),
    "sum": total,
    "shift": moved,
    "cumsum": lambda run, x, t, reverse: np.cumsum(x[0][::-1], axis=0)[::-1] if reverse else np.cumsum(x[0], axis=0),
    "contract": contraction,
}


def bind(program, given, field, lengths=None):
    """Arrays of the field for every input, defaults included, and the lengths of the axes.

    `given`: nested lists of texts, or arrays, by name. MechanismError for what is missing or has the wrong shape.
    """
    lengths, found = dict(lengths or {}), {}
    for i in program.inputs:
        if given.get(i.name) is not None:
            found[i.name] = bound(i, given[i.name], field, lengths)
    for i in program.inputs:
        for axis in i.type.shape:
            if isinstance(axis, str):
                lengths.setdefault(axis, 0)  # of nothing but missing inputs
    values = []
    for i in program.inputs:
        if i.name in found:
            values.append(found[i.name])
        elif i.default is None:
            raise MechanismError(f"{i.name} is missing")
        else:
            with np.errstate(all="ignore"):  # log(0) is -inf
                values.append(Interpreter(field, lengths).block(i.default, values)[0])
    return values, lengths


def bound(i, x, field, lengths):
    if i.type.kind != "real":
        return np.bool_(x) if i.type.kind == "bool" else np.int64(x)
    x, n = field.array(x), len(i.type.shape)
    if x.ndim < n and x.size == 0:
        x = x.reshape(x.shape + tuple(lengths.get(a, 0) if isinstance(a, str) else a for a in i.type.shape[x.ndim :]))
    if x.ndim != n:
        raise MechanismError(f"{i.name} has {x.ndim} axes and needs [{' '.join(map(str, i.type.shape))}]")
    for axis, length in zip(i.type.shape, x.shape):
        want = axis if isinstance(axis, int) else lengths.setdefault(axis, length)
        if want != length:
            raise MechanismError(f"{i.name} has {length} along {axis}, not {want}")
    return x


def evaluate(program, given, field, lengths=None):
    """The outputs by name: arrays of the field. What is undefined is NaN."""
    values, lengths = bind(program, given, field, lengths)
    with np.errstate(all="ignore"):
        return dict(zip(program.outputs, Interpreter(field, lengths).block(program.body, values)))
