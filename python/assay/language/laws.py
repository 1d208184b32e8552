"""What a program's shape proves: pairs of states, causality, linearity. What is not proved may hold all the same."""
import dataclasses
import functools

from .program import Type

# ---- linearity: how a value depends on a group of inputs -----------------------------

ZERO, FREE, LINEAR, AFFINE, OTHER = range(5)  # written zero; independent; sums of multiples; those plus what is independent; else
LINEAR_OPS = frozenset("neg transpose index expand sum shift cumsum real detach get".split())


def added(a, b):
    """The degree of a sum, or of a choice between two."""
    if ZERO in (a, b) or a == b:
        return max(a, b)
    return OTHER if OTHER in (a, b) else AFFINE


def multiplied(a, b):
    if ZERO in (a, b):
        return ZERO
    return max(a, b) if FREE in (a, b) else OTHER


def degree(n, x, block):
    """The degree of a node's value; x: those of its operands. That of a scan is a list."""
    if n.op == "scan":
        return scan_degrees(n, tuple(x))
    if n.op == "get":
        return x[0][n.attrs["i"]]
    if n.op in ("add", "sub"):
        return added(*x)
    if n.op in ("mul", "contract"):
        return multiplied(*x)
    if n.op == "div":
        return x[0] if x[1] <= FREE else OTHER
    if n.op == "select":
        return added(x[1], x[2]) if x[0] <= FREE else OTHER
    if n.op == "const":
        return ZERO if n.attrs["value"] == "0" else FREE
    if n.op in LINEAR_OPS:
        return x[0]
    return FREE if all(d <= FREE for d in x) else OTHER


def degrees(block, params):
    found = list(params)
    for n in block.nodes:
        found.append(degree(n, [found[v] for v in n.args], block))
    return [found[r] for r in block.results]


@functools.lru_cache(maxsize=1000)  # scans in scans ask again and again
def scan_degrees(n, x):
    carry = n.attrs["carry"]
    states = list(x[:carry])
    while True:
        out = degrees(n.attrs["body"], states + list(x[carry:]))
        grown = [added(a, b) for a, b in zip(states, out)]
        if grown == states:
            return out
        states = grown


def linear_in(program, names):
    """The degree of every output in these inputs together, by name."""
    out = degrees(program.body, [LINEAR if i.name in names else FREE for i in program.inputs])
    return dict(zip(program.outputs, out))


# ---- causality: which tokens a value reads -------------------------------------------

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
        if op in ("expand", "transpose", "neg", "exp", "real", "detach", "index"):
            keeps_tag = op in ("expand", "transpose", "detach")
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
        if op in ("sum", "contract"):
            return self.summed(n, x, types, level)
        if op in ("shift", "cumsum"):
            back = n.attrs.get("by", 0) < 0 or n.attrs.get("reverse", False)
            along = types[0].shape[0] == self.axis
            return Reads(ALL if along and (back or x[0].tag) and level == ROWS else level)
        if op == "mul" and any(r.zero_ahead for r in x) and level < ALL:
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


# ---- all of them, in words -----------------------------------------------------------


def continues(program, pairs):
    """Whether two runs with the states of these pairs carried are proved to be one run.

    So it is where the only thing that sees more than one row is one scan in order over the rows, whose states are the pairs; what goes
    into it and comes out of it is worked out row by row.
    """
    numbers = {i.name: v for v, i in enumerate(program.inputs)}
    last = {numbers[a]: program.body.results[program.outputs.index(b)] for a, b in pairs}
    body, scans = program.body, [v for v, n in enumerate(program.body.nodes, len(program.body.params)) if n.op == "scan"]
    if len(scans) != 1:
        return False
    n = body.node(scans[0])
    axis = body.type(n.args[n.attrs["carry"]]).shape[0]
    gets = {m.attrs["i"]: v for v, m in enumerate(body.nodes, len(body.params)) if m.op == "get"}
    states = {a: gets.get(i) for i, a in enumerate(n.args[: n.attrs["carry"]])}
    if n.attrs["reverse"] or states != last:
        return False
    outside = [m for m in body.nodes if m.op not in ("scan", "get")]
    if any(sees_rows(m, [body.type(v) for v in m.args], axis) for m in outside) or reads_length(n.attrs["body"], axis):
        return False
    whole = [v for v in n.args[n.attrs["carry"] + n.attrs["xs"] :] if axis in body.type(v).shape]
    after = [v for m in outside for v in m.args if v in last.values()]
    rows = [r for r in body.results if r not in last.values()]
    return not whole and not after and all(body.type(r).shape[:1] == (axis,) for r in rows)


def sees_rows(n, types, axis):
    """Whether a node's row depends on more than that row of its operands, or on where it stands."""
    if n.op in ("iota", "size"):
        return n.attrs["axis"] == axis
    if n.op in ("sum", "contract"):
        return any(axis in t.shape for t in types) and n.type.shape[:1] != (axis,)
    moves = n.op in ("shift", "cumsum", "transpose", "softmax", "logsumexp", "scan")
    return moves and any(axis in t.shape for t in types)


def reads_length(block, axis):
    """Whether a step reads the length of the axis, or where a row stands along it."""
    inner = [n.attrs["body"] for n in block.nodes if n.op == "scan"]
    return any(n.attrs.get("axis") == axis for n in block.nodes) or any(reads_length(b, axis) for b in inner)


def state_pairs(program):
    """(initial_X, final_X) of one type: a run may be cut between two tokens."""
    types = program.output_types()
    return [
        (i.name, final)
        for i in program.inputs
        if i.name.startswith("initial_") and types.get(final := "final_" + i.name.removeprefix("initial_")) == i.type
    ]


def listed(names):
    names = list(names)
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def linearity(program):
    """Sentences about the outputs that are linear in the values, alone or with the states that enter."""
    values = [i.name for i in program.inputs if i.domain == "value" and i.gradient]
    states = [i.name for i in program.inputs if i.name.startswith("initial_") and i.domain == "state"]
    found, open_outputs = [], set(program.outputs)
    groups = [(values, LINEAR, "linear"), (values + states, LINEAR, "linear"), (values, AFFINE, "affine")]
    for group, wanted, word in groups if values else []:
        depends = linear_in(program, group)
        these = [o for o in program.outputs if o in open_outputs and depends[o] == wanted]
        open_outputs -= {o for o in program.outputs if depends[o] in (ZERO, FREE)} | set(these)
        if these:
            together = " together" if len(group) > 1 else ""
            found.append(f"{listed(these)}: {word} in {listed(group)}{together}")
    return found


def laws(program):
    """One sentence for each law that the program's shape shows."""
    pairs = state_pairs(program)
    proved = continues(program, pairs) if pairs else False
    meaning = "two runs with the state carried are one run" if proved else "that two runs with the state carried are one run is not proved"
    found = [f"{a} and {b} are a pair: {meaning}" for a, b in pairs]
    for axis in dict.fromkeys(i.type.shape[0] for i in program.inputs if i.type.shape and i.gradient):
        causal = [o for o, is_causal in causal_outputs(program, axis).items() if is_causal]
        rows = [i.name for i in program.inputs if i.type.shape[:1] == (axis,)]
        if causal and isinstance(axis, str):
            found.append(f"{listed(causal)}: causal, row t reads no row of {listed(rows)} beyond t")
    return found + linearity(program)
