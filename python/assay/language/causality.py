"""Causality: which tokens the values of a program read, as far as its shape proves it."""
import dataclasses

from .program import Type

NONE, NOW, ROWS, ALL = range(4)  # no token; those up to this step's; row j (of a step: also) those up to j; any


@dataclasses.dataclass(frozen=True)
class Reads:
    """What a value reads along the axis in question.

    tag: "position" (element j is j), "here" (this step's number), "past" (true only for j up to this step), "zero", or none.
    zero_ahead: zero for all j beyond this step.
    """

    level: int = NONE
    tag: str = ""
    zero_ahead: bool = False


class Causality:
    """Follows what values read of the tokens along one axis."""

    def __init__(self, axis):
        self.axis, self.known = axis, {}

    def input(self, t):
        if self.axis not in t.shape:
            return Reads()
        return Reads(ROWS if t.shape.index(self.axis) == 0 and t.shape.count(self.axis) == 1 else ALL)

    def block(self, b, params):
        found = list(params)
        for n in b.nodes:
            x, types = [found[v] for v in n.args], [b.type(v) for v in n.args]
            y = self.scan(n, tuple(x), tuple(types)) if n.op == "scan" else self.node(n, x, types)
            if isinstance(n.type, Type) and n.type.shape.count(self.axis) > 1 and y.level != NONE:
                y = Reads(ALL)
            found.append(y)
        return [found[r] for r in b.results]

    def node(self, n, x, types):
        op, level = n.op, max((r.level for r in x if isinstance(r, Reads)), default=NONE)
        if op == "get":
            return x[0][n.attrs["i"]]
        if op == "const":
            return Reads(NONE, "zero" if n.attrs["value"] == "0" else "")
        if op == "iota":
            return Reads(NONE, "position" if n.attrs["axis"] == self.axis else "")
        if op in ("expand", "transpose", "neg", "exp", "real", "detach", "round", "index"):
            keeps_tag = op in ("expand", "transpose", "detach", "round")
            return Reads(level, x[0].tag if keeps_tag else "", x[0].zero_ahead and op != "exp")
        if op in ("lt", "le", "eq"):
            return Reads(level, "past" if [r.tag for r in x] == ["position", "here"] else "")
        if op == "and":
            return Reads(level, "past" if "past" in (x[0].tag, x[1].tag) else "")
        if op == "or":
            return Reads(level, "past" if x[0].tag == x[1].tag == "past" else "")
        if op == "select":
            return self.select(x, level)
        if op in ("softmax", "logsumexp"):
            return self.softmax(op, x, types[0], level)
        if op == "solve":
            return Reads(ALL if types[0].shape[-1] == self.axis and level == ROWS else level)
        if op in ("sum", "contract"):
            return self.summed(n, x, types, level)
        if op in ("shift", "cumsum"):
            back = n.attrs.get("by", 0) < 0 or n.attrs.get("reverse", False)
            along = types[0].shape[0] == self.axis
            return Reads(ALL if along and (back or x[0].tag) and level == ROWS else level)
        if op == "mul" and any(r.zero_ahead for r in x) and level < ALL:
            return Reads(min(level, NOW), zero_ahead=True)
        if op in ("add", "sub") and all(r.zero_ahead for r in x) and level < ALL:
            return Reads(min(level, NOW), zero_ahead=True)
        return Reads(level)

    def select(self, x, level):
        chosen, a, b = x
        if chosen.tag == "past" and level < ALL and b.level < ROWS:
            return Reads(min(level, NOW), zero_ahead=b.tag == "zero")
        return Reads(level)

    def softmax(self, op, x, t, level):
        if t.shape[-1] != self.axis:
            return Reads(level)
        if x[1].tag == "past" and level < ALL:
            return Reads(min(level, NOW), zero_ahead=op == "softmax")
        return Reads(ALL if level == ROWS else level)

    def summed(self, n, x, types, level):
        """A sum over the axis reads all of it, unless a factor is zero ahead of this step."""
        if n.op == "sum":
            gone = types[0].shape[n.attrs["axis"]] == self.axis
        else:
            a, _, c = n.attrs["spec"].replace("->", ",").split(",")
            gone = any(axis == self.axis and letter not in c for letter, axis in zip(a, types[0].shape))
        ahead = any(r.zero_ahead for r in x)
        if ahead and level < ALL:
            return Reads(min(level, NOW), zero_ahead=not gone)
        return Reads(ALL if gone and level == ROWS else level)

    def scan(self, n, x, types):
        if (n, x) not in self.known:
            self.known[n, x] = self.scanned(n, x, types)
        return self.known[n, x]

    def scanned(self, n, x, types):
        carry, xs, body = n.attrs["carry"], n.attrs["xs"], n.attrs["body"]
        along = types[carry].shape[0] == self.axis
        if along and any(r.tag in ("here", "past") or r.zero_ahead for r in x):
            return [Reads(ALL)] * len(n.type)  # tokens within tokens: not followed
        states = [Reads(r.level) if not along or r.level == NONE else Reads(ALL) for r in x[:carry]]
        rows = [self.row(r) if along else Reads(r.level, r.tag if r.tag == "here" else "") for r in x[carry : carry + xs]]
        while True:
            out = self.block(body, states + rows + list(x[carry + xs :]))
            grown = [Reads(max(a.level, self.carried(b, along, n.attrs["reverse"]))) for a, b in zip(states, out)]
            if grown == states:
                break
            states = grown
        if not along:
            return [Reads(max(r.level, s.level)) for r, s in zip(out, states)] + [Reads(r.level) for r in out[carry:]]
        last = [Reads(ALL if r.level else NONE) for r in states]
        return last + [Reads({NONE: NONE, NOW: ROWS}.get(r.level, ALL)) for r in out[carry:]]

    def row(self, r):
        if r.tag == "position":
            return Reads(NONE, "here")
        return Reads(NOW if r.level == ROWS else r.level)

    def carried(self, r, along, reverse):
        if not along or r.level == NONE:
            return r.level
        return ALL if reverse or r.level != NOW else NOW


def causal_outputs(program, axis):
    """The outputs with rows along this axis, and whether row t is proved to read no row of an input beyond t."""
    follow = Causality(axis)
    reads = follow.block(program.body, [follow.input(i.type) for i in program.inputs])
    types = program.output_types()
    return {o: r.level in (NONE, ROWS) for o, r in zip(program.outputs, reads) if types[o].shape[:1] == (axis,)}
