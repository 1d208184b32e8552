"""Mechanisms of the library against definitions written down apart from it, outputs and gradients: central differences in 110 digits,
along a random direction of every input."""
import decimal
import random
import unittest

import numpy as np
import support
from definitions import DEFINED

LENGTHS = {**support.LENGTHS, "T": 4, "D": 3, "P": 3}
STEP = decimal.Decimal("1e-25")  # its square is the error of a difference, but for a factor
FORTY_DIGITS = decimal.Decimal("1e-38")


def complete(p, given):
    """All inputs that have a gradient, those with a default, too."""
    rng = random.Random(p.name)
    for i in p.inputs:
        if i.gradient and i.name not in given:
            shape = [LENGTHS.get(a, a) for a in i.type.shape]
            low, high = (-100 / 256, 0) if i.domain == "log_decay" else (1 / 256 if i.domain == "normalizer" else -1, 1)
            given[i.name] = support.fractions_of(rng, shape, low, high)
    return given


class Definitions(unittest.TestCase):
    def test_outputs_and_gradients(self):
        problems = []
        for key, f in DEFINED.items():
            name, settings = key if isinstance(key, tuple) else (key, ())
            p, rng = support.program(name, settings), random.Random(name)
            problems.append((p, complete(p, support.drawn(p, rng, LENGTHS)), support.cotangents(p, rng, LENGTHS)))
        for f, (p, given, ct), found in zip(DEFINED.values(), problems, support.answers(problems)):
            with self.subTest(p.name, **p.settings), decimal.localcontext(support.PRECISE) as context:
                context.prec = 110
                self.compare(p, f, given, ct, found)

    def compare(self, p, f, given, ct, found):
        given = {k: np.array(decimal.Decimal(x), dtype=object) if isinstance(x, int) else x for k, x in given.items()}
        expected = f(**given)
        self.assertEqual(set(expected), set(p.outputs))
        for o, x in expected.items():
            self.near(found[o], x, o)
        loss = lambda y: sum(np.sum(ct[o] * y[o]) for o in ct)
        for k, x in ((i.name, given[i.name]) for i in p.inputs if i.gradient):
            along = support.fractions_of(random.Random(k), np.shape(x))
            up, down = (loss(f(**{**given, k: np.asarray(x + step * along, dtype=object)})) for step in (STEP, -STEP))
            self.near((up - down) / (2 * STEP), support.total([(found["d_" + k], along)]), "d_" + k)

    def near(self, x, wanted, name):
        d = support.distance(x, wanted)
        self.assertTrue(d <= FORTY_DIGITS, f"{name}: off by {d:.2e} of its largest element")
