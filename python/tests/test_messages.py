"""What refusals leave behind, and numbers that are one; proptests/transcripts/messages.md has the sentence that each mistake gets."""
import fractions
import unittest

import support  # noqa: F401
from assay.language import MechanismError, digest, exp, log, mechanism, outer, scan

D = dict(q="T K", k="T K", v="T V", initial_state="K V = 0")


def trace(function):
    function.__name__ = "f"
    return mechanism(**D)(function).trace()


def stepping(step):
    """A mechanism of one scan with this step."""

    def made(q, k, v, initial_state):
        S, o = scan(step, initial_state, q, k, v)
        return {"o": o, "final_state": S}

    return made


def branch(S, q, k, v):
    if (q @ k) > 0:
        S = S + outer(k, v)
    return S, q @ S


class Messages(unittest.TestCase):
    def test_a_refusal_leaves_nothing_behind(self):
        for _ in range(2):
            with self.assertRaises(MechanismError):
                trace(stepping(branch))
        self.assertTrue(trace(stepping(lambda S, q, k, v: (S + outer(k, v), q @ S))))

    def test_exact_numbers(self):
        """Every way to write a tenth is one number."""
        digests = set()
        for tenth in ("0.1", "1/10", "1e-1", " +.1 ", fractions.Fraction(1, 10)):

            def f(x):
                return {"o": x * tenth + exp(-log(tenth))}

            digests.add(digest(mechanism(x="T")(f).trace()))
        self.assertEqual(len(digests), 1)
