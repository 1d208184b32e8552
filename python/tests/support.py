"""Shared parts of the tests: the mechanisms of the library, problems that are drawn for them, and what the core answers (ASSAY)."""
import decimal
import functools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:  # tests of tracing need none
    np = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "mechanisms"
sys.path[:0] = [str(ROOT / "python")]

from assay.language import digest, gradient, write  # noqa: E402
from assay.language.load import load  # noqa: E402

LENGTHS = {"T": 5, "S": 5, "K": 3, "V": 2, "D": 4, "M": 3, "P": 2, "N": 3}  # of axes, where nothing else says
# Where inputs of a domain are drawn: far from what a domain refuses.
RANGES = {"log_decay": (-1, -0.05), "write_strength": (0.2, 0.9), "gain": (0.3, 1.5), "ridge": (0.1, 1), "bandwidth": (1.5, 2.5), "scale": (0.3, 0.6),
          "decay_fraction": (0.1, 0.5),
          "regularizer": (0.01, 0.1), "temperature": (2, 3), "decay_floor": (0.1, 0.4), "normalizer": (0.5, 1)}  # fmt: skip
PARAMETERS = {"window": 3, "head": 2, "block": 2}
PRECISE = decimal.Context(prec=90, traps=[])


@functools.cache
def library():
    """All mechanisms, by name."""
    return {name: m for file in sorted(LIBRARY.glob("*.py")) if file.stem != "common" for name, m in load(str(file)).items()}


@functools.cache
def program(name, settings=(), with_gradient=False):
    p = library()[name].trace(**dict(settings))
    return gradient(p) if with_gradient else p


def rooms():
    lines = (ROOT / "mechanisms.def").read_text().splitlines()
    return [line.partition("(")[2].rstrip(")") for line in lines if line.startswith(("MECHANISM(", "REFERENCE("))]


def variants():
    """Name and settings of every program of the library."""
    return [(name, tuple(s.items())) for name, m in library().items() for s in m.variants()]


def exported(name, settings):
    """The name of the file that holds a program of the library."""
    return name + "".join(f"-{k}-{str(v).replace(' ', '') or 'one'}" for k, v in settings)


def distance(found, wanted):
    """The largest difference of two arrays, over the largest element of the one wanted. NaN where one is undefined alone."""
    found, wanted = np.asarray(found, dtype=object), np.asarray(wanted, dtype=object)
    if found.shape != wanted.shape:
        return decimal.Decimal("Infinity")
    top = max((abs(x) for x in wanted.flat), default=decimal.Decimal(0)) or decimal.Decimal(1)
    return max((abs(decimal.Decimal(a) - b) / top for a, b in zip(found.flat, wanted.flat)), default=decimal.Decimal(0))


def decimals_of(x):
    """Nested lists of texts, or an array of floats, as an array of decimals; null is NaN."""
    a = np.array(x, dtype=object)
    return np.vectorize(lambda s: decimal.Decimal("NaN" if s is None else str(s)), otypes=[object])(a) if a.size else a


def fractions_of(rng, shape, low=-1, high=1):
    """Short binary fractions with odd numerators, so none is zero, as an array of decimals."""
    return decimals_of(np.array([(2 * math.floor(rng.uniform(low, high) * 128) + 1) / 256 for _ in range(int(np.prod(shape)))]).reshape(shape))


def drawn(program, rng, lengths=LENGTHS):
    """Inputs by name, arrays of decimals, parameters with a default left out."""
    found = {i.name: PARAMETERS[i.name] for i in program.inputs if i.type.kind == "int" and i.name in PARAMETERS}
    for i in program.inputs:
        if i.type.kind == "real" and (i.gradient or not i.default) and not (i.name == "log_decay" and i.default):
            found[i.name] = fractions_of(rng, [lengths.get(a, a) for a in i.type.shape], *RANGES.get(i.domain, (-1, 1)))
    return found


def cotangents(program, rng, lengths=LENGTHS):
    return {o: fractions_of(rng, [lengths.get(a, a) for a in t.shape]) for o, t in program.output_types().items()}


def texts(x):
    """Nested lists of texts; an integer stays one."""
    return x if isinstance(x, int) else [texts(y) for y in x] if np.ndim(x) else str(decimal.Decimal(np.asarray(x)[()]))


def answered(cases, folder):
    """The records that `assay oracle` writes of cases."""
    asked, said = pathlib.Path(folder, "cases.json"), pathlib.Path(folder, "answers.json")
    asked.write_text(json.dumps({"format": "assay-cases", "version": 1, "cases": cases}))
    subprocess.run([os.environ["ASSAY"], "oracle", str(asked), "--digits", "60", "-o", str(said)], check=True, cwd=ROOT)
    return json.loads(said.read_text())["cases"]


def answers(problems):
    """What the core computes of a program, its inputs and its cotangents: outputs, and gradients as d_NAME, to 60 digits."""
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for n, (p, given, cotangent) in enumerate(problems):
            file = pathlib.Path(folder, f"{digest(p)}.json")
            file.write_text(write(p))
            inputs = {i.name: texts(given[i.name]) for i in p.inputs if i.name in given}
            params = {i.name for i in p.inputs if not i.gradient}
            cases.append({
                "id": str(n), "mechanism": f"{file}@{digest(p)}", "params": {k: x for k, x in inputs.items() if k in params},
                "inputs": {k: x for k, x in inputs.items() if k not in params}, "cotangents": {k: texts(x) for k, x in cotangent.items()},
            })  # fmt: skip
        found = answered(cases, folder)
    refused = [(p.name, one["message"]) for (p, *_), one in zip(problems, found) if one["status"] != "OK"]
    assert not refused, refused
    return [{k: decimals_of(x) for k, x in (one["outputs"] | {"d_" + k: x for k, x in one["gradients"].items()}).items()} for one in found]


def total(pairs):
    """The sum of products of two arrays' elements, over all pairs of arrays."""
    return sum((a * b for x, y in pairs for a, b in zip(np.asarray(x).flat, np.asarray(y).flat)), decimal.Decimal(0))
