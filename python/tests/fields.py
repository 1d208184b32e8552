"""The numbers a program is evaluated with: decimals of many digits, and dual numbers on those.

Undefined is NaN. Decimals need decimal.localcontext(PRECISE): they have as many digits as that says, and trap nothing.
"""
import decimal
import fractions

import numpy as np

D = decimal.Decimal
PRECISE = decimal.Context(prec=90, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
NAN, ZERO, ONE = D("NaN"), D(0), D(1)


class Objects:
    """A field of Python's numbers: `one` lifts a Fraction, an int or a text; the rest are functions of single numbers."""

    def __init__(self, one, functions):
        self.one = one
        for name, (f, operands) in functions.items():
            setattr(self, name, as_array_function(f, operands, name in ("lt", "le", "eq", "finite")))

    def lift(self, x):
        a = np.empty((), dtype=object)
        a[()] = self.one(x)
        return a

    def array(self, x):
        return np.asarray(np.frompyfunc(self.one, 1, 1)(np.asarray(x, dtype=object)), dtype=object)

    def contract(self, spec, a, b):
        x, y, z = spec.replace("->", ",").split(",")
        order = z + "".join(c for c in x if c not in z)

        def spread(v, letters):
            v = np.transpose(v, sorted(range(len(letters)), key=lambda i: order.index(letters[i])))
            return v[tuple(slice(None) if c in letters else None for c in order)]

        p = np.asarray(spread(np.asarray(a), x) * spread(np.asarray(b), y), dtype=object)
        if len(order) == len(z):
            return p
        summed = tuple(range(len(z), p.ndim))
        return np.asarray(p.sum(axis=summed), dtype=object) if p.size else self.array(np.zeros(p.shape[: len(z)], dtype=int))


def as_array_function(f, operands, truth):
    g = np.frompyfunc(f, operands, 1)
    return (lambda *x: np.asarray(g(*x)).astype(bool)) if truth else (lambda *x: np.asarray(g(*x), dtype=object))


def decimal_of(x):
    if isinstance(x, fractions.Fraction):
        return D(x.numerator) / D(x.denominator)
    return x if isinstance(x, D) else D(str(x)) if isinstance(x, (str, int, bool)) else D(int(x)) if isinstance(x, np.integer) else D(x)


def decimal_tanh(x):
    """With the digits that are lost near 0 put in first."""
    if x == 0:
        return x
    with decimal.localcontext() as context:
        context.prec += max(0, -x.adjusted())
        e = (-2 * abs(x)).exp()
        y = (1 - e) / (1 + e)
    return y.copy_sign(x) + 0


def decimal_softplus(x):
    with decimal.localcontext() as context:
        context.prec += 2 * context.prec if x < 0 else 0
        y = max(x, ZERO) + (1 + (-abs(x)).exp()).ln()
    return y + 0


def decimal_power(x, n):
    n = int(n)
    return NAN if n < 0 and x == 0 else ONE if n == 0 else x**n


DECIMAL = {
    "exp": (lambda x: x.exp(), 1),
    "log": (lambda x: x.ln() if x >= 0 else NAN, 1),
    "sqrt": (lambda x: x.sqrt() if x >= 0 else NAN, 1),
    "tanh": (decimal_tanh, 1),
    "sigmoid": (lambda x: ONE / (ONE + (-x).exp()), 1),
    "softplus": (decimal_softplus, 1),
    "abs": (lambda x: abs(x), 1),
    "detach": (lambda x: x, 1),
    "div": (lambda a, b: a / b if b != 0 else NAN, 2),
    "power": (decimal_power, 2),
    "max": (lambda a, b: a if b < a else b, 2),
    "lt": (lambda a, b: a < b, 2),
    "le": (lambda a, b: a <= b, 2),
    "eq": (lambda a, b: a == b, 2),
    "finite": (lambda x: x.is_finite(), 1),
}


def decimals():
    """Decimals of the digits of the context."""
    return Objects(decimal_of, DECIMAL)


class Dual:
    """A value and its slope along one direction: the independent judge of reverse mode."""

    __slots__ = ("v", "d")

    def __init__(self, v, d=ZERO):
        self.v, self.d = v, d

    def __add__(self, other):
        if isinstance(other, Dual):
            return Dual(self.v + other.v, self.d + other.d)
        return self if type(other) is int and other == 0 else NotImplemented

    __radd__ = __add__  # a sum begins with 0

    def __sub__(self, other):
        return Dual(self.v - other.v, self.d - other.d) if isinstance(other, Dual) else NotImplemented

    def __mul__(self, other):
        if not isinstance(other, Dual):
            return NotImplemented
        # A slope that is exactly zero is one of a constant: it stays zero beside what is not finite.
        left = self.d * other.v if self.d else ZERO
        return Dual(self.v * other.v, left + (self.v * other.d if other.d else ZERO))

    def __neg__(self):
        return Dual(-self.v, -self.d)


def chain(name, slope):
    f = DECIMAL[name][0]

    def g(x):
        y = f(x.v)
        return Dual(y, x.d * slope(x.v, y) if x.d else ZERO)

    return g, 1


def dual_quotient(a, b):
    if b.v == 0:
        return Dual(NAN)
    y = a.v / b.v
    return Dual(y, (a.d - y * b.d) / b.v)


def dual_power(x, n):
    n = int(n)
    slope = x.d * n * decimal_power(x.v, n - 1) if x.d and n else ZERO
    return Dual(decimal_power(x.v, n), slope)


DUAL = {
    "exp": chain("exp", lambda x, y: y),
    "log": chain("log", lambda x, y: ONE / x),
    "sqrt": chain("sqrt", lambda x, y: ONE / (2 * y)),
    "tanh": chain("tanh", lambda x, y: 1 - y * y),
    "sigmoid": chain("sigmoid", lambda x, y: y * (1 - y)),
    "softplus": chain("softplus", lambda x, y: DECIMAL["sigmoid"][0](x)),
    "abs": (lambda x: -x if x.v < 0 else x if x.v > 0 else Dual(x.v), 1),
    "detach": (lambda x: Dual(x.v), 1),
    "div": (dual_quotient, 2),
    "power": (dual_power, 2),
    "max": (lambda a, b: a if b.v < a.v else b, 2),
    "lt": (lambda a, b: a.v < b.v, 2),
    "le": (lambda a, b: a.v <= b.v, 2),
    "eq": (lambda a, b: a.v == b.v, 2),
    "finite": (lambda x: x.v.is_finite() and x.d.is_finite(), 1),
}


def duals():
    """Dual numbers on decimals."""
    return Objects(lambda x: x if isinstance(x, Dual) else Dual(decimal_of(x)), DUAL)
