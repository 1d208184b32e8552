"""The words of the language. Each takes traced arrays while a mechanism is read, and numpy's or torch's arrays when it runs."""
import functools

from . import arrays
from .canonical import canonical_block
from .errors import MechanismError, shown
from .program import MAX_DEPTH, Type
from .scope import Scope, elementwise, emit, is_traced, lift, number_type, open_scopes, tracing


def traced(*xs):
    """Whether a call is one to trace: it has a traced operand, or only numbers while something is traced."""
    return tracing() and (any(map(is_traced, xs)) or not any(hasattr(x, "shape") for x in xs))


def unary(name, words):
    """The word of that name for an operation on real numbers."""

    def word(x):
        return elementwise(name, number_type(x)) if traced(x) else on_arrays(x)

    on_arrays = getattr(arrays, name, functools.partial(arrays.unary, name))
    word.__name__, word.__doc__ = name, words
    return word


exp = unary("exp", "e to the x; exp(-inf) is 0.")
log = unary("log", "The natural logarithm; log(0) is -inf.")
sqrt = unary("sqrt", "The square root.")
tanh = unary("tanh", "The hyperbolic tangent.")
sigmoid = unary("sigmoid", "1 / (1 + exp(-x)).")
softplus = unary("softplus", "log(1 + exp(x)).")
detach = unary("detach", "x, but a constant to gradients.")


def round(x, site):
    """x, marked as rounded at this site of an algorithm: exact answers have x itself, the judge what rounding there does."""
    return emit("round", number_type(lift(x)), site=site) if traced(x) else x


def real(x):
    """An integer as a real number."""
    return number_type(lift(x)) if traced(x) else x


def const(x):
    """A number written as a text, const("0.1"): exact where it is traced, among ordinary arrays the nearest double."""
    return lift(x) if tracing() else arrays.number(x)


def contract(spec, a, b):
    """Sums of products, contract("ab,bc->ac", x, y): every index is in at least two of both operands and the result."""
    spec = spec.replace(" ", "") if isinstance(spec, str) else spec
    return emit("contract", a, b, spec=spec) if traced(a, b) else arrays.module_of(a).einsum(spec, a, b)


def solve(A, b, definite=False):
    """The x with A @ x = b, of a vector [.., n] or of columns [.., n, m]; `definite`: A is symmetric as written, and positive definite."""
    return emit("solve", A, b, **{"definite": True} if definite else {}) if traced(A, b) else arrays.solve(A, b)


def outer(a, b):
    """The products of all elements of two vectors: [a, b]."""
    return contract("x,y->xy", a, b)


def dot(a, b):
    """The scalar product of two vectors."""
    return contract("x,x->", a, b)


def where(c, a, b):
    """a where c holds, b elsewhere; what is not taken does not matter, defined or not."""
    return elementwise("select", c, a, b) if traced(c, a, b) else arrays.where(c, a, b)


def maximum(a, b):
    """The larger of two; the gradient goes to the first where it is strictly larger, else to the second."""
    return elementwise("max", a, b) if traced(a, b) else arrays.maximum(a, b)


def minimum(a, b):
    """The smaller of two; the gradient goes to the first where it is strictly smaller, else to the second."""
    if traced(a, b):
        return -elementwise("max", -lift(a), -lift(b))
    return -arrays.maximum(-arrays.number(a), -arrays.number(b))


def size(axis):
    """The length of an axis."""
    return emit("size", axis=axis) if tracing() else this_run("size").length(axis)


def iota(axis):
    """0, 1, ... along an axis."""
    return emit("iota", axis=axis) if tracing() else this_run("iota").iota(axis)


def zeros(*axes):
    """Zeros along these axes."""
    if not tracing():
        return this_run("zeros").full(axes, 0)
    v = lift(0)
    for i, axis in enumerate(axes):
        v = emit("expand", v, at=i, size=axis)
    return v


def this_run(name):
    if not arrays.runs:
        raise MechanismError(f"{name}: an axis has a length only inside of a mechanism")
    return arrays.runs[-1]


def shift(x, by=1):
    """Row t is row t - by of x; rows that enter are zero."""
    if type(by) is not int:
        raise MechanismError(f"shift: by is a written integer, not {shown(by)}")
    return emit("shift", x, by=by) if traced(x) else arrays.shift(x, by)


def cumsum(x, reverse=False):
    """Sums of the rows up to each, its own included; with `reverse` from each to the end."""
    return emit("cumsum", x, reverse=reverse) if traced(x) else arrays.cumsum(x, reverse)


def softmax(scores, visible=True):
    """Along the last axis over the visible scores; zeros where nothing is visible."""
    return elementwise("softmax", scores, visible) if traced(scores) else arrays.softmax(scores, mask(scores, visible))


def logsumexp(scores, visible=True):
    """log of the sum of exp along the last axis over the visible scores; -inf where nothing is visible."""
    return elementwise("logsumexp", scores, visible) if traced(scores) else arrays.logsumexp(scores, mask(scores, visible))


def mask(scores, visible):
    return scores == scores if visible is True else visible


def scan(step, init, *xs, reverse=False):
    """state, rows = scan(step, state, *sequences): the step over the sequences' rows, in order or from the end.

    step(state, *rows) -> state, row. `state` may be a tuple, or None for a map over rows; `row` a tuple, or None.
    """
    init = tuple(init) if isinstance(init, list) else init
    carry = init if isinstance(init, tuple) else () if init is None else (init,)
    if not traced(*carry, *xs):
        return arrays.scan(step, init, xs, reverse)
    pack = lambda c: tuple(c) if isinstance(init, tuple) else c[0] if c else None
    if not xs:
        raise MechanismError("scan: needs at least one sequence")
    if len(open_scopes) > MAX_DEPTH:
        raise MechanismError(f"scan: scans are nested more than {MAX_DEPTH} deep")
    carry, xs = [lift(c) for c in carry], [lift(x) for x in xs]
    if not all(x.ndim for x in xs):
        raise MechanismError(f"scan: a sequence has a first axis, unlike one of {', '.join(f'[{x.type}]' for x in xs)}")
    scope, row = traced_step(step, pack, carry, xs)
    outer_values = [lift(s.value(v)) for s, v in scope.captured]
    n = emit("scan", *carry, *xs, *outer_values, carry=len(carry), xs=len(xs), reverse=reverse, body=canonical_block(scope.block))
    out = [emit("get", n, i=i) for i in range(len(n.type))]
    rows = tuple(out[len(carry) :])
    return pack(out[: len(carry)]), rows if isinstance(row, tuple) else rows[0] if rows else None


def traced_step(step, pack, carry, xs):
    """The scope of one step, and the row that it returned."""
    with Scope([c.type for c in carry] + [Type(x.type.kind, x.shape[1:]) for x in xs]) as scope:
        args = [scope.value(i) for i in range(len(carry) + len(xs))]
        returned = step(pack(args[: len(carry)]), *args[len(carry) :])
        if not (isinstance(returned, tuple) and len(returned) == 2):
            raise MechanismError("scan: a step returns its state and its row, (S, o) or (None, o)")
        state, row = returned
        state = tuple(state) if isinstance(state, (tuple, list)) else () if state is None else (state,)
        if len(state) != len(carry):
            raise MechanismError(f"scan: {len(carry)} states enter and {len(state)} leave")
        rows = row if isinstance(row, tuple) else () if row is None else (row,)
        scope.block.results = [lift(x).id for x in (*state, *rows)]
    return scope, row


WORDS = {f.__name__: f for f in (
    const, contract, cumsum, detach, dot, exp, iota, log, logsumexp, maximum, minimum, outer, real, round, scan, shift, sigmoid,
    size, softmax, softplus, solve, sqrt, tanh, where, zeros,
)}  # fmt: skip
