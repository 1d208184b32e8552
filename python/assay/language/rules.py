"""The chain rule of every operation: what an operation's cotangent makes of those of its operands.

One rule goes beyond: zero absorbs. A product, quotient or contraction that carries `absorb` takes an exactly zero cotangent times
anything, undefined included, for zero, so that what a selection left out does no harm.
"""

# These have no gradient: they are constants, or said to be.
CONSTANT = frozenset(["detach", "real", "const", "int", "size", "iota", "lt", "le", "eq", "and", "or", "not"])
LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Writer:
    """Writes gradient operations into a builder."""

    def __init__(self, builder):
        self.builder = builder

    def __call__(self, op, *args, **attrs):
        return self.builder.emit(op, *args, **attrs)

    def spread(self, v, axes):
        for i, axis in enumerate(axes):
            v = self("expand", v, at=i, size=axis)
        return v

    def constant(self, number, t):
        """A written number in every element of a type."""
        return self.spread(self("const", value=number), t.shape)

    def integer(self, number, axes):
        return self.spread(self("int", value=number), axes)

    def times(self, ct, x):
        return self("mul", ct, x, absorb=True)

    def over(self, ct, x):
        return self("div", ct, x, absorb=True)


class Step:
    """One operation on the way back: its cotangent ct, its value y, its operands x, their types, and which of them want one."""

    def __init__(self, write, node, ct, y, x, types, wanted):
        self.w, self.node, self.ct, self.y, self.x, self.types, self.wanted = write, node, ct, y, x, types, wanted


def cotangents(s):
    """Those of the operands, None where there is none or nobody wants it."""
    found = RULES[s.node.op](s)
    return [f() if callable(f) and wanted else None if callable(f) else f for f, wanted in zip(found, s.wanted)]


def mul(s):
    return lambda: s.w.times(s.ct, s.x[1]), lambda: s.w.times(s.ct, s.x[0])


def div(s):
    return lambda: s.w.over(s.ct, s.x[1]), lambda: s.w("neg", s.w.times(s.w.over(s.ct, s.x[1]), s.y))


def larger(s):
    first, zero = s.w("lt", s.x[1], s.x[0]), s.w.constant("0", s.node.type)
    return lambda: s.w("select", first, s.ct, zero), lambda: s.w("select", first, zero, s.ct)


def select(s):
    zero = s.w.constant("0", s.node.type)
    return None, lambda: s.w("select", s.x[0], s.ct, zero), lambda: s.w("select", s.x[0], zero, s.ct)


def power(s):
    below = s.w("add", s.x[1], s.w("neg", s.w.integer(1, s.node.type.shape)))
    slope = lambda: s.w.times(s.w("mul", s.ct, s.w("real", s.x[1])), s.w("pow", s.x[0], below))
    return slope, None


def square_away(s):
    """tanh: 1 - y^2."""
    return (lambda: s.w.times(s.ct, s.w("sub", s.w.constant("1", s.node.type), s.w("mul", s.y, s.y))),)


def logistic(s):
    return (lambda: s.w.times(s.ct, s.w("mul", s.y, s.w("sub", s.w.constant("1", s.node.type), s.y))),)


def absolute(s):
    def slope():
        zero = s.w.constant("0", s.node.type)
        right = s.w("select", s.w("lt", zero, s.x[0]), s.ct, zero)
        return s.w("select", s.w("lt", s.x[0], zero), s.w("neg", s.ct), right)

    return (slope,)


def transpose(s):
    perm = list(s.node.attrs["perm"])
    return (lambda: s.w("transpose", s.ct, perm=[perm.index(i) for i in range(len(perm))]),)


def total(s):
    axis = s.node.attrs["axis"]
    return (lambda: s.w("expand", s.ct, at=axis, size=s.types[0].shape[axis]),)


def index(s):
    def slope():
        t, axis = s.types[0], s.node.attrs["axis"]
        here = s.w("eq", s.w("iota", axis=t.shape[axis]), s.w.integer(s.node.attrs["i"], (t.shape[axis],)))
        for i, n in enumerate(t.shape):
            here = here if i == axis else s.w("expand", here, at=i, size=n)
        return s.w("select", here, s.w("expand", s.ct, at=axis, size=t.shape[axis]), s.w.constant("0", t))

    return (slope,)


def contract(s):
    a, b, c = s.node.attrs["spec"].replace("->", ",").split(",")
    left = lambda: s.w("contract", s.ct, s.x[1], spec=f"{c},{b}->{a}", absorb=True)
    right = lambda: s.w("contract", s.ct, s.x[0], spec=f"{c},{a}->{b}", absorb=True)
    return left, right


def solve(s):
    """With l = A^-T ct: l of the right-hand side, -l y^T of A, of several columns their sum."""
    rank = len(s.types[0].shape)
    lead, column = LETTERS[: rank - 2], "m" if len(s.types[1].shape) == rank else ""
    definite = {"definite": True} if s.node.attrs.get("definite") else {}
    swap = [*range(rank - 2), rank - 1, rank - 2]
    ct = s.w("solve", s.x[0] if definite else s.w("transpose", s.x[0], perm=swap), s.ct, absorb=True, **definite)
    spec = f"{lead}x{column},{lead}y{column}->{lead}xy"
    return lambda: s.w("neg", s.w("contract", ct, s.y, spec=spec, absorb=True)), ct


def softmax(s):
    """y (ct - sum ct y); the sum is a contraction, as kernels have it."""

    def slope():
        at = len(s.types[0].shape) - 1
        rows = LETTERS[: at + 1]
        mean = s.w("contract", s.ct, s.y, spec=f"{rows},{rows}->{rows[:-1]}", absorb=True)
        return s.w.times(s.y, s.w("sub", s.ct, s.w("expand", mean, at=at, size=s.types[0].shape[-1])))

    return slope, None


def logsumexp(s):
    shape = s.types[0].shape
    wide = lambda: s.w("expand", s.ct, at=len(shape) - 1, size=shape[-1])
    return lambda: s.w.times(wide(), s.w("softmax", *s.x)), None


RULES = {
    "add": lambda s: (s.ct, s.ct),
    "sub": lambda s: (s.ct, lambda: s.w("neg", s.ct)),
    "mul": mul,
    "div": div,
    "max": larger,
    "neg": lambda s: (lambda: s.w("neg", s.ct),),
    "exp": lambda s: (lambda: s.w.times(s.ct, s.y),),
    "log": lambda s: (lambda: s.w.over(s.ct, s.x[0]),),
    "sqrt": lambda s: (lambda: s.w.over(s.ct, s.w("add", s.y, s.y)),),
    "tanh": square_away,
    "sigmoid": logistic,
    "softplus": lambda s: (lambda: s.w.times(s.ct, s.w("sigmoid", s.x[0])),),
    "abs": absolute,
    "round": lambda s: (lambda: s.w("round", s.ct, site=s.node.attrs["site"]),),
    "pow": power,
    "select": select,
    "expand": lambda s: (lambda: s.w("sum", s.ct, axis=s.node.attrs["at"]),),
    "transpose": transpose,
    "index": index,
    "sum": total,
    "shift": lambda s: (lambda: s.w("shift", s.ct, by=-s.node.attrs["by"]),),
    "cumsum": lambda s: (lambda: s.w("cumsum", s.ct, reverse=not s.node.attrs["reverse"]),),
    "contract": contract,
    "solve": solve,
    "softmax": softmax,
    "logsumexp": logsumexp,
}
