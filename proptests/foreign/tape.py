"""Reverse-mode differentiation of NumPy arrays, with the operands of products rounded as kernels round them."""
import numpy as np


def to_fraction(bits):
    """Rounding of fp32 to a fraction of so many bits, ties to even."""
    low = 23 - bits

    def rounded(x):
        word = np.ascontiguousarray(x).view(np.uint32)
        word = (word + np.uint32((1 << low - 1) - 1) + (word >> low & 1)) & np.uint32(-1 << low & 0xFFFFFFFF)
        return np.where(np.isfinite(x), word.view(np.float32), x)

    return rounded


def to_half(x):
    """Rounding of fp32 to fp16; what is too large is infinite."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


ROUNDINGS = {"bf16": to_fraction(7), "tf32": to_fraction(10), "fp16": to_half, "fp32": lambda x: x, "fp64": lambda x: x}


def turned(x):
    """The transposed matrices."""
    return np.swapaxes(x, -1, -2)


def fitted(gradient, shape):
    """The sum over the axes along which a value of that shape was repeated."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    return gradient.sum(tuple(i for i, n in enumerate(shape) if n == 1 and gradient.shape[i] != 1), keepdims=True)


class Tape:
    """Values in the order in which they came to be. `operands`: the format that operands of products are rounded to."""

    def __init__(self, operands):
        self.round, self.values = ROUNDINGS[operands], []
        self.dtype = np.float64 if operands == "fp64" else np.float32

    def put(self, value, parents=(), back=None):
        """A value; `back` maps its gradient to those of its parents, in place of one to (index, that of parent[index])."""
        self.values.append(Value(self, np.asarray(value, self.dtype), parents, back))
        return self.values[-1]

    def pull(self):
        """Hands the gradients that were given to values down to what they were made of."""
        for value in reversed(self.values):
            if value.gradient is not None and value.back:
                for parent, gradient in zip(value.parents, value.back(value.gradient)):
                    if isinstance(parent, Value):
                        parent.give(*gradient) if isinstance(gradient, tuple) else parent.give(..., gradient)


def elementwise(function, back):
    """An operation on two operands, arrays and numbers among them, from its partial gradients."""

    def operation(a, b):
        tape = a.tape if isinstance(a, Value) else b.tape
        x, y = (p.value if isinstance(p, Value) else np.asarray(p, tape.dtype) for p in (a, b))
        return tape.put(function(x, y), (a, b), lambda g: [fitted(d, z.shape) for d, z in zip(back(g, x, y), (x, y))])

    return operation


class Value:
    """An array on a tape; `gradient` is None until something gives it one."""

    __array_ufunc__ = None  # arrays leave their operators to ours

    def __init__(self, tape, value, parents, back):
        self.tape, self.value, self.parents, self.back, self.gradient = tape, value, parents, back, None

    shape = property(lambda self: self.value.shape)

    def give(self, index, gradient):
        """Adds to the gradient there."""
        if self.gradient is None:
            self.gradient = np.zeros_like(self.value)
        self.gradient[index] += gradient

    def of(self, value, back):
        """A value made of this one alone."""
        return self.tape.put(value, (self,), lambda g: [back(g)])

    __add__ = __radd__ = elementwise(np.add, lambda g, x, y: (g, g))
    __mul__ = __rmul__ = elementwise(np.multiply, lambda g, x, y: (g * y, g * x))
    __sub__ = elementwise(np.subtract, lambda g, x, y: (g, -g))
    __truediv__ = elementwise(np.divide, lambda g, x, y: (g / y, -g * x / (y * y)))

    __rsub__ = lambda self, other: Value.__sub__(other, self)
    __rtruediv__ = lambda self, other: Value.__truediv__(other, self)
    __matmul__ = lambda self, other: product(self, other, self.tape.round)
    __getitem__ = lambda self, index: self.of(self.value[index], lambda g: (index, g))

    def exp(self):
        y = np.exp(self.value)
        return self.of(y, lambda g: g * y)

    def log(self):
        return self.of(np.log(self.value), lambda g: g / self.value)

    def sum(self, axis):
        return self.of(self.value.sum(axis), lambda g: np.expand_dims(g, axis))

    def cumsum(self):
        """Running sums over the tokens, axis 1."""
        return self.of(np.cumsum(self.value, 1), lambda g: np.cumsum(g[:, ::-1], 1)[:, ::-1])

    def turned(self):
        return self.of(turned(self.value), turned)

    def reshape(self, *shape):
        return self.of(self.value.reshape(shape), lambda g: g.reshape(self.shape))

    def where(self, mask):
        """Zero where the mask is false."""
        return self.of(np.where(mask, self.value, 0), lambda g: np.where(mask, g, 0))


def product(a, b, rounding=lambda x: x):
    """Products of matrices, summed in the tape's dtype."""
    x, y = rounding(a.value), rounding(b.value)

    def back(g):
        g = rounding(g)
        return fitted(g @ turned(y), x.shape), fitted(turned(x) @ g, y.shape)

    return a.tape.put(x @ y, (a, b), back)


def stack(values, axis):
    """Values along a new axis."""
    return values[0].tape.put(np.stack([v.value for v in values], axis), values, lambda g: np.moveaxis(g, axis, 0))


def concatenate(values, axis):
    """Values one after the other along an axis."""
    ends = np.cumsum([v.shape[axis] for v in values])[:-1]
    return values[0].tape.put(np.concatenate([v.value for v in values], axis), values, lambda g: np.split(g, ends, axis))


def substituted(a, b):
    """(1 + a)^-1 b by forward substitution; a is strictly lower triangular."""
    x = np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:]))
    for i in range(1, x.shape[-2]):
        x[..., i, :] -= (a[..., i : i + 1, :i] @ x[..., :i, :])[..., 0, :]
    return x


def by_factors(a, b):
    """a^-1 b from Cholesky's factor."""
    factor = np.linalg.inv(np.linalg.cholesky(a))
    return turned(factor) @ (factor @ b)


def solve(a, b, method):
    """a^-1 b; the gradient solves with the transposed matrix."""
    x = method(a.value, b.value)

    def back(g):
        if method is substituted:
            d = substituted(turned(a.value)[..., ::-1, ::-1], g[..., ::-1, :])[..., ::-1, :]
            return np.tril(-d @ turned(x), -1), d
        d = method(turned(a.value), g)
        return -d @ turned(x), d

    return a.tape.put(x, (a, b), back)
