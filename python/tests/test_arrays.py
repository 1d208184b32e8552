"""Mechanisms on arrays of NumPy: no tokens, and defaults. test_core holds each mechanism beside its program, and
python/tests/transcripts/package.md has what is refused."""
import random
import unittest

import numpy as np
import support
from assay.language import const, mechanism, outer, scan
from test_core import arrays_of


class Library(unittest.TestCase):
    def test_no_tokens(self):
        lengths = {**support.LENGTHS, "T": 0, "S": 0}
        for name in ("gated_deltanet", "mdn", "softmax_attention", "kda"):
            given = arrays_of(support.drawn(support.program(name), random.Random(1), lengths))
            self.assertEqual(support.library()[name](**given)["o"].shape, (0, 2))

    def test_a_step_by_itself(self):
        S, rows = scan(lambda S, k, v: (S + outer(k, v) * const("1/2"), (k @ S, v)), np.zeros((2, 3)), np.eye(2), np.ones((2, 3)), reverse=True)
        np.testing.assert_array_equal(S, np.full((2, 3), 0.5))
        np.testing.assert_array_equal(rows[1], np.ones((2, 3)))
        np.testing.assert_array_equal(rows[0], np.zeros((2, 3)))


@mechanism(x="T", rate="param = 1/3")
def decay(x, rate):
    return {"y": x * rate}


class Defaults(unittest.TestCase):
    def test_a_default_is_the_nearest_double(self):
        np.testing.assert_array_equal(decay(x=np.array([3.0, 1.0]))["y"], [1.0, 1 / 3])
