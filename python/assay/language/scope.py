"""Where traced operations go: scopes, the innermost last, and the values that live in them."""
import fractions
import re

from .build import Builder
from .errors import MechanismError, shown
from .infer import ROWS

FAR = 10**6  # the first node's number while a step is traced, whose parameters still grow
NUMBER = re.compile(r"\s*[-+]?[0-9.]{1,1000}([eE][-+]?[0-9]{1,3})?(/[0-9]{1,1000})?\s*")
open_scopes = []


class Scope(Builder):
    """A block while it is traced. What it reads of outer scopes becomes a parameter."""

    def __init__(self, params):
        super().__init__(params, base=FAR)
        self.captured = {}  # (outer scope, number there) -> parameter here

    def __enter__(self):
        open_scopes.append(self)
        return self

    def __exit__(self, *_):
        open_scopes.pop()

    def capture(self, x):
        if (x.scope, x.id) not in self.captured:
            self.block.params.append(x.type)
            self.captured[x.scope, x.id] = len(self.block.params) - 1
        return self.value(self.captured[x.scope, x.id])

    def reshaped(self, op, v, **attrs):
        """expand or index of a value that may have been expanded: its inserted axes come in one order, however they were written."""
        base, inserted = v, []  # positions and lengths, the last first
        while (n := self.block.node(base)) and n.op == "expand":
            base = n.args[0]
            inserted.append((n.attrs["at"], n.attrs["size"]))
        axes = [None] * len(self.block.type(base).shape)  # None: of the base; else the length of one that was inserted
        for at, length in reversed(inserted):
            axes.insert(at, length)
        if op == "index":
            length = axes.pop(attrs["axis"]) if attrs["axis"] < len(axes) else None
            if type(length) is not int or attrs["i"] >= length:
                return self.emit(op, v, **attrs)  # an axis of the base, or a mistake
        else:
            axes.insert(attrs["at"], attrs["size"])
        for at, length in enumerate(axes):
            base = base if length is None else self.emit("expand", base, at=at, size=length)
        return base

    def value(self, v):
        from .traced import Value

        return Value(self, v)

    def literal(self, op, value):
        return self.value(self.emit(op, value=value))


def tracing():
    return bool(open_scopes)


def is_traced(x):
    return hasattr(type(x), "is_traced_value")


def fraction(x):
    """The exact number that an integer, a Fraction or a decimal text is."""
    if isinstance(x, str) and not NUMBER.fullmatch(x):
        raise MechanismError(f"{shown(x)} is no number")
    try:
        return fractions.Fraction(x)
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise MechanismError(f"{shown(x)} is no number of a mechanism") from None


def lift(x):
    """`x` as a value of the innermost scope."""
    here = open_scopes[-1]
    if is_traced(x):
        if x.scope not in open_scopes:
            raise MechanismError("a value of a step is read outside of its scan: return it from the step")
        return x if x.scope is here else here.capture(x)
    if isinstance(x, bool):
        return here.literal("const", x)
    if isinstance(x, float):
        x = float(x)
        raise MechanismError(f'{x!r} is a binary number: write "{x!r}" for the decimal, const("{x!r}") where arrays run, too')
    return here.literal("const", str(fraction(x)))


def integer(n):
    return open_scopes[-1].literal("int", n)


def emit(op, *args, **attrs):
    """The value of an operation in the innermost scope."""
    args = [lift(a) for a in args]
    here = open_scopes[-1]
    try:
        if op == "expand" or op == "index" and type(attrs["axis"]) is int:
            return here.value(here.reshaped(op, args[0].id, **attrs))
        return here.value(here.emit(op, *[a.id for a in args], **attrs))
    except MechanismError as error:
        raise MechanismError(f"{op}: {error}") from None


def number_type(x):
    """A traced integer as a real number; anything else as it is."""
    return elementwise("real", x) if is_traced(x) and x.type.kind == "int" else x


def elementwise(op, *args):
    """An operation on operands that numpy's rules give the same axes; integers beside real numbers become real.

    Two axes of different names never meet, whatever their lengths. An axis of length 1 is put in after the operation.
    """
    args = [lift(a) for a in args]
    first = 1 if op == "select" else 0
    if {a.type.kind for a in args[first:]} == {"int", "real"} and op != "pow":
        args = [number_type(a) for a in args]
    axes = common_axes(op, args)
    thin = [i for i, n in enumerate(axes) if n == 1 and op not in ROWS]
    for i in reversed(thin):
        axes.pop(i)
        args = [emit("index", a, axis=at, i=0) if (at := i - len(axes) - 1 + a.ndim) >= 0 else a for a in args]
    found = emit(op, *[broadcast(a, axes) for a in args])
    for i in thin:
        found = emit("expand", found, at=i, size=1)
    return found


def common_axes(op, args):
    rank = max(a.ndim for a in args)
    axes = [1] * rank
    for a in args:
        for i, n in enumerate(a.shape, rank - a.ndim):
            if axes[i] != n and axes[i] != 1 and n != 1:
                all_axes = " and ".join(f"[{' '.join(map(str, b.shape))}]" for b in args)
                raise MechanismError(f"{op}: axis {n} meets axis {axes[i]}, of {all_axes}")
            axes[i] = n if axes[i] == 1 else axes[i]
    return axes


def broadcast(a, axes):
    """`a` with these axes: missing ones are put in front, those of length 1 repeated."""
    for axis in reversed(axes[: len(axes) - a.ndim]):
        a = emit("expand", a, at=0, size=axis)
    for i, n in enumerate(axes):
        if a.shape[i] != n:
            a = emit("expand", emit("index", a, axis=i, i=0), at=i, size=n)
    return a
