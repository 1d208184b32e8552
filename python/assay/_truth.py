"""The truth, and how far a correct kernel may be from it."""
import dataclasses

from . import _native
from ._arrays import doubles
from ._cases import Case, errors_in_python, posed
from ._progress import shown


@dataclasses.dataclass(frozen=True, eq=False)
class Truth:
    """A tensor of the oracle's answer, as NumPy's doubles: hi + lo is the value, bound how far it may be off (None: not proven)."""

    hi: object
    lo: object
    bound: object


@dataclasses.dataclass(frozen=True, eq=False)
class Expectation:
    """A contract's expectation of a tensor: value + lo, the spread sigma of a correct kernel's error, and limit, which it does not
    exceed. bound is how far the oracle may be off."""

    value: object
    lo: object
    bound: object
    sigma: object
    limit: object

    @classmethod
    def of(cls, tensor, file):
        """That of a tensor, out of a file that has NAME, NAME.lo, NAME.bound, NAME.sigma and NAME.limit."""
        return cls(*(doubles(file[tensor + part]) for part in ("", ".lo", ".bound", ".sigma", ".limit")))


def as_case(problem, inputs, params, cotangents=None, layout="bthd"):
    """A case, or one of the mechanism of that name with these inputs."""
    if isinstance(problem, Case):
        return problem
    return posed(problem, inputs or {}, params, cotangents=cotangents, layout=layout)


def oracle(problem, inputs=None, *, params=None, cotangents=None, layout="bthd", tier="", threads=0, progress=None):
    """The exact answer to a case, or to a mechanism's own inputs: {"o": Truth, "d_q": Truth, ...}.

    Gradients are there if there are cotangents. tier ("double", "w2", "ball", ...) asks for other arithmetic than the proven one.
    """
    with errors_in_python(), shown(progress) as hears:
        file, _ = _native.oracle(as_case(problem, inputs, params, cotangents, layout).file(), tier, threads, hears)
    values = {name: doubles(x) for name, x in file.items()}
    names = [name for name in values if not name.endswith((".lo", ".bound"))]
    return {name: Truth(values[name], values[name + ".lo"], values.get(name + ".bound")) for name in names}


def expect(problem, contract=None, *, inputs=None, params=None, cotangents=None, layout="bthd", form=None, precision=None, tile=None,
           false_alarms=None, threads=0, progress=None):  # fmt: skip
    """The answers that a contract lets a correct kernel give: {"o": Expectation, ...}. Without one, that of the case's precision.

    Where no kernel of ours takes the case, limit is where the model's PASS ends.
    """
    asked = {"contract": contract, "form": form, "precision": precision, "tile": tile}
    rate = _native.default_false_alarms if false_alarms is None else false_alarms
    with errors_in_python(), shown(progress) as hears:
        file, _ = _native.expect(as_case(problem, inputs, params, cotangents, layout).file(), words(asked), rate, threads, hears)
    names = [name for name in file if "." not in name]
    return {name: Expectation.of(name, file) for name in names}


def words(asked):
    """The options that are given, as words."""
    return {name: str(x) for name, x in asked.items() if x is not None}
