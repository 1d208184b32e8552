"""Shared parts of chunk algorithms."""
from assay.language import const, iota, scan, where, zeros

RSQRT = 'param = 1 / sqrt(size("K"))'
STATE = "K V = 0"


def before(C):
    """[C C]: whether row s of a chunk is before row r."""
    return iota(C) < iota(C)[:, None]


def unit_lower_inverse(A, C):
    """(1 + A)^-1 of A [C C], zero on and above the diagonal, row by row."""

    def row(X, a, r):
        here = iota(C) == r
        return where(here[:, None], where(here, const(1), const(0)) - a @ X, X), None

    return scan(row, zeros(C, C), A, iota(C))[0]
