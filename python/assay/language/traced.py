"""A traced array: arithmetic on it becomes nodes, everything else says why it cannot."""
from fractions import Fraction

from .errors import MechanismError, shown
from .scope import elementwise, emit, integer, lift, number_type

BRANCH = 'an "if", "and", "or", "not" or "while" depends on data: use where(c, a, b), and & | ~ for conditions'
UNKNOWN = "float(), int() or an index of a traced array: its numbers are not known while the function is read"
FOREIGN = "a numpy function was called on a traced array: use exp, where, outer, scan, ... of assay.language"
LENGTH = 'the length of an axis is not known while the function is read: use size("T")'
LOOP = "a Python loop over an axis of unknown length: use scan for tokens"
IN_PLACE = "an array is changed in place: give the new value a name, S = S + ... or S = where(...)"


def refuse(why):
    def method(self, *_, **__):
        raise MechanismError(why)

    return method


def beside(x, a):
    """A written integer among integers is one."""
    return integer(x) if type(x) is int and a.type.kind == "int" else x


class Value:
    """A value of a scope, known by its type alone."""

    is_traced_value = True
    __array_priority__ = 1000

    def __init__(self, scope, id):
        self.scope, self.id, self.type = scope, id, scope.block.type(id)

    shape = property(lambda self: self.type.shape)
    ndim = property(lambda self: len(self.type.shape))
    T = property(lambda self: emit("transpose", self, perm=list(range(self.ndim))[::-1]))

    __bool__ = refuse(BRANCH)
    __float__ = __int__ = __index__ = __complex__ = refuse(UNKNOWN)
    __array__ = __array_ufunc__ = __array_function__ = refuse(FOREIGN)
    __torch_function__ = classmethod(refuse(FOREIGN.replace("numpy", "torch")))
    __setitem__ = __delitem__ = refuse(IN_PLACE)
    __contains__ = refuse(BRANCH)
    __hash__ = object.__hash__

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise MechanismError(f"a traced array has no {shown(name)}: it has shape, T, sum(axis), and the functions of assay.language")

    def __repr__(self):
        return f"a traced [{self.type}]"

    def __len__(self):
        if self.ndim and type(self.shape[0]) is int:
            return self.shape[0]
        raise MechanismError(LENGTH)

    def __iter__(self):
        if self.ndim and type(self.shape[0]) is int:
            return iter([self[i] for i in range(self.shape[0])])
        raise MechanismError(LOOP)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if keys.count(Ellipsis) == 1:  # as many : as are left
            at, taken = keys.index(Ellipsis), sum(k is not None for k in keys) - 1
            keys = keys[:at] + (slice(None),) * (self.ndim - taken) + keys[at + 1 :]
        v, axis = self, 0
        for k in keys:
            if k is None:
                v, axis = emit("expand", v, at=axis, size=1), axis + 1
            elif isinstance(k, slice) and k == slice(None):
                axis += 1
            elif type(k) is int:
                n = v.shape[axis] if axis < v.ndim else None
                v = emit("index", v, axis=axis, i=k + n if k < 0 and type(n) is int else abs(k))
            else:
                raise MechanismError(
                    f"index {shown(k)}: only None, : and integers into axes of a written length; tokens are reached by scan and shift"
                )
        if axis > v.ndim:
            raise MechanismError(f"an index of {len(keys)} places into [{self.type}]")
        return v

    def sum(self, axis=None):
        if axis is None and self.ndim > 1:
            raise MechanismError(f"sum: [{self.type}] has {self.ndim} axes: say along which, sum(-1) is the last")
        axis = -1 if axis is None else axis
        if not -self.ndim <= axis < self.ndim:
            raise MechanismError(f"sum: [{self.type}] has no axis {axis}")
        return emit("sum", self, axis=axis % self.ndim)

    def __matmul__(self, other):
        return matmul(self, lift(other))

    def __pow__(self, n):
        if type(n) in (float, str, Fraction):
            raise MechanismError(f"pow: the exponent {n!r} is no integer: use sqrt(x), or exp(y * log(x))")
        return elementwise("pow", number_type(self), integer(n) if type(n) is int else n)

    __rpow__ = lambda self, base: elementwise("pow", base, self)
    __neg__ = lambda self: elementwise("neg", self)
    __pos__ = lambda self: self
    __abs__ = lambda self: elementwise("abs", number_type(self))
    __invert__ = lambda self: elementwise("not", self)
    __ne__ = lambda self, other: ~(self == other)
    __gt__ = lambda self, other: elementwise("lt", beside(other, self), self)
    __ge__ = lambda self, other: elementwise("le", beside(other, self), self)
    __truediv__ = lambda self, other: elementwise("div", number_type(self), number_type(other))
    __rtruediv__ = lambda self, other: elementwise("div", other, number_type(self))


def matmul(a, b):
    """numpy's @ for vectors and matrices."""
    if a.ndim not in (1, 2) or b.ndim not in (1, 2):
        raise MechanismError(f"@ takes vectors and matrices, not [{a.type}] and [{b.type}]: use contract")
    left, right = ("a", "xa")[a.ndim - 1], ("a", "ay")[b.ndim - 1]
    return emit("contract", a, b, spec=f"{left},{right}->{left[:-1]}{right[1:]}")


def add_operator(op, names):
    setattr(Value, names[0], lambda a, b: elementwise(op, a, beside(b, a)))
    for reflected in names[1:]:
        setattr(Value, reflected, lambda a, b: elementwise(op, beside(b, a), a))


for operation in ("add", "sub", "mul", "and", "or"):
    add_operator(operation, (f"__{operation}__", f"__r{operation}__"))
for operation in ("lt", "le", "eq"):
    add_operator(operation, (f"__{operation}__",))
