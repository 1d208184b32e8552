"""Shared parts of the tests: the mechanisms of the library, and how far arrays of decimals are apart."""
import decimal
import functools
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "mechanisms"
sys.path[:0] = [str(ROOT / "python")]

from assay.language import gradient  # noqa: E402
from assay.language.load import load  # noqa: E402

LENGTHS = {"T": 5, "S": 5, "K": 3, "V": 2, "D": 4, "M": 3, "P": 2, "N": 3}  # of axes, where nothing else says


@functools.cache
def library():
    """All mechanisms, by name."""
    return {name: m for file in sorted(LIBRARY.glob("*.py")) if file.stem != "common" for name, m in load(str(file)).items()}


@functools.cache
def program(name, settings=(), with_gradient=False):
    p = library()[name].trace(**dict(settings))
    return gradient(p) if with_gradient else p


def variants():
    """Name and settings of every program of the library."""
    return [(name, tuple(s.items())) for name, m in library().items() for s in m.variants()]


def exported(name, settings):
    """The name of the file that holds a program of the library."""
    return name + "".join(f"-{k}-{str(v).replace(' ', '') or 'one'}" for k, v in settings)


def distance(found, wanted):
    """The largest difference of two arrays, over the largest element of the one wanted. NaN where one is undefined alone."""
    import numpy as np

    found, wanted = np.asarray(found, dtype=object), np.asarray(wanted, dtype=object)
    if found.shape != wanted.shape:
        return decimal.Decimal("Infinity")
    top = max((abs(x) for x in wanted.flat), default=decimal.Decimal(0)) or decimal.Decimal(1)
    return max((abs(decimal.Decimal(a) - b) / top for a, b in zip(found.flat, wanted.flat)), default=decimal.Decimal(0))


def decimals_of(x):
    """Nested lists of texts as an array of decimals; null is NaN."""
    import numpy as np

    a = np.array(x, dtype=object)
    return np.vectorize(lambda s: decimal.Decimal("NaN" if s is None else str(s)), otypes=[object])(a) if a.size else a
