"""The 40 operations: the type of what each gives, and what a mechanism can ask of it in vain. Of files the core is the judge."""
import re

from .errors import MechanismError, shown
from .program import MAX_AXES, NAME, Type, is_axis

UNARY = ("neg", "exp", "log", "sqrt", "tanh", "sigmoid", "softplus", "abs", "detach", "round")
BINARY = ("add", "sub", "mul", "div", "max")
COMPARE = ("lt", "le", "eq")
LOGIC = ("and", "or")
ROWS = ("softmax", "logsumexp")
OPS = (*UNARY, *BINARY, *COMPARE, *LOGIC, *ROWS, "const", "int", "size", "iota", "pow", "select", "contract", "solve", "not", "real", "expand", "transpose",
       "index", "shift", "cumsum", "sum", "get", "scan")  # fmt: skip
SPEC = re.compile("([a-z]*),([a-z]*)->([a-z]*)")
FRACTION = re.compile(r"-?[0-9]{1,1000}(/[0-9]{1,1000})?")


def need(ok, why):
    if not ok:
        raise MechanismError(why)


is_flag = lambda x: type(x) is bool
# Attributes that a mechanism writes, and the conditions on them.
ATTRIBUTES = {
    "const": {"value": (lambda x: is_flag(x) or FRACTION.fullmatch(x), 'a truth value or a reduced fraction, as in "1/10"')},
    "int": {"value": (lambda x: type(x) is int and abs(x) < 2**63, "an integer of 64 bits")},
    "size": {"axis": (is_axis, "an axis")},
    "iota": {"axis": (is_axis, "an axis")},
    "expand": {"size": (is_axis, "an axis")},
    "index": {"i": (lambda x: type(x) is int and 0 <= x < 2**31, "an index")},
    "shift": {"by": (lambda x: type(x) is int and abs(x) < 2**31, "an integer")},
    "cumsum": {"reverse": (is_flag, "true or false")},
    "contract": {"spec": (lambda x: isinstance(x, str) and SPEC.fullmatch(x), 'of the form "ab,bc->ac"')},
    "round": {"site": (lambda x: isinstance(x, str) and NAME.fullmatch(x), "the name of a site")},
    "scan": {"reverse": (is_flag, "true or false")},
}


def infer(op, types, attrs):
    """The type of an operation's value, or MechanismError. types: those of its operands, attrs: its attributes."""
    for name, (fits, what) in ATTRIBUTES.get(op, {}).items():
        need(fits(attrs[name]), f"its attribute {name} is {what}, not {shown(attrs[name])}")
    if op == "scan":
        return scan_type(types, attrs)
    found = RULES[op](*types, **attrs) if op in RULES else elementwise_type(op, types)
    need(isinstance(found, tuple) or len(found.shape) <= MAX_AXES, f"makes a value of more than {MAX_AXES} axes")
    return found


def listed(types):
    return ", ".join(f"[{t}]" for t in types)


def elementwise_type(op, t):
    """Operands of the same axes, of the kinds that the operation takes."""
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
        return Type("real", t[0].shape)
    return t[0]


def expand_type(t, at, size):
    need(at <= len(t.shape), f"[{t}] has no position {at}")
    return Type(t.kind, t.shape[:at] + (size,) + t.shape[at:])


def index_type(t, axis, i):
    need(axis < len(t.shape), f"[{t}] has no axis {axis}")
    n = t.shape[axis]
    need(type(n) is int, f"index {i} into axis {n}: only axes of a written length have written indices")
    need(i < n, f"index {i} is beyond an axis of length {n}")
    return Type(t.kind, t.shape[:axis] + t.shape[axis + 1 :])


def sum_type(t, axis):
    need(t.kind != "bool", f"takes numbers, not [{t}]")
    return Type(t.kind, t.shape[:axis] + t.shape[axis + 1 :])


def along_type(t, **_):
    need(t.shape and t.kind == "real", f"takes real numbers with a first axis, not [{t}]")
    return t


def rows_type(op):
    def found(s, mask):
        need(s.kind == "real" and mask.kind == "bool", f"takes scores and a mask, not {listed((s, mask))}")
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


def scan_type(t, attrs):
    """The types of a scan's last states and of its rows."""
    carry, xs, body = attrs["carry"], attrs["xs"], attrs["body"]
    sequences = t[carry : carry + xs]
    axis = sequences[0].shape[0]
    need(all(x.shape[0] == axis for x in sequences), f"sequences of different first axes: {listed(sequences)}")
    out = [body.type(r) for r in body.results]
    for enters, leaves in zip(t[:carry], out):
        need(enters == leaves, f"the state enters as [{enters}] and leaves as [{leaves}]")
    rows = [Type(x.kind, (axis, *x.shape)) for x in out[carry:]]
    need(all(len(x.shape) <= MAX_AXES for x in rows), f"makes a value of more than {MAX_AXES} axes")
    return (*out[:carry], *rows)


RULES = {
    "const": lambda value: Type("bool" if type(value) is bool else "real"),
    "int": lambda value: Type("int"),
    "size": lambda axis: Type("int"),
    "iota": lambda axis: Type("int", (axis,)),
    "expand": expand_type,
    "transpose": lambda t, perm: Type(t.kind, tuple(t.shape[i] for i in perm)),
    "index": index_type,
    "sum": sum_type,
    "shift": along_type,
    "cumsum": along_type,
    "contract": contract_type,
    "solve": solve_type,
    "softmax": rows_type("softmax"),
    "logsumexp": rows_type("logsumexp"),
    "get": lambda t, i: t[i],
}
