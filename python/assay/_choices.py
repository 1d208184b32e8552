"""assay.check_choice: whether a top-k, a choice of blocks or of experts is one that a right kernel may make."""
import dataclasses

import numpy

from ._arrays import doubles, tensor_of
from ._calls import first_run, frameworks_of
from ._cases import errors_in_python
from ._checks import Mismatch, judge
from ._kernels import arguments
from ._native import InputError
from ._reports import Found
from ._truth import as_case, oracle

# Outputs of a program of scores that say, by 1 and 0, which candidates may be chosen and which must be.
SEEN, FORCED = "seen", "forced"
SHOWN = 10


@dataclasses.dataclass
class Row:
    """One thing that is wrong with the choice of a row. at: the row's index; key: the candidate; entry: the one in whose place it should
    be; margin: by how much its exact score is higher; sigma: how far both scores' difference spreads; limit: what both may err."""

    kind: str
    at: tuple
    key: int
    said: str
    entry: int | None = None
    margin: float | None = None
    sigma: float | None = None
    limit: float | None = None

    @property
    def sigmas(self):
        """The margin in sigma; None where right scores do not spread, or there is none."""
        return self.margin / self.sigma if self.margin is not None and self.sigma else None

    @property
    def page(self):
        """As programs read it."""
        return {**dataclasses.asdict(self), "at": list(self.at), "sigmas": self.sigmas}

    def __str__(self):
        return "".join(f"[{i}]" for i in self.at) + f": {self.said}"


class Choice(Found):
    """The verdict on a choice. str() is what people read, page what programs do; rows are what is wrong, in the order of the choice's rows;
    report is the judge's on the nearest scores by which it would be right, None where the exact ones do."""

    def __init__(self, case, name, count, most, width):
        self.case, self.name, self.count, self.most, self.width = case, name, count, most, width
        self.rows, self.report, self.verdict, self.looks_like = [], None, "PASS", ""

    @property
    def passed(self):
        """Whether a right kernel may choose so."""
        return self.verdict == "PASS"

    @property
    def wrong_rows(self):
        """How many rows have something wrong."""
        return len({row.at for row in self.rows})

    @property
    def page(self):
        """As programs read it."""
        return {"format": "assay-choice", "case": self.case.origin, "scores": self.name, "verdict": self.verdict, "passed": self.passed,
                "judged_rows": self.count, "wrong_rows": self.wrong_rows, "looks_like": self.looks_like,
                "rows": [row.page for row in self.rows]}  # fmt: skip

    def __str__(self):
        what = f"{self.verdict}  the choice of up to {self.most} of {self.width} by {self.name}"
        if self.verdict == "VACUOUS":
            return f"{what}: no row has a candidate that may be left out; a case with more candidates shows something"
        lines = [f"{what}: {self.wrong_rows} of {self.count} rows wrong" if self.rows else f"{what}: {self.count} rows"]
        lines += [f"  {row}" for row in self.rows[:SHOWN]]
        lines += [f"  and {len(self.rows) - SHOWN} more"] if len(self.rows) > SHOWN else []
        lines += [f"looks like {self.looks_like}"] if self.looks_like else []
        return "\n".join([*lines, *([f"case: {self.case.origin}"] if self.case.origin and self.rows else [])])


def check_choice(case, chosen, contract=None, *, length=None, k=None, inputs=None, params=None, precision=None, rename=None, arrays=None,
                 device=None, raises=True, **how):  # fmt: skip
    """Whether a choice is right (docs/guides/choices.md): a Choice, raised as an AssertionError unless it is PASS.

    case is one of a program whose output, [B, T, H, N], is the score of every candidate, or its name beside inputs={"q": ...}. Outputs `seen`
    and `forced` of that program are 1 where a candidate may be chosen, and where it must be. chosen has indices [B, T, H, k], or [B, T, k]
    of one head, -1 for none; or it is a function that gives them, alone or with lengths. length [B, T, H] says how many entries of a row
    count, k how many there should be: as many as chosen is wide, or as candidates are seen.

    A choice is wrong where a candidate left out has an exact score above a chosen one's by more than what both may err, as the judge derives
    it for precision ("fp32": products and sums of the inputs as they are). The rest is what assay.judge takes.
    """
    __tracebackhide__ = True
    case = as_case(case, inputs, params).forward()
    if callable(chosen):
        chosen, length = called(case, chosen, dict(rename or {}), arrays, device, length)
    scores = Scores(case)
    entries = Entries(scores, chosen, length, k)
    found = Choice(case, scores.name, len(entries.chosen), int(entries.wanted.max(initial=0)), scores.exact.shape[1])
    entries.refuse(found.rows)
    wide = "fp64" if any(case.tensors[name][0] == "F64" for name in case.inputs) else "fp32"
    weigh(found, scores, entries, {"contract": contract, "precision": precision or wide, **how})
    if not (entries.seen.sum(1) > entries.wanted).any() and not found.rows:
        found.verdict = "VACUOUS"
    found.rows.sort(key=lambda row: row.at)
    if raises and not found.passed:
        raise Mismatch(found)
    return found


def called(case, kernel, rename, arrays, device, length):
    """The choice of a function, and the lengths that it gives or that it was called with."""

    def run(framework):
        tensors, settings = arguments(case, kernel, rename)
        given = {theirs: case.array(ours, framework, device if framework == "torch" else None) for theirs, ours in tensors.items()}
        result = kernel(**given, **settings)
        return result if isinstance(result, (tuple, list)) else (result,)

    (chosen, *rest), _ = first_run(run, frameworks_of(case, kernel, arrays, device))
    return chosen, rest[0] if rest else length


def integers(x, name):
    """An array's whole numbers, on the CPU."""
    x = x.detach().cpu() if hasattr(x, "detach") else x
    a = numpy.asarray(x)
    if a.dtype.kind not in "iu":
        raise InputError(f"{name}: expected whole numbers, got {a.dtype.name}")
    return a.astype(numpy.int64)


class Scores:
    """The exact scores of every candidate: [rows, N], with more digits than a double has; which are seen, and which must be chosen."""

    def __init__(self, case):
        with errors_in_python():
            self.truth = oracle(case)
        names = [name for name in self.truth if name not in (SEEN, FORCED)]
        if len(names) != 1:
            raise InputError(f"{case.mechanism}: expected one output beside {SEEN} and {FORCED}, the scores; it answers {', '.join(names)}")
        self.case, (self.name,) = case, names
        self.shape = self.truth[self.name].hi.shape
        if len(self.shape) != 4:
            raise InputError(f"{self.name}: expected scores [B, T, H, N], a row for every token, got {list(self.shape)}")
        self.exact = self.rows(self.truth[self.name].hi).astype(numpy.longdouble) + self.rows(self.truth[self.name].lo)

    def rows(self, array):
        return array.reshape(-1, self.shape[-1])

    def marks(self, name, otherwise):
        """The marks of every candidate by an output of 1 and 0."""
        if name not in self.truth:
            return numpy.full(self.exact.shape, otherwise)
        if self.truth[name].hi.shape != self.shape:
            raise InputError(f"{name}: expected {list(self.shape)}, as {self.name} is, got {list(self.truth[name].hi.shape)}")
        return self.rows(self.truth[name].hi) > 0

    def judged(self, nearest, how):
        """The judge's report on other scores."""
        values = {name: x.hi for name, x in self.truth.items()} | {self.name: nearest.reshape(self.shape)}
        kind = numpy.float64 if how["precision"] == "fp64" else numpy.float32
        return judge(self.case, {name: x.astype(kind) for name, x in values.items()}, tensors=[self.name], **{"quick": True, **how})


class Entries:
    """A choice row by row: which entries count, which candidates they name."""

    def __init__(self, scores, chosen, length, k):
        chosen, n = integers(chosen, "chosen"), scores.exact.shape[1]
        lead = scores.shape[:-1]
        if chosen.shape[:-1] not in (lead, lead[:2]) or chosen.shape[:-1] == lead[:2] and lead[2] != 1:
            raise InputError(f"chosen: expected {[*lead, 'k']}, as {scores.name} is {list(scores.shape)}, got {list(chosen.shape)}")
        self.lead, self.chosen = chosen.shape[:-1], chosen.reshape(-1, chosen.shape[-1])
        rows, width = self.chosen.shape
        self.seen, self.forced = scores.marks(SEEN, True), scores.marks(FORCED, False)
        self.length = numpy.full(rows, width) if length is None else self.numbers(length, "length")
        self.wanted = numpy.minimum(width if k is None else self.numbers(k, "k"), self.seen.sum(1))
        self.beyond = (numpy.arange(width) >= self.length[:, None]) & (self.chosen != -1)
        inside = (numpy.arange(width) < self.length[:, None]) & (self.chosen != -1)
        self.outside = inside & ((self.chosen < 0) | (self.chosen >= n))
        self.times = numpy.zeros((rows, n), int)
        row, entry = numpy.nonzero(inside & ~self.outside)
        numpy.add.at(self.times, (row, self.chosen[row, entry]), 1)
        self.picked = (self.times > 0) & self.seen
        # Candidates that must be chosen are not compared with others.
        self.low, self.left = self.picked & ~self.forced, self.seen & ~self.picked & ~self.forced
        crowded = numpy.flatnonzero((self.forced & self.seen).sum(1) > self.wanted)
        if crowded.size:
            raise InputError(f"{FORCED}: row {self.at(crowded[0])} has more candidates that must be chosen than k = {self.wanted[crowded[0]]}")

    def numbers(self, x, name):
        """A number for every row."""
        a = integers(x, name)
        if a.shape not in ((), self.lead, (*self.lead, 1)):
            raise InputError(f"{name}: expected {list(self.lead)}, a number for every row, got {list(a.shape)}")
        return numpy.broadcast_to(a.reshape(-1), len(self.chosen))

    def at(self, row):
        return tuple(int(i) for i in numpy.unravel_index(row, self.lead))

    def refuse(self, rows):
        """Rows of what is wrong whatever the scores are."""
        for r, e in numpy.argwhere(self.beyond):
            rows.append(Row("beyond_length", self.at(r), int(self.chosen[r, e]), f"entry {e} is {self.chosen[r, e]}, and only {self.length[r]} count"))
        for r, e in numpy.argwhere(self.outside):
            rows.append(Row("out_of_range", self.at(r), int(self.chosen[r, e]), f"entry {e} is {self.chosen[r, e]} of {self.seen.shape[1]} candidates"))
        for r, key in numpy.argwhere(self.times > 1):
            rows.append(Row("duplicate", self.at(r), int(key), f"{key} is chosen {self.times[r, key]} times"))
        for r, key in numpy.argwhere((self.times > 0) & ~self.seen):
            rows.append(Row("not_seen", self.at(r), int(key), f"{key} is chosen, and may not be seen"))
        for r, key in numpy.argwhere(self.forced & self.seen & ~self.picked):
            rows.append(Row("missing", self.at(r), int(key), f"{key} is left out, and must be chosen"))
        many = self.picked.sum(1)
        for r in numpy.flatnonzero(many > self.wanted):
            rows.append(Row("too_many", self.at(r), int(self.chosen[r, -1]), f"{many[r]} are chosen in place of {self.wanted[r]}"))


def weigh(found, scores, entries, how):
    """Rows of what scores do not allow, and the verdict."""
    exact, kept = scores.exact, found.rows[:]
    for r in numpy.flatnonzero((entries.picked.sum(1) < entries.wanted) & entries.left.any(1)):
        key, lost = int(largest(exact, entries.left)[r]), int(entries.wanted[r] - entries.picked[r].sum())
        said = f"{key} is left out, whose score {float(exact[r, key]):.6g} is the best of {lost} for which there are places"
        found.rows.append(Row("missing", entries.at(r), key, said))
    found.verdict = "FAIL" if found.rows else "PASS"
    doubtful = crossed(exact, entries) & (entries.picked.sum(1) >= entries.wanted)
    if not doubtful.any():
        return
    # The nearest scores by which the choice is right: whether a right kernel may have them is the judge's to say. Limits say where they are
    # nearest, and are known once some have been judged.
    limit = numpy.zeros(exact.shape)
    for _ in range(2):
        found.report = scores.judged(nearest(exact, entries, limit), how)
        expected = found.report.expected(scores.name)
        limit, sigma = scores.rows(expected.limit), scores.rows(expected.sigma)
    apart = [missing(r, exact, entries, limit, sigma) for r in numpy.flatnonzero(doubtful)]
    apart = [row for row in apart if row is not None]
    if apart:
        found.rows += apart
        found.looks_like = "" if kept else rounded(exact, entries)
        worse = found.report[scores.name]["verdict"]
        found.verdict = "FAIL" if "FAIL" in (found.verdict, worse) else "UNDECIDED"


def largest(values, among):
    """The place of the largest value among those, for each row."""
    return numpy.where(among, values, -numpy.inf).argmax(1)


def crossed(values, entries):
    """The rows in which a candidate left out has a larger value than one that is chosen."""
    return numpy.where(entries.left, values, -numpy.inf).max(1) > numpy.where(entries.low, values, numpy.inf).min(1)


def nearest(exact, entries, limit):
    """The scores moved as little as makes the choice right, in units of what each may err: up to one threshold, down to it."""
    low = numpy.where(entries.left, exact - limit, -numpy.inf).max(1)
    high = numpy.where(entries.low, exact + limit, numpy.inf).min(1)
    with numpy.errstate(invalid="ignore"):  # of rows that choose all or nothing
        threshold = numpy.where(crossed(exact, entries), (low + high) / 2, numpy.nan)[:, None]
    moved = numpy.where(entries.left & (exact > threshold), threshold, exact)
    return numpy.where(entries.low & (exact < threshold), threshold, moved)


def missing(r, exact, entries, limit, sigma):
    """The row of the candidate that is most surely left out of row r; None where what both scores may err allows it."""
    key = int(numpy.where(entries.left[r], exact[r] - limit[r], -numpy.inf).argmax())
    entry = int(numpy.where(entries.low[r], exact[r] + limit[r], numpy.inf).argmin())
    margin, both = float(exact[r, key] - exact[r, entry]), float(limit[r, key] + limit[r, entry])
    if margin <= both:
        return None
    others = int((entries.left[r] & (exact[r] - limit[r] > exact[r, entry] + limit[r, entry])).sum()) - 1
    spread = float(numpy.hypot(sigma[r, key], sigma[r, entry]))
    by = f"{margin / spread:.4g} sigma, limit {both / spread:.4g}" if spread else f"where right scores have no error beyond {both:.3g}"
    said = f"{key} is left out and {entry} chosen: scores {float(exact[r, key]):.6g} and {float(exact[r, entry]):.6g}, {by}"
    said += f"; {others} more left out like it" if others else ""
    return Row("missing", entries.at(r), key, said, entry, margin, spread, both)


def rounded(exact, entries):
    """The likely cause where scores in bf16 explain every row. They explain scores in fp16, too, which have more digits."""
    coarse = doubles(tensor_of(exact.astype(numpy.float32), "BF16"))
    return "" if crossed(coarse, entries).any() else "scores rounded before the choice, as to bf16"
