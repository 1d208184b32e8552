"""assay.pair: two kernels that should agree, each against the truth."""
import numpy

from ._apart import Apart, errors_of, expected_of, ratio
from ._arrays import doubles
from ._cases import Case
from ._checks import Mismatch, check, judge, tensors_of
from ._native import InputError
from ._reports import Found
from ._truth import oracle

NAMES = ("A", "B")


class Pair(Found):
    """Two answers to a case. str() is what people read, page what programs do; reports are the judge's, rows how far apart each tensor is,
    off how far of what it may be either is off."""

    def __init__(self, case, names, reports):
        self.case, self.names, self.reports = case, names, reports
        self.rows, self.off, self.logits = [], {}, None
        answers = [report.answer for report in reports]
        judged = case.asked().judged
        for name in (name for name in answers[0] if name in answers[1]):
            expected = [expected_of(report, name) for report in reports]
            self.rows.append(Apart(name, *(answer[name] for answer in answers), expected, case, judged.get(name)))
            self.off[name] = [off_by(answer[name], one, judged.get(name)) for answer, one in zip(answers, expected)]

    @property
    def wrong(self):
        """The names of those that are wrong."""
        return [name for name, report in zip(NAMES, self.reports) if not report.passed]

    @property
    def passed(self):
        """Whether neither is wrong."""
        return not self.wrong

    @property
    def first(self):
        """The tensor in which they are first further apart than both may err, and the token: the smallest of any output's."""
        beyond = [(one.name.startswith("d_"), one.wrong_from, one.name) for one in self.rows if one.wrong_from is not None]
        if beyond:
            _, token, name = min(beyond)
            return name, token
        return next(((one.name, None) for one in self.rows if one.most > 1), None)

    @property
    def verdict(self):
        """The kernels that are wrong, or that neither is."""
        first = "" if self.first is None else f"; first {self.first[0]}" + (f", from token {self.first[1]} on" if self.first[1] is not None else "")
        if not self.wrong:
            if all(one.same for one in self.rows):
                return "neither is wrong; they have the same bits"
            return f"neither is wrong; they are {max(one.most for one in self.rows):.3g} apart, and two right kernels may be 1"
        said = [f"{name} ({self.names[NAMES.index(name)]}) is wrong" for name in self.wrong]
        return " and ".join(said) + first

    @property
    def page(self):
        """As programs read it."""
        rows = [{**one.row(), "off": dict(zip(NAMES, self.off[one.name]))} for one in self.rows]
        judged = [{"name": name, "kernel": kernel, "verdict": report.verdict} for name, kernel, report in zip(NAMES, self.names, self.reports)]
        return {"format": "assay-pair", "case": self.case.origin, "passed": self.passed, "wrong": self.wrong, "verdict": self.verdict, "judged": judged,
                "rows": rows, "logits": self.logits}  # fmt: skip

    def __str__(self):
        lines = [f"pair of A, {self.names[0]}: {self.reports[0].verdict}; and B, {self.names[1]}: {self.reports[1].verdict}; {self.case.origin}"]
        width = max((len(one.name) for one in self.rows), default=0)
        for one in self.rows:
            a, b = (f"{x:.3g}" if x is not None else "?" for x in self.off[one.name])
            said = "the same bits" if one.same else str(one).removeprefix(one.name + " ")
            lines.append(f"  {one.name:<{width}}  A off by {a}, B by {b} of what each may be; {said}")
        if self.logits is not None:
            x = self.logits
            lines.append(f"  log-probabilities: {x['largest_difference']:.3g} apart at most, KL(A|B) {x['kl']:.3g} a row; "
                         f"from the truth KL {x['kl_from_truth']['A']:.3g} (A), {x['kl_from_truth']['B']:.3g} (B)")  # fmt: skip
        return "\n".join([*lines, f"{'PASS' if self.passed else 'FAIL'}  {self.verdict}"])


def pair(case, a, b, contract=None, *, form=None, logits=None, head=None, raises=True, **how):
    """Two kernels, trainer and rollout, chunk form and recurrence, old and new: each against the truth, and how far they are apart in units of
    what both may err. A Pair, raised as an AssertionError where one is wrong.

    a and b are functions, or answers as assay.judge takes them; contract and form may be pairs, A's and B's. logits="o" says that a tensor's
    last axis are logits, or are after a product with head [channels, vocabulary]: then the difference of log-probabilities is shown, with its KL.
    The rest is what assay.check takes.
    """
    __tracebackhide__ = True
    if not isinstance(case, Case):
        raise InputError(f"case: expected what assay.case makes, got {type(case).__name__}")
    names = [getattr(one, "__name__", type(one).__name__) if callable(one) else "an answer" for one in (a, b)]
    contracts, forms = (x if isinstance(x, (tuple, list)) else (x, x) for x in (contract, form))
    found = Pair(case, names, [report_of(case, *one, how) for one in zip((a, b), contracts, forms)])
    if logits is not None:
        found.logits = log_probabilities(case, [report.answer for report in found.reports], logits, head)
    if raises and not found.passed:
        raise Mismatch(found)
    return found


def report_of(case, one, contract, form, how):
    if callable(one):
        return check(case, one, contract, form=form, raises=False, **how)
    if not isinstance(one, dict):
        raise InputError(f"pair: expected a function or an answer, got {type(one).__name__}")
    of_judge = {name: x for name, x in how.items() if name not in ("rename", "outputs", "out", "inplace", "gradients", "same_bits", "arrays", "device")}
    case = case if any(name.startswith("d_") for name in one) else case.forward()
    return judge(case, one, contract, form=form, **{"tensors": tensors_of(case, one), **of_judge})


def off_by(tensor, expected, judged):
    """How far a tensor is off at most, in units of what it may be; None where nobody says."""
    if expected is None or tuple(tensor[1]) != expected.value.shape:
        return None
    ratios = ratio(errors_of(doubles(tensor), expected), expected.limit)
    return float((ratios if judged is None else ratios[numpy.frombuffer(judged, bool).reshape(ratios.shape)]).max(initial=0.0))


def log_probabilities(case, answers, name, head):
    """The consequences for the probabilities of the next token: row by row, and of either from the truth."""
    for answer in answers:
        if name not in answer:
            raise InputError(f"logits: {name}: the kernels answer {', '.join(answer)}")
    values = [doubles(answer[name]) for answer in answers] + [oracle(case.forward())[name].hi]
    if head is not None:
        head = numpy.asarray(head, numpy.float64)
        if head.ndim != 2 or values[0].shape[-1] != head.shape[0] and numpy.prod(values[0].shape[-2:]) != head.shape[0]:
            raise InputError(f"head: expected [{values[0].shape[-1]}, vocabulary] or [{numpy.prod(values[0].shape[-2:])}, vocabulary], got {list(head.shape)}")
        values = [(x if x.shape[-1] == len(head) else x.reshape(*x.shape[:-2], -1)) @ head for x in values]
    a, b, truth = map(log_softmax, values)

    def kl(p, q):
        return float(numpy.nanmean((numpy.exp(p) * (p - q)).sum(-1)))

    return {"tensor": name, "largest_difference": float(numpy.nanmax(abs(a - b))), "kl": kl(a, b), "kl_from_truth": {"A": kl(truth, a), "B": kl(truth, b)}}


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))
