"""How far two answers are apart, beside how far two right kernels may be."""
import numpy

from ._arrays import differs, doubles, first_difference
from ._bits import place
from ._native import InputError
from ._sequences import TOKENS


def errors_of(values, expected):
    """The distance of every element from its expected value."""
    with numpy.errstate(invalid="ignore"):
        return numpy.abs((values - expected.value) - expected.lo)


def ratio(off, allowed):
    """off / allowed; 0 where both are none, and infinite where only what is allowed is, or what is off is no number."""
    with numpy.errstate(divide="ignore", invalid="ignore"):
        found = numpy.where(off == 0, 0.0, off / allowed)
    return numpy.where(numpy.isnan(found), numpy.inf, found)


def expected_of(report, name):
    """The expectation that a tensor was judged by; None where there was none."""
    try:
        return report.expected(name)
    except InputError:
        return None


class Apart:
    """Two answers' tensor of one name: whether its bits are the same, and how far it is apart in units of what both may err."""

    def __init__(self, name, a, b, expected, case, judged=None):
        """expected: what is expected of either answer, an Expectation or None."""
        self.name, self.same = name, a[:2] == b[:2] and not differs(a, b, judged)
        self.most, self.at, self.by_token, self.wrong_from = 0.0, "", None, None
        if self.same:
            return
        if a[1] != b[1]:
            self.most, self.at = numpy.inf, f"another shape: {list(b[1])}, and not {list(a[1])}"
            return
        self.at = place(name, first_difference(a, b, judged)[0]) if a[0] == b[0] else f"another dtype: {b[0]}, and not {a[0]}"
        if any(one is None for one in expected):
            self.most = numpy.nan
            return
        seen = numpy.ones(a[1], bool) if judged is None else numpy.frombuffer(judged, bool).reshape(a[1])
        with numpy.errstate(invalid="ignore"):
            off = numpy.where(seen, numpy.abs(doubles(a) - doubles(b)), 0)
        ratios = ratio(off, sum(one.limit for one in expected))
        self.most = float(ratios.max(initial=0.0))
        self.along(ratios, case)

    def along(self, ratios, case):
        """The distance token by token, of tensors that have tokens."""
        axis, shape = TOKENS[case.layout], case.tensors[next((name for name in ("q", "x") if name in case), case.inputs[0])][1]
        if self.name.startswith("final_") or ratios.ndim < 2 or axis >= ratios.ndim or ratios.shape[axis] != shape[axis]:
            return
        self.by_token = ratios.max(axis=tuple(i for i in range(ratios.ndim) if i != axis))
        beyond = numpy.flatnonzero(self.by_token > 1)
        self.wrong_from = int(beyond[0]) if beyond.size else None

    @property
    def growth(self):
        """p of a distance that grows as t^p, fitted to a doubling number of tokens at a time; None where too few differ."""
        if self.by_token is None:
            return None
        edges = [2**i - 1 for i in range(1, len(self.by_token).bit_length())] + [len(self.by_token)]
        means = [(numpy.log((a + b + 1) / 2), self.by_token[a:b].mean()) for a, b in zip(edges, edges[1:]) if b > a]
        points = [(t, numpy.log(x)) for t, x in means if 0 < x < numpy.inf]
        return float(numpy.polyfit(*zip(*points), 1)[0]) if len(points) >= 3 else None

    def row(self):
        """As programs read it."""
        return {"tensor": self.name, "same_bits": self.same, "apart": self.most if numpy.isfinite(self.most) else None, "where": self.at,
                "wrong_from_token": self.wrong_from, "grows": self.growth}  # fmt: skip

    def __str__(self):
        grows = f", growing as t^{self.growth:.1f}" if self.growth is not None and self.growth > 0 else ""
        return f"{self.name} {'' if numpy.isnan(self.most) else f'{self.most:.3g} '}apart{grows}, first at {self.at}"
