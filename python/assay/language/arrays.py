"""The functions of the language on ordinary arrays, numpy's and torch's, so that a mechanism runs beside its author's code."""
import contextlib
import fractions
import importlib
import math

runs = []  # of mechanisms on arrays, the innermost last


class Run:
    """One run: the lengths of axes, and the module whose arrays it is about."""

    def __init__(self, lengths, like):
        self.lengths, self.like, self.module = lengths, like, module_of(like)

    def truth(self, x):
        """A truth value that ~ negates; of Python's own it makes an integer."""
        return self.module.asarray(x, dtype=self.module.bool if self.module.__name__ == "torch" else bool)

    def iota(self, axis):
        options = {"device": self.like.device} if self.module.__name__ == "torch" else {}
        return self.module.arange(self.length(axis), **options)

    def length(self, axis):
        return axis if isinstance(axis, int) else self.lengths[axis]

    def full(self, axes, x):
        options = {"device": self.like.device} if self.module.__name__ == "torch" else {}
        return self.module.full(tuple(map(self.length, axes)), float(x), dtype=self.like.dtype, **options)


@contextlib.contextmanager
def running(lengths, like):
    run = Run(lengths, like)
    runs.append(run)
    try:
        with run.module.errstate(all="ignore") if run.module.__name__ == "numpy" else contextlib.nullcontext():
            yield run  # numpy warns of what is not selected, too
    finally:
        runs.pop()


def module_of(x):
    """numpy or torch; for plain numbers the module of the run."""
    if type(x).__module__.split(".")[0] == "torch":
        return importlib.import_module("torch")
    if isinstance(x, (bool, int, float, str, fractions.Fraction)) and runs:
        return runs[-1].module
    return importlib.import_module("numpy")


def number(x):
    """A number written as a text or a fraction as the nearest double; anything else as it is."""
    if isinstance(x, str):
        x = fractions.Fraction(x)
    return float(x) if isinstance(x, fractions.Fraction) else x


def as_array(x, like):
    m = module_of(like)
    return x if hasattr(x, "shape") else m.full_like(like, number(x))


def unary(name, x):
    if isinstance(x, (int, float)):
        return -math.inf if name == "log" and x == 0 else getattr(math, name)(x)
    return getattr(module_of(x), name)(x)


def sigmoid(x):
    return 1 / (1 + unary("exp", -x))


def softplus(x):
    m = module_of(x)
    return m.where(x > 0, x, 0) + m.log1p(m.exp(-abs(x)))


def detach(x):
    return x.detach() if hasattr(x, "detach") else x


def where(c, a, b):
    m = module_of(c)
    if isinstance(c, bool):
        return a if c else b
    a, b = number(a), number(b)
    if not hasattr(a, "shape") and not hasattr(b, "shape"):  # of the run's own kind of number, not integers
        like = runs[-1].like if runs else m.zeros(1)
        a, b = (m.asarray(float(x), dtype=like.dtype) for x in (a, b))
    return m.where(c, a, b)


def maximum(a, b):
    like = a if hasattr(a, "shape") else b
    return module_of(like).maximum(as_array(a, like), as_array(b, like)) if hasattr(like, "shape") else max(a, b)


def shift(x, by):
    """Row t is row t - by of x, or zero."""
    out, n = module_of(x).zeros_like(x), len(x)
    if abs(by) < n:
        out[max(by, 0) : n + min(by, 0)] = x[max(-by, 0) : n - max(by, 0)]
    return out


def flipped(x):
    return x.flip(0) if hasattr(x, "flip") else x[::-1]


def cumsum(x, reverse):
    return flipped(flipped(x).cumsum(0)) if reverse else x.cumsum(0)


def weights(scores, visible):
    """exp of the visible scores over their largest, and that."""
    m = module_of(scores)
    scores, visible = m.broadcast_tensors(scores, visible) if m.__name__ == "torch" else m.broadcast_arrays(scores, visible)
    low = m.where(visible, scores, -math.inf)
    top = low.max(-1) if low.shape[-1] else m.zeros(low.shape[:-1], dtype=low.dtype)
    top = getattr(top, "values", top)
    top = m.where(m.isfinite(top), top, m.zeros_like(top))
    return m.exp(low - top[..., None]), top


def softmax(scores, visible):
    w, _ = weights(scores, visible)
    total = w.sum(-1)[..., None]
    return w / module_of(w).where(total > 0, total, 1 + 0 * total)


def logsumexp(scores, visible):
    w, top = weights(scores, visible)
    m = module_of(w)
    if m.__name__ == "torch":
        return m.log(w.sum(-1)) + top
    with m.errstate(divide="ignore"):
        return m.log(w.sum(-1)) + top


def solve(A, b):
    vector = len(b.shape) < len(A.shape)
    x = module_of(A).linalg.solve(A, b[..., None] if vector else b)
    return x[..., 0] if vector else x


def stacked(rows, like):
    m = module_of(like)
    return m.stack([as_array(r, like.sum()) for r in rows])


def scan(step, init, xs, reverse):
    """The step over rows, in a Python loop. Rows come back as they went in, whatever the direction."""
    state, rows, n = init, [], len(xs[0])
    for t in reversed(range(n)) if reverse else range(n):
        state, row = step(state, *[x[t] for x in xs])
        rows.append(row)
    if not n:  # the shapes of rows, from a row of zeros
        rows = [step(state, *[module_of(x).zeros(x.shape[1:], dtype=x.dtype) for x in xs])[1]]
    rows = rows[::-1] if reverse else rows
    if rows[0] is None:
        return state, None
    return state, tuple(stacked(r, xs[0])[:n] for r in zip(*rows)) if isinstance(rows[0], tuple) else stacked(rows, xs[0])[:n]
