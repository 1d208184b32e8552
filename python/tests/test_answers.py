"""Every mechanism's program against answers of 40 digits that others computed: outputs and gradients, in decimals and in doubles."""
import decimal
import unittest

import numpy as np
import support
from fields import PRECISE, Doubles, decimals

FORTY_DIGITS = decimal.Decimal("1e-38")
# Outputs and gradients that a program has none of, and why.
LEFT_OUT = {
    "parallax": {"score"},  # weights of all pairs of tokens are no output of ours
    "parallax_gate": {"rho"},  # the gradient by a value that the layer forms itself
    "falcon3": {"final_tail_k", "final_tail_v"},  # their length depends on numbers
    "falcon3a": {"final_tail_k", "final_tail_v"},
}
TRANSPOSED = {"lla/linear-attention-sum", "lla/linear-attention-avg"}  # the states of these cases are [V, K]


def told(case):
    """Cases whose answer a program can give: a value, of the mechanism and not of an iteration towards it."""
    return case["expect"]["status"] == "OK" and case["mechanism"] in support.library() and case["params"].get("solver") != "cg"


def wanted(case):
    """Expected arrays by name, gradients as d_NAME, rows of caches and diagnostics left out."""
    found = dict(case["expect"]["outputs"]) | {"d_" + k: x for k, x in case["expect"].get("gradients", {}).items()}
    left_out = LEFT_OUT.get(case["mechanism"], set())
    gone = lambda k: k.startswith(("rows.", "diagnostics.", "d_rows.")) or k.removeprefix("d_") in left_out and k != "rho"
    found = {k: support.decimals_of(x) for k, x in found.items() if not gone(k)}
    if case["id"] in TRANSPOSED:
        found["final_state"] = found["final_state"].T
    return found


class Answers(unittest.TestCase):
    def test_every_mechanism_is_covered(self):
        known = {c["mechanism"] for c in support.cases() if told(c)}
        self.assertEqual(known, set(support.library()))

    def test_forty_digits(self):
        with decimal.localcontext(PRECISE):
            for case in filter(told, support.cases()):
                with self.subTest(case["id"]):
                    found = support.answer(case, decimals())
                    self.compare(found, wanted(case), FORTY_DIGITS)

    def test_doubles(self):
        """1e-12 of a tensor's largest element; a hundred roundings as far as the case's system may carry them, where it is ill-conditioned."""
        for case in filter(told, support.cases(more=False)):
            with self.subTest(case["id"]):
                found = {k: np.array(x) for k, x in support.answer(case, Doubles()).items()}
                found = {k: np.vectorize(decimal.Decimal, otypes=[object])(x) if x.size else x for k, x in found.items()}
                self.compare(found, wanted(case), max(decimal.Decimal("1e-12"), decimal.Decimal(100 * 2.0**-53 * condition(case))))

    def compare(self, found, expected, bound):
        for name, x in expected.items():
            self.assertIn(name, found)
            if x.size:
                d = support.distance(found[name], x)
                self.assertTrue(d <= bound, f"{name}: off by {d:.2e} of its largest element, more than {bound:.2e}")


def condition(case):
    """At least the condition of the matrices that a ridge keeps from being singular: 1 + sum |k|^2 / lambda."""
    if "lambda" not in case["inputs"]:
        return 1
    k, ridge = np.array(case["inputs"]["k"], dtype=float), np.array(case["inputs"]["lambda"], dtype=float)
    return 1 + (k * k).sum() / ridge.min() if ridge.size and ridge.min() > 0 else 1
