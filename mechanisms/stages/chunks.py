"""Shared parts of stages of chunk algorithms: a chunk is C tokens, its log decays one number a token, or one for every key channel."""
from assay.language import const, cumsum, exp, iota, where

STATE = "K V = 0"


def before(C):
    """[C C]: whether row s of a chunk is before row r."""
    return iota(C) < iota(C)[:, None]


def identity(axis):
    return where(iota(axis)[:, None] == iota(axis), const(1), const(0))


def rows(x):
    """A number a token as one that all channels share."""
    return x if len(x.shape) == 2 else x[:, None]


def decayed(last, S):
    """A state at the end of a chunk of this sum of log decays, nothing written."""
    return rows(exp(last)) * S if last.shape else exp(last) * S


def decays(g):
    """The factors of rows of keys: e^c, c the sum of log decays up to a row, its own included, and e^(c_last - c); and c_last."""
    c, last = cumsum(g), g.sum(0)
    return rows(exp(c)), rows(exp(last - c)), last
