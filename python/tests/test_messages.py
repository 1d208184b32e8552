"""Users' mistakes in a mechanism, and the sentence that each gets: with file, line and source."""
import fractions
import math
import re
import unittest

import support  # noqa: F401
from assay.language import MechanismError, cumsum, digest, dot, exp, iota, log, mechanism, outer, scan, shift, size, softmax, where

D = dict(q="T K", k="T K", v="T V", initial_state="K V = 0")


def trace(function, **declared):
    function.__name__ = "f"
    mechanism(**{**D, **declared})(function).trace()


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


def in_place(S, q, k, v):
    S[0] = 0
    return S, q @ S


def both(S, q, k, v):
    return S, where((0 < q @ k) and (q @ k < 1), q @ S, 0)


def looking_back(q, k, v, initial_state):
    seen = []
    scan(lambda S, q, k, v: (S, seen.append(q) or q @ S), initial_state, q, k, v)
    return {"o": seen[0] + 0}


leaked = []


def leaking(S, q, k, v):
    leaked.append(q)
    return S, q @ S


STEPS = [  # what a step does, and what is said; (file:line: source) follows
    (branch, r'an "if", "and", "or", "not" or "while" depends on data: use where\(c, a, b\), and & \| ~ for conditions'),
    (both, r'an "if", "and", "or", "not" or "while" depends on data'),
    (lambda S, q, k, v: (S, 0 < q @ k < 1), r'an "if", "and", "or", "not" or "while" depends on data'),
    (lambda S, q, k, v: (max(S, 0 * S), q @ S), r'an "if", "and"'),
    (in_place, "an array is changed in place: give the new value a name"),
    (lambda S, q, k, v: (S + math.exp(q @ k), q @ S), r"float\(\), int\(\) or an index of a traced array"),
    (lambda S, q, k, v: (0.1 * S, q @ S), r'0.1 is a binary number: write "0.1" for the decimal'),
    (lambda S, q, k, v: (S * 1e-3, q @ S), '0.001 is a binary number: write "0.001" for the decimal'),
    (lambda S, q, k, v: ("a tenth" * S, q @ S), "'a tenth' is no number"),
    (lambda S, q, k, v: (S * None, q @ S), "None is no number of a mechanism"),
    (lambda S, q, k, v: (S + outer(v, k), q @ S), r"add: axis V meets axis K, of \[K V\] and \[V K\]"),
    (lambda S, q, k, v: (S, q * v), r"mul: axis V meets axis K, of \[K\] and \[V\]"),
    (lambda S, q, k, v: (S, dot(q, v)), r"contract: axis V meets axis K"),
    (lambda S, q, k, v: (S, v @ S), r"contract: axis K meets axis V"),
    (lambda S, q, k, v: (S, q @ q @ S), r"@ takes vectors and matrices"),
    (lambda S, q, k, v: (q @ S, q @ S), r"scan: the state enters as \[real K V\] and leaves as \[real V\]"),
    (lambda S, q, k, v: (S.T, q @ S), r"scan: the state enters as \[real K V\] and leaves as \[real V K\]"),
    (lambda S, q, k, v: ((S, S), q @ S), "scan: 1 states enter and 2 leave"),
    (lambda S, q, k, v: S, "scan: a step returns its state and its row"),
    (lambda S, q, k, v: (S, sum(x for x in q)), "a Python loop over an axis of unknown length: use scan for tokens"),
    (lambda S, q, k, v: (S, q[0]), "index: index 0 into axis K: only axes of a written length have written indices"),
    (lambda S, q, k, v: (S, q[1:]), "index .*: only None, : and integers"),
    (lambda S, q, k, v: (S, q[:, :, None]), "an index of 3 places into"),
    (lambda S, q, k, v: (S, len(q)), "the length of an axis is not known while the function is read"),
    (lambda S, q, k, v: (S, q.reshape(1)), "a traced array has no 'reshape'"),
    (lambda S, q, k, v: (S, q % 2), r"TypeError: unsupported operand"),
    (lambda S, q, k, v: (S, S.sum()), r"sum: \[real K V\] has 2 axes: say along which, sum\(-1\) is the last"),
    (lambda S, q, k, v: (S, q**0.5), r"pow: the exponent 0.5 is no integer: use sqrt\(x\), or exp\(y \* log\(x\)\)"),
    (lambda S, q, k, v: (S, q * q.shape[0] ** -1), r"TypeError: .*'str'.* \(shape has the names of axes; their lengths are size\(\"K\"\)\)"),
    (lambda S, q, k, v: (S, S[..., None] @ q), "@ takes vectors and matrices, not .real K V 1."),
    (lambda S, q, k, v: (S, q.sum(3)), r"sum: \[real K\] has no axis 3"),
    (lambda S, q, k, v: (S, undefined_name), "NameError: name 'undefined_name' is not defined"),  # noqa: F821
    (lambda S, q, k, v: (S, ~q), "not: takes truth values"),
    (lambda S, q, k, v: (S, q & k), "and: takes truth values"),
    (lambda S, q, k, v: (S, q ** (q @ k)), "pow: takes a real number and an integer exponent"),
    (lambda S, q, k, v: (S, where(q, k, 0)), "select: takes a truth value and two alike"),
    (lambda S, q, k, v: (S, softmax(q @ k)), "has no axis to sum along"),
    (lambda S, q, k, v: (S, shift(q, by=q @ k)), "shift: by is a written integer"),
]


class Steps(unittest.TestCase):
    def test_every_sentence(self):
        for n, (step, said) in enumerate(STEPS):
            with self.subTest(n, said=said):
                with self.assertRaisesRegex(MechanismError, said) as refused:
                    trace(stepping(step))
                place = re.search(r" \(test_messages\.py:(\d+): (.*)\)$", str(refused.exception))
                self.assertTrue(place, f"no place in: {refused.exception}")
                line = step.__code__.co_firstlineno
                self.assertLessEqual(abs(int(place[1]) - line), 1 if "scan: " not in said else 10**6)
                with open(__file__) as f:
                    self.assertEqual(f.readlines()[int(place[1]) - 1].strip(), place[2])

    def test_a_value_outside_of_its_scan(self):
        def outside(q, k, v, initial_state):
            scan(leaking, initial_state, q, k, v)
            return {"o": leaked[-1] * 2}

        said = r"a value of a step is read outside of its scan: return it from the step \(test_messages.py:\d+: .*leaked"
        with self.assertRaisesRegex(MechanismError, said):
            trace(outside)


DECLARATIONS = [
    (dict(q="T K", k="T-K"), "k: 'T-K' is neither axes, as in 'T K', nor param, int or bool"),
    (dict(q=3), "q: a declaration is a text, as in 'T K', not 3"),
    (dict(k="T K : gain low"), "k: 'gain low': after the domain stand low=, high= and unit="),
    (dict(k="T K : speed"), "k: there is no domain 'speed'; there are real"),
    (dict(k="T K = 0.1 + 0.2"), r"the default of k.*: 0\.\d+ is a binary number"),
    (dict(k="T K = nothing"), "the default of k, nothing: NameError: name 'nothing' is not defined"),
    (dict(k="int = 1/2"), "the default of k is 1/2, which is no integer"),
    (dict(k='T K = size("X")'), "default of k: no input has the axis X, so that its length is unknown"),
    (dict(k="T K = q @ q.T"), r"the default of k is \[real T T\], not \[real T K\]"),
    (dict(k="T K = __import__('os')"), "the default of k.*NameError"),
    (dict(k=" ".join("ABCDEFGHI")), "k: .* is neither axes"),
]


class Declarations(unittest.TestCase):
    def test_every_sentence(self):
        for declared, said in DECLARATIONS:
            with self.subTest(said=said), self.assertRaisesRegex(MechanismError, said):
                trace(lambda q, k, v, initial_state: {"o": q}, **declared)

    def test_functions(self):
        for function, said in (
            (lambda q, k, v, initial_state: q, r"a mechanism returns its outputs by name"),
            (lambda q, k, v, initial_state: {}, r"a mechanism returns its outputs by name"),
            (lambda q, k, v, initial_state: {3: q}, "the output 3 is no name"),
            (lambda q, k, v, initial_state: {"o o": q}, "the output 'o o' is no name"),
            (lambda q, k, v, initial_state: {"o": iota("X")}, "body: no input has the axis X"),
            (lambda q, k, v, initial_state: {"o": iota("T") == 0}, r"o: an output is real, not \[bool T\]"),
            (lambda q, k, v, initial_state: {"o": size("T") + 0.5}, "0.5 is a binary number"),
            (lambda q, k, v, initial_state, other: {"o": q}, "other is neither declared nor a setting"),
            (lambda q, k, v: {"o": q}, "initial_state is declared, and the function does not take it"),
            (lambda q, k, v, initial_state: {"o": cumsum(iota("T"))}, "cumsum: takes real numbers with a first axis"),
            (lambda q, k, v, initial_state: {"o": scan(lambda _, t: (None, t), None)}, "scan: needs at least one sequence"),
            (lambda q, k, v, initial_state: {"o": scan(lambda _, t, u: (None, t), None, q, iota("K"))}, "sequences of different first axes"),
            (lambda q, k, v, initial_state: {"o": scan(lambda _, t: (None, t), None, size("T"))}, "a sequence has a first axis"),
        ):
            with self.subTest(said=said), self.assertRaisesRegex(MechanismError, said):
                trace(function)

    def test_settings(self):
        def f(q, k, v, initial_state, kind=("plain", "other"), free=None):
            return {"o": q if kind == "plain" else k}

        f = mechanism(**D)(f)
        with self.assertRaisesRegex(MechanismError, "f has no setting 'kinds'; there is kind, free"):
            f.trace(kinds=1)
        with self.assertRaisesRegex(MechanismError, "f: there is no kind 'strange'; there is plain, other"):
            f.trace(kind="strange")
        with self.assertRaisesRegex(MechanismError, "f: the setting free is a text, an integer, a truth value or None, not 0.5"):
            f.trace(free=0.5)
        self.assertEqual(f.trace().settings, {"kind": "plain", "free": None})
        self.assertEqual(f.variants(), [{}, {"kind": "other"}])

    def test_a_refusal_leaves_nothing_behind(self):
        for _ in range(2):
            with self.assertRaises(MechanismError):
                trace(stepping(branch))
        self.assertTrue(mechanism(**D)(stepping(lambda S, q, k, v: (S + outer(k, v), q @ S))).trace())

    def test_too_many_nodes(self):
        def long(q, k, v, initial_state):
            for _ in range(100_001):
                q = exp(q)
            return {"o": q}

        with self.assertRaisesRegex(MechanismError, "the program has 100004 nodes, more than 100000"):
            trace(long)

    def test_deep_scans(self):
        def deeper(x, depth):
            return scan(lambda _, y: (None, deeper(x, depth - 1)), None, x)[1].sum() if depth else x.sum(-1).sum()

        trace(lambda q, k, v, initial_state: {"o": deeper(q, 16)})
        with self.assertRaisesRegex(MechanismError, "scan: scans are nested more than 16 deep"):
            trace(lambda q, k, v, initial_state: {"o": deeper(q, 17)})

    def test_exact_numbers(self):
        """Every way to write a tenth is one number."""
        digests = set()
        for tenth in ("0.1", "1/10", "1e-1", " +.1 ", fractions.Fraction(1, 10)):

            def f(x):
                return {"o": x * tenth + exp(-log(tenth))}

            digests.add(digest(mechanism(x="T")(f).trace()))
        self.assertEqual(len(digests), 1)
