"""Shared parts of the tests: the mechanisms of the library, and the cases with known answers."""
import decimal
import functools
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "mechanisms"
sys.path[:0] = [str(ROOT / "python")]

from assay.language import Program, gradient  # noqa: E402
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


def cases():
    """The cases with answers in the tree; further files may stand in ASSAY_CASES, separated as in PATH."""
    here = pathlib.Path(__file__)
    files = [here.with_name("answers.json"), here.with_name("programs.json"), ROOT / "proptests/oracles/cases/small.json"]
    files += os.environ.get("ASSAY_CASES", "").split(os.pathsep) if os.environ.get("ASSAY_CASES") else []
    return [c for path in files for c in json.loads(pathlib.Path(path).read_text())["cases"]]


def answer(case, field):
    """The answer of the program of a case's mechanism: outputs by name, gradients as d_NAME, arrays of the field.

    Several heads are so many runs: shared inputs serve a group of heads, and their gradients are sums over it.
    """
    import numpy as np

    params = dict(case["params"])
    m = library()[case["mechanism"]]
    settings = settings_of(m, params)
    if "ridge" in m.settings:
        rank = np.ndim(case["inputs"]["lambda"]) - (np.ndim(case["inputs"]["q"]) - 2)
        settings += (("ridge", ("", "T", "T K")[rank]),)
    p, g = program(m.name, settings), program(m.name, settings, True)
    params = {k: x for k, x in params.items() if k != "solver"}
    given = {k: np.array(x, dtype=object) for k, x in {**case["inputs"], **params}.items() if x is not None}
    given |= {"d_" + k: np.array(x, dtype=object) for k, x in case["cotangents"].items()}
    heads = max((x.shape[0] for k, x in given.items() if rank_of(p, k) is not None and x.ndim > rank_of(p, k)), default=None)
    runs = [one_head(p, g, head_of(p, given, h, heads), field) for h in range(heads or 1)]
    return merged(runs, given, p) if heads else runs[0]


def settings_of(m, params):
    """The settings of a mechanism among a case's params."""
    return tuple((k, x) for k, x in params.items() if k in m.settings)


TAILS = {"d_final_tail_k": 2, "d_final_tail_v": 2}  # ranks of cotangents of what is no output of a program


def rank_of(p: Program, name):
    if name in TAILS:
        return TAILS[name]
    types = p.output_types() | {"d_" + o: t for o, t in p.output_types().items()} | {i.name: i.type for i in p.inputs}
    return len(types[name].shape) if name in types else None


def head_of(p, given, head, heads):
    if heads is None:
        return given
    lone = lambda k, x: rank_of(p, k) is None or x.ndim == rank_of(p, k)
    return {k: x if lone(k, x) else x[head * x.shape[0] // heads] for k, x in given.items()}


def one_head(p, g, given, field):
    import numpy as np
    from evaluate import bind, evaluate

    lengths = bind(p, given, field)[1]
    for o, t in p.output_types().items():
        given = {"d_" + o: np.zeros([lengths.get(a, a) for a in t.shape], dtype=int), **given}
    found = evaluate(g, given, field)
    if "d_tail_k" in found and "d_final_tail_k" in given:
        add_tail(given, found, field)
    return found


def add_tail(given, found, field):
    """The tail that leaves FALCON-3 is a selection of pairs, and no output of the program: its cotangent goes to their rows."""
    shifted = given.get("alignment", "next_latent") == "next_latent"
    T, tail = len(found["d_v"]), len(found["d_tail_v"])
    pairs = [("tail", m) for m in range(tail)] + [("own", t) for t in range(1 if shifted and given.get("sequence_start", True) else 0, T)]
    for which, letter in (("d_final_tail_k", "k"), ("d_final_tail_v", "v")):
        rows = field.array(given[which])
        for (kind, at), row in zip(pairs[len(pairs) - len(rows) :], rows):
            if kind == "tail":
                found[f"d_tail_{letter}"][at] += row
            elif letter == "k" and shifted and at == 0:
                found["d_k_carry"] = found["d_k_carry"] + row
            else:
                found[f"d_{letter}"][at - (letter == "k" and shifted)] += row


def merged(runs, given, p):
    """Heads stacked; gradients of inputs that a group of heads shares summed over it."""
    import numpy as np

    found = {}
    for k in runs[0]:
        x = np.stack([r[k] for r in runs])
        source = given.get(k.removeprefix("d_"))
        shared = k.startswith("d_") and source is not None
        if shared and source.ndim == rank_of(p, k.removeprefix("d_")):
            x = x.sum(axis=0)
        elif shared and source.shape[0] < len(runs):
            x = x.reshape((source.shape[0], -1) + x.shape[1:]).sum(axis=1)
        found[k] = x
    return found


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
