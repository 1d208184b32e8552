"""The 40 operations: what each takes, and the type of what it gives. `infer` is the only judge of a node."""
import fractions
import re

from .errors import MechanismError, shown
from .program import MAX_AXES, NAME, Block, Type, is_axis

UNARY = ("neg", "exp", "log", "sqrt", "tanh", "sigmoid", "softplus", "abs", "detach", "round")
BINARY = ("add", "sub", "mul", "div", "max")
COMPARE = ("lt", "le", "eq")
LOGIC = ("and", "or")
ROWS = ("softmax", "logsumexp")
ARITY = {"const": 0, "int": 0, "size": 0, "iota": 0, "pow": 2, "select": 3, "contract": 2, "solve": 2, "not": 1, "real": 1, "expand": 1}
ARITY |= {op: 1 for op in UNARY + ("transpose", "index", "shift", "cumsum", "sum", "get")}
ARITY |= {op: 2 for op in BINARY + COMPARE + LOGIC + ROWS}
OPS = (*ARITY, "scan")
SPEC = re.compile("([a-z]*),([a-z]*)->([a-z]*)")
FRACTION = re.compile(r"-?[0-9]{1,1000}(/[0-9]{1,1000})?")


def need(ok, why):
    if not ok:
        raise MechanismError(why)


def is_index(x):
    return type(x) is int and 0 <= x < 2**31


def is_literal(x):
    """A truth value, or a reduced fraction as written: "0", "-1/10"."""
    return type(x) is bool or isinstance(x, str) and bool(FRACTION.fullmatch(x)) and not x.endswith("/0") and reduced(x)


def reduced(x):
    try:
        return str(fractions.Fraction(x)) == x
    except ZeroDivisionError:
        return False


def is_integer(x):
    return type(x) is int and abs(x) < 2**63


def is_permutation(x):
    return isinstance(x, (list, tuple)) and all(map(is_index, x)) and sorted(x) == list(range(len(x)))


def is_flag(x):
    return type(x) is bool


# The attributes of every operation, and the conditions on them.
ATTRIBUTES = {
    "const": {"value": (is_literal, 'a truth value or a reduced fraction, as in "1/10"')},
    "int": {"value": (is_integer, "an integer of 64 bits")},
    "size": {"axis": (is_axis, "an axis")},
    "iota": {"axis": (is_axis, "an axis")},
    "expand": {"at": (is_index, "a position"), "size": (is_axis, "an axis")},
    "transpose": {"perm": (is_permutation, "a permutation, as in [1, 0]")},
    "index": {"axis": (is_index, "a position"), "i": (is_index, "an index")},
    "sum": {"axis": (is_index, "a position")},
    "shift": {"by": (lambda x: type(x) is int and abs(x) < 2**31, "an integer")},
    "cumsum": {"reverse": (is_flag, "true or false")},
    "contract": {"spec": (lambda x: isinstance(x, str) and bool(SPEC.fullmatch(x)), 'of the form "ab,bc->ac"')},
    "get": {"i": (is_index, "an index")},
    "round": {"site": (lambda x: isinstance(x, str) and bool(NAME.fullmatch(x)), "the name of a site")},
    "scan": {
        "carry": (is_index, "a number of states"),
        "xs": (is_index, "a number of sequences"),
        "reverse": (is_flag, "true or false"),
        "body": (lambda x: isinstance(x, Block), "a block"),
    },
}
# Attributes that are true if they are written.
OPTIONAL = {"mul": ("absorb",), "div": ("absorb",), "contract": ("absorb",), "solve": ("absorb", "definite")}


def infer(op, types, attrs):
    """The type of an operation's value, or MechanismError. types: those of its operands, attrs: its attributes."""
    need(isinstance(op, str) and op in OPS, f"there is no operation {shown(op)}")
    check_attributes(op, attrs)
    if op == "scan":
        return scan_type(types, attrs)
    need(len(types) == ARITY[op], f"takes {ARITY[op]} operands, not {len(types)}")
    need(op == "get" or not any(isinstance(t, tuple) for t in types), "an operand is a scan: get takes its results apart")
    found = RULES[op](*types, **attrs) if op in RULES else elementwise_type(op, types)
    need(isinstance(found, tuple) or len(found.shape) <= MAX_AXES, f"makes a value of more than {MAX_AXES} axes")
    return found


def check_attributes(op, attrs):
    known = ATTRIBUTES.get(op, {})
    optional = OPTIONAL.get(op, ())
    for name, (fits, what) in known.items():
        need(name in attrs, f"its attribute {name} is missing")
        need(fits(attrs[name]), f"its attribute {name} is {what}, not {shown(attrs[name])}")
    for name, value in attrs.items():
        need(name in known or name in optional, f"has no attribute {shown(name)}")
        need(name in known or value is True, f"its attribute {name} is true if it is written")


def listed(types):
    return ", ".join(f"[{t}]" for t in types)


def elementwise_type(op, t):
    """Operands of the same axes, of the kinds that the operation takes."""
    need(all(x.shape == t[0].shape for x in t), f"operands have different axes: {listed(t)}")
    kinds = [x.kind for x in t]
    if op in UNARY:
        need(kinds == ["real"] or op == "neg" and kinds == ["int"], f"takes real numbers, not {listed(t)}")
    elif op in LOGIC or op == "not":
        need(set(kinds) == {"bool"}, f"takes truth values, not {listed(t)}")
    elif op in BINARY + COMPARE:
        need(len(set(kinds)) == 1, f"operands differ in kind: {listed(t)}")
        need(kinds[0] == "real" or kinds[0] == "int" and op != "div", f"takes real numbers, not {listed(t)}")
        return Type("bool", t[0].shape) if op in COMPARE else t[0]
    elif op == "pow":
        need(kinds == ["real", "int"], f"takes a real number and an integer exponent, not {listed(t)}")
    elif op == "select":
        need(kinds[0] == "bool" and t[1] == t[2], f"takes a truth value and two alike, not {listed(t)}")
        return t[1]
    elif op == "real":
        need(kinds == ["int"], f"converts integers, not {listed(t)}")
        return Type("real", t[0].shape)
    return t[0]


def const_type(value):
    return Type("bool" if type(value) is bool else "real")


def expand_type(t, at, size):
    need(at <= len(t.shape), f"[{t}] has no position {at}")
    return Type(t.kind, t.shape[:at] + (size,) + t.shape[at:])


def transpose_type(t, perm):
    need(len(perm) == len(t.shape), f"{list(perm)} is no permutation of the axes of [{t}]")
    return Type(t.kind, tuple(t.shape[i] for i in perm))


def index_type(t, axis, i):
    need(axis < len(t.shape), f"[{t}] has no axis {axis}")
    n = t.shape[axis]
    need(type(n) is int, f"index {i} into axis {n}: only axes of a written length have written indices")
    need(i < n, f"index {i} is beyond an axis of length {n}")
    return Type(t.kind, t.shape[:axis] + t.shape[axis + 1 :])


def sum_type(t, axis):
    need(t.kind != "bool", f"takes numbers, not [{t}]")
    need(axis < len(t.shape), f"[{t}] has no axis {axis}")
    return Type(t.kind, t.shape[:axis] + t.shape[axis + 1 :])


def along_type(t, **_):
    need(t.shape and t.kind == "real", f"takes real numbers with a first axis, not [{t}]")
    return t


def rows_type(op):
    def found(s, mask):
        need(s.kind == "real" and mask.kind == "bool", f"takes scores and a mask, not {listed((s, mask))}")
        need(s.shape == mask.shape, f"scores and mask have different axes: {listed((s, mask))}")
        need(s.shape, "has no axis to sum along")
        return s if op == "softmax" else Type("real", s.shape[:-1])

    return found


def contract_type(x, y, spec, absorb=False):
    a, b, c = SPEC.fullmatch(spec).groups()
    need(x.kind == y.kind == "real", f"takes real numbers, not {listed((x, y))}")
    need(len(a) == len(x.shape) and len(b) == len(y.shape), f'"{spec}" does not fit {listed((x, y))}')
    need(all(len(set(w)) == len(w) for w in (a, b, c)), f'"{spec}": an index occurs twice in one operand')
    for letter in a + b + c:
        need((letter in a) + (letter in b) + (letter in c) >= 2, f'"{spec}": every index is in two of both operands and the result')
    axis = {}
    for letter, n in zip(a + b, x.shape + y.shape):
        need(axis.setdefault(letter, n) == n, f"axis {n} meets axis {axis[letter]}, of {listed((x, y))}")
    return Type("real", tuple(axis[letter] for letter in c))


def solve_type(a, b, definite=False, absorb=False):
    need(a.kind == b.kind == "real", f"takes real numbers, not {listed((a, b))}")
    need(len(a.shape) >= 2 and a.shape[-1] == a.shape[-2], f"A is [{a}], not square")
    need(len(a.shape) - len(b.shape) in (0, 1), f"b is [{b}], neither a vector nor a matrix beside A of [{a}]")
    for x, y in zip(a.shape[:-1], b.shape):
        need(x == y, f"axis {y} of b meets axis {x} of A")
    return b


def get_type(t, i):
    need(isinstance(t, tuple), f"takes a scan apart, not [{t}]")
    need(i < len(t), f"the scan has {len(t)} results, no number {i}")
    return t[i]


def scan_type(t, attrs):
    """The types of a scan's last states and of its rows."""
    carry, xs, body = attrs["carry"], attrs["xs"], attrs["body"]
    need(not any(isinstance(x, tuple) for x in t), "an operand is a scan: get takes its results apart")
    need(xs > 0, "needs at least one sequence")
    need(carry + xs <= len(t), f"has {len(t)} operands for {carry} states and {xs} sequences")
    sequences = t[carry : carry + xs]
    need(all(x.shape for x in sequences), f"a sequence has a first axis, unlike one of {listed(sequences)}")
    axis = sequences[0].shape[0]
    need(all(x.shape[0] == axis for x in sequences), f"sequences of different first axes: {listed(sequences)}")
    want = [*t[:carry], *(x.row() for x in sequences), *t[carry + xs :]]
    need(len(want) == len(body.params), f"the step has {len(body.params)} parameters and gets {len(want)}")
    for i, (x, y) in enumerate(zip(want, body.params)):
        need(x == y, f"parameter {i} of the step is [{y}] and gets [{x}]")
    out = [body.type(r) for r in body.results]
    need(len(out) >= carry, f"the step returns {len(out)} values for {carry} states")
    for enters, leaves in zip(t[:carry], out):
        need(enters == leaves, f"the state enters as [{enters}] and leaves as [{leaves}]")
    rows = [Type(x.kind, (axis, *x.shape)) for x in out[carry:]]
    need(all(len(x.shape) <= MAX_AXES for x in rows), f"makes a value of more than {MAX_AXES} axes")
    return (*out[:carry], *rows)


RULES = {
    "const": const_type,
    "int": lambda value: Type("int"),
    "size": lambda axis: Type("int"),
    "iota": lambda axis: Type("int", (axis,)),
    "expand": expand_type,
    "transpose": transpose_type,
    "index": index_type,
    "sum": sum_type,
    "shift": along_type,
    "cumsum": along_type,
    "contract": contract_type,
    "solve": solve_type,
    "softmax": rows_type("softmax"),
    "logsumexp": rows_type("logsumexp"),
    "get": get_type,
}
