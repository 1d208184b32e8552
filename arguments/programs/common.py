"""What attention forms share: the scores of a row with everything that changes them, and the keys it sees (docs/arguments.md).

`@attention(q="T K", ...)` declares a form's own inputs beside those of `SCORES`; the form gets them as one object, `scores`.
"""
import importlib.util
import inspect
import os

from assay.language import iota, log, mechanism, size, tanh, where

MECHANISMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "mechanisms", "common.py")
spec = importlib.util.spec_from_file_location("mechanisms_common", MECHANISMS)
mechanisms = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mechanisms)
by_token, diagonal, largest = mechanisms.by_token, mechanisms.diagonal, mechanisms.largest

SCORES = {
    "scale": " : scale", "soft_cap": "param = 0", "bias": "T S : logit = 0", "before_cap": "bool = false", "before_scale": "bool = false",
    "alibi_slopes": " : weight = 0", "signed": "bool = false", "mask": "T S = 1", "documents_q": "T = 0", "documents_k": "S = 0",
    "from_start": "bool = false", "window_left": "int = -1", "window_right": "int = -1", "base_2": "bool = false",
}  # fmt: skip


class Scores:
    """s_ij and which j row i sees. soft_cap 0: none; a window of -1 ends nowhere; where mask is 0 nothing is seen."""

    def __init__(self, **inputs):
        self.__dict__.update(inputs)

    def rows(self):
        """What a form scans over its queries beside its own tensors; a step hands it to `of` and `lse`."""
        return self.bias, self.mask, self.documents_q, iota("T")

    def of(self, x, bias, mask, document, i):
        """Scores and visibility of a row from its products x_j = q.k_j."""
        j = iota("S")
        from_start, from_end = i - j, i + (size("S") - size("T")) - j  # integers: no arithmetic rounds what a row sees
        distance = where(self.from_start, from_start, from_end)
        b = bias - self.alibi_slopes * where(self.signed, distance, abs(distance))
        s = self.scale * (x + where(self.before_scale, b, 0)) + where(self.before_cap, b, 0)
        s = where(0 < self.soft_cap, self.soft_cap * tanh(s / self.soft_cap), s) + where(self.before_scale | self.before_cap, 0, b)
        near = (self.from_start & self.within(from_start)) | (~self.from_start & self.within(from_end))
        return s, (0 < mask) & (document == self.documents_k) & near

    def within(self, distance):
        """Whether the windows reach that far."""
        left = (self.window_left < 0) | (distance <= self.window_left)
        return left & ((self.window_right < 0) | (0 <= distance + self.window_right))

    def lse(self, total, seen):
        """lse as asked for, of a row whose natural one is `total`, and 1 where it is -inf: there the first of them is 0."""
        some = 0 < where(seen, 1, 0).sum()
        return where(some, self.in_base(total), 0), where(some, 0, 1)

    def in_base(self, total):
        return where(self.base_2, total / log(2), total)


def attention(**declared):
    """The decorator of a form: a mechanism whose function is called with `scores` in place of the inputs of SCORES."""

    def wrap(form):
        def function(**given):
            return form(scores=Scores(**{name: given.pop(name) for name in SCORES}), **given)

        own = [p for p in inspect.signature(form).parameters.values() if p.name != "scores"]
        shared = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in SCORES]
        keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        function.__signature__ = inspect.Signature(keyword + shared)
        function.__code__ = function.__code__.replace(co_filename=form.__code__.co_filename)  # it is the form's file that defines it
        function.__name__, function.__doc__ = form.__name__, form.__doc__
        return mechanism(**declared, **SCORES)(function)

    return wrap
