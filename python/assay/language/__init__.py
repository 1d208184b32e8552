"""The mechanism language: an attention form or a recurrence as a Python function, read into a program that assay judges kernels by.

    from assay.language import mechanism, exp, outer, scan

docs/mechanism-language.md has an example, the words, and the file.
"""
from .canonical import canonical, digest, write
from .core import gradient, read
from .errors import MechanismError
from .functions import (
    const, contract, cumsum, detach, dot, exp, iota, log, logsumexp, maximum, minimum, outer, real, round, scan, shift, sigmoid,
    size, softmax, softplus, solve, sqrt, tanh, where, zeros,
)  # fmt: skip
from .mechanism import Mechanism, mechanism
from .program import Block, Input, Node, Program, Type
