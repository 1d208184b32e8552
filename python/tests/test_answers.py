"""Every mechanism's program against answers of 40 digits that others computed: outputs and gradients."""
import decimal
import unittest

import support
from fields import PRECISE, decimals

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

    def compare(self, found, expected, bound):
        for name, x in expected.items():
            self.assertIn(name, found)
            if x.size:
                d = support.distance(found[name], x)
                self.assertTrue(d <= bound, f"{name}: off by {d:.2e} of its largest element, more than {bound:.2e}")
