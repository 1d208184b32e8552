"""Mechanisms of the library against definitions written down apart from it, outputs and gradients: central differences in 110 digits,
along a random direction of every input."""
import decimal
import random
import unittest

import numpy as np
import support
from evaluate import evaluate
from fields import PRECISE, decimals
from definitions import DEFINED
from test_gradients import cotangents, directions, drawn, total

LENGTHS = {**support.LENGTHS, "T": 4, "D": 3, "P": 3}
STEP = decimal.Decimal("1e-25")  # its square is the error of a difference, but for a factor
FORTY_DIGITS = decimal.Decimal("1e-38")


def complete(p, given):
    """All inputs that have a gradient, those with a default, too."""
    rng = random.Random(p.name)
    for i in p.inputs:
        if i.gradient and i.name not in given:
            shape = [LENGTHS.get(a, a) for a in i.type.shape]
            low = -256 if i.domain != "log_decay" else -100
            high = 256 if i.domain != "log_decay" else 0
            low = 1 if i.domain == "normalizer" else low
            draw = np.vectorize(lambda _: decimal.Decimal(rng.randint(low, high)) / 256, otypes=[object])
            given[i.name] = draw(np.zeros(shape))
    return given


class Definitions(unittest.TestCase):
    def test_outputs_and_gradients(self):
        field = decimals()
        with decimal.localcontext(PRECISE) as context:
            context.prec = 110
            for key, f in DEFINED.items():
                name, settings = key if isinstance(key, tuple) else (key, ())
                with self.subTest(name, **dict(settings)):
                    p, rng = support.program(name, settings), random.Random(name)
                    given = {k: field.array(x) for k, x in complete(p, drawn(p, rng, LENGTHS)).items()}
                    self.compare(p, f, given, cotangents(p, rng, LENGTHS))

    def compare(self, p, f, given, ct):
        gradients = support.program(p.name, tuple(p.settings.items()), True)
        found = evaluate(gradients, {**given, **{"d_" + o: x for o, x in ct.items()}}, decimals(), LENGTHS)
        expected = f(**given)
        self.assertEqual(set(expected), set(p.outputs))
        for o, x in expected.items():
            self.near(found[o], x, o)
        loss = lambda y: sum(np.sum(ct[o] * y[o]) for o in ct)
        for k, x in ((i.name, given[i.name]) for i in p.inputs if i.gradient):
            along = directions(x, random.Random(k))
            up, down = (loss(f(**{**given, k: np.asarray(x + step * along, dtype=object)})) for step in (STEP, -STEP))
            self.near((up - down) / (2 * STEP), total([(found["d_" + k], along)]), "d_" + k)

    def near(self, x, wanted, name):
        d = support.distance(x, wanted)
        self.assertTrue(d <= FORTY_DIGITS, f"{name}: off by {d:.2e} of its largest element")
