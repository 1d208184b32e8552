"""What is proved of the library's programs, tried on numbers: causality, pairs of states, linearity."""
import random
import unittest

import numpy as np
import support
from assay.language.causality import causal_outputs
from assay.language.continuation import continues, state_pairs
from assay.language.evaluate import evaluate
from assay.language.fields import Doubles
from assay.language.linearity import AFFINE, LINEAR, linear_in
from test_gradients import drawn

LENGTHS = {**support.LENGTHS, "T": 6, "S": 6}


def numbers(p, seed):
    given = drawn(p, random.Random(seed), LENGTHS)
    return {k: np.asarray(x, dtype=float) if np.ndim(x) else x for k, x in given.items()}


def run(p, given, lengths=LENGTHS):
    return evaluate(p, given, Doubles(), lengths)


def near(test, a, b, what):
    np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, err_msg=what)


class Laws(unittest.TestCase):
    def each(self):
        for name, settings in support.variants():
            with self.subTest(name, **dict(settings)):
                p = support.program(name, settings)
                yield p, numbers(p, name)

    def test_causality(self):
        tried = 0
        for p, given in self.each():
            rowwise = list(causal_outputs(p, "T"))  # proved or not: all of the library are
            rows = [i.name for i in p.inputs if i.type.shape[:1] == ("T",)]
            other = numbers(p, "another")
            cut = {k: np.concatenate([x[:3], other[k][3:]]) if k in rows else x for k, x in given.items()}
            a, b = run(p, given), run(p, cut)
            for o in rowwise:
                near(self, a[o][:3], b[o][:3], o)
                tried += 1
            self.assertFalse(all(np.allclose(a[o][3:], b[o][3:]) for o in rowwise))
        self.assertGreater(tried, 60)

    def test_pairs(self):
        tried = 0
        for p, given in self.each():
            pairs = state_pairs(p)
            if not pairs or not continues(p, pairs):
                continue
            rows = [i.name for i in p.inputs if i.type.shape[:1] == ("T",)]
            part = lambda of: {k: x[of] if k in rows else x for k, x in given.items()}
            first = run(p, part(slice(0, 2)), {**LENGTHS, "T": 2})
            carried = {a: first[b] for a, b in pairs}
            second = run(p, {**part(slice(2, 6)), **carried}, {**LENGTHS, "T": 4})
            whole = run(p, given)
            for o in p.outputs:
                last = o in dict(pairs).values()
                near(self, second[o] if last else np.concatenate([first[o], second[o]]), whole[o], o)
            tried += 1
        self.assertGreater(tried, 20)

    def test_linearity(self):
        tried = 0
        for p, given in self.each():
            values = [i.name for i in p.inputs if i.domain == "value" and i.gradient and i.name in given]
            states = [i.name for i in p.inputs if i.name.startswith("initial_") and i.domain == "state" and i.name in given]
            for group in (values, values + states):
                other = numbers(p, "another")
                mix = {**given, **{k: 2 * given[k] - 3 * other[k] for k in group}}
                there = {**given, **{k: other[k] for k in group}}
                none = {**given, **{k: 0 * given[k] for k in group}}
                a, b, c, zero = (run(p, x) for x in (given, there, mix, none))
                for o, degree in linear_in(p, group).items():
                    if degree == LINEAR:
                        near(self, c[o], 2 * a[o] - 3 * b[o], o)
                        tried += 1
                    elif degree == AFFINE:
                        near(self, c[o] - zero[o], 2 * (a[o] - zero[o]) - 3 * (b[o] - zero[o]), o)
        self.assertGreater(tried, 100)


if __name__ == "__main__":
    unittest.main()
