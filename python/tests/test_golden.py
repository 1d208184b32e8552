"""The rooms' programs against the golden files: outputs and gradients of all settings, within the bounds that the files state.

References, tile programs and these programs are three definitions that share no code.
"""
import decimal
import json
import os
import pathlib
import struct
import unittest

import ml_dtypes
import numpy as np
import support
from assay.language import Type
from fields import PRECISE, decimals

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
DIGITS, SURE = 130, 100  # of decimals; and of sums of terms of order one, behind the point
# Cases that a program does not answer: an iteration on the way to the solution.
ITERATIONS = "cg"


def golden(path):
    """The cases of a golden file: metadata, and tensors by name."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    cases = {c["name"]: (c, {}) for c in json.loads(header.pop("__metadata__")["cases"])}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        array = np.frombuffer(body[begin:end], DTYPES[t["dtype"]]).reshape(t["shape"])
        case, _, field = name.partition("/")
        cases[case][1][field] = array.astype(np.float64)
    return list(cases.values())


def by_head(x, t):
    """[B, T, H, ...] or [B, H, ...] of one batch entry as [H, ...]; numbers for all as they are."""
    if x.ndim == 0 or x.ndim == len(t.shape):
        return x
    return np.moveaxis(x[0], 1, 0) if t.shape[:1] in (("T",), ("S",)) else x[0]


def as_case(meta, tensors, p):
    """A case as the other tests have them, and what is expected: value and bound by name."""
    types = {i.name: i.type for i in p.inputs} | p.output_types()
    given = {k: by_head(x, types[k]).astype(object) for k, x in tensors.items() if k in types and k + ".bound" not in tensors}
    cotangents = {}
    for k in [k for k in tensors if k.startswith("d_") and k + ".bound" not in tensors]:
        t = types.get(k[2:], Type("real", ("P", "K")))  # of the tails that leave FALCON-3
        cotangents[k[2:]] = by_head(tensors[k], t).astype(object)
    for k in [k for k in tensors if k.startswith("cotangents.")]:  # of an output by which the file has a gradient, too
        name = k.removeprefix("cotangents.")
        cotangents[name] = by_head(tensors[k], types[name]).astype(object)
    expected = {}
    for k in [k.removesuffix(".bound") for k in tensors if k.endswith(".bound")]:
        if k in types or k.startswith("d_") and k[2:] in {i.name for i in p.inputs}:
            expected[k] = tuple(by_head(tensors[k + part], types[k.removeprefix("d_")]) for part in ("", ".lo", ".bound"))
    return {**meta, "inputs": given, "cotangents": cotangents}, expected


def exact(x):
    return np.vectorize(decimal.Decimal, otypes=[object])(x) if np.size(x) else np.asarray(x, dtype=object)


class Golden(unittest.TestCase):
    def test_every_room(self):
        """One case in three, for time; all with ASSAY_EVERY=1 in the environment."""
        rooms = [f for f in sorted((support.ROOT / "fixtures").glob("*.safetensors")) if f.stem in support.library()]
        self.assertEqual(len(rooms), 27)  # all but stable_rank, which has no program
        cases = [case for path in rooms for case in golden(path) if case[0]["params"].get("solver") != ITERATIONS]
        self.assertGreater(len(cases), 2 * len(rooms))
        for meta, tensors in cases[:: int(os.environ.get("ASSAY_EVERY", 3))]:
            with self.subTest(meta["mechanism"], case=meta["name"]), decimal.localcontext(PRECISE) as context:
                context.prec = DIGITS
                self.judge(meta, tensors)

    def judge(self, meta, tensors):
        m = support.library()[meta["mechanism"]]
        settings = support.settings_of(m, meta["params"])
        if "ridge" in m.settings:
            settings += (("ridge", ("", "T", "T K")[tensors["lambda"].ndim - 2]),)
        p = support.program(m.name, settings)
        case, expected = as_case(meta, tensors, p)
        found = support.answer(case, decimals())
        self.assertTrue(expected)
        for name, (x, lo, bound) in expected.items():
            y = np.asarray(found[name], dtype=object)
            self.assertEqual(y.shape, x.shape, name)
            if not x.size:
                continue
            off = np.asarray(np.abs(y - exact(x) - exact(lo)), dtype=object)
            # The bound of the file, and the error of decimals.
            slack = max(1, *map(abs, exact(x).flat)) * decimal.Decimal(10) ** -SURE
            self.assertTrue(np.all(off <= exact(bound) + slack), f"{name}: off by {max(off.flat):.2e}")
