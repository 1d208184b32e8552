"""Mechanisms of one's own (docs/mechanism-language.md): what their file of Python says that a program has not."""
import functools
import os
import re

from . import _native
from ._native import InputError


# {file that somebody has named: when it was last changed, as it is known}. A case file may name any, and none is run for that.
named = {}


def read(mechanism):
    """Has the file that a name such as "gdn2.py" is read, again where it has changed. Raises InputError where it is no mechanism.

    Returns when it was changed, None where there is none.
    """
    if not mechanism.endswith((".py", ".json")):
        return None
    now = os.stat(mechanism).st_mtime_ns if os.path.isfile(mechanism) else None
    if mechanism in named and named[mechanism] == now:
        return now
    if mechanism in named:
        _native.forget_programs()
    if mechanism.endswith(".py"):
        code, _, said = _native.verb(["mechanism", "export", mechanism, "-o", "-"], None)
        if code:
            raise InputError(said.strip().splitlines()[-1].removeprefix("assay: "))
    named[mechanism] = now
    return now


def source_of(case):
    """The function behind a case's mechanism, as assay.language has it; None where that is no file of Python, or has changed since."""
    path, digest = re.fullmatch(r"(.*?)(?:(?<=\.py)@(\w+))?", case.mechanism, re.DOTALL).groups("")
    return traced(path, os.stat(path).st_mtime_ns, digest) if path.endswith(".py") and path in named and os.path.isfile(path) else None


@functools.lru_cache(64)
def traced(path, _, digest):
    from .language.canonical import digest as digest_of
    from .language.errors import MechanismError
    from .language.load import load

    try:
        (source,) = load(path).values()
        return source if digest in ("", digest_of(source.trace())) else None
    except (MechanismError, ValueError):  # which was said when the case was made
        return None


def returned(case):
    """The names of the outputs in the order of the function's `return`; None where nobody knows it."""
    source = source_of(case)
    if source is None:
        return None
    settings = source.with_defaults({})
    return source.traced_body(source.declarations(settings), settings)[1]


def is_data(case):
    """Whether the mechanism is a file of JSON: there outputs have names, and no order that a kernel could know."""
    return re.search(r"\.json(@\w+)?$", case.mechanism) is not None


def defaults(case):
    """{setting or number: its value} of those that the function has by default and the case does not say."""
    from ._kernels import as_number
    from .language import arrays
    from .language.errors import MechanismError

    source = source_of(case)
    if source is None:
        return {}
    settings, values = source.with_defaults({}), {name: as_number(x) for name, x in case.params.items()}
    declared = source.declarations(settings)
    with arrays.running(lengths(case, declared), case.array(case.inputs[0], "numpy")) as run:
        for one in declared:
            try:
                if one.is_parameter and one.public not in values:
                    values[one.public] = source.default_array(one, values, run)
            except MechanismError:  # of an array, or missing: the kernel is not told
                pass
    return {name: x for name, x in {**settings, **values}.items() if name not in case.params}


def lengths(case, declared):
    """{axis: its length} of the arrays that a case has: [B, T, H, ...] of those with the queries' first axis, [B, H, ...] of others."""
    found = {}
    first = next((one.type.shape[0] for one in declared if one.public == "q" and one.type.shape), None)
    for one in declared:
        shape = case.tensors[one.public][1] if one.public in case.inputs else ()
        if one.type.shape and shape:
            own = shape[len(shape) - len(one.type.shape) + 1 :]
            found.update(zip(one.type.shape, (shape[1 if one.type.shape[0] == first else 2], *own)))
    return {axis: n for axis, n in found.items() if isinstance(axis, str)}
