"""The core on the library's programs: what it answers is what the functions themselves give on arrays of NumPy, and its gradients are
quotients of differences of its own answers, of 60 digits. ASSAY names the program."""
import decimal
import json
import pathlib
import random
import re
import tempfile
import unittest

import numpy as np
import support
from assay.language import const, cumsum, detach, exp, iota, log, logsumexp, maximum, mechanism, minimum, outer, scan, shift, sigmoid
from assay.language import softmax, softplus, solve, sqrt, tanh, where
from assay.language.core import program_of
from assay.language.infer import OPS

D = decimal.Decimal
LENGTHS = {**support.LENGTHS, "P": 0}
STEP = D("1e-15")  # its digits are lost of the 60, and its square is the error of a quotient, but for a factor:
THIRD = 100_000  # what third derivatives along a direction may come to, beside first ones
PYTHON_NAME = {"lambda": "lam"}


def arrays_of(given):
    """Inputs of the program as the function takes them."""
    return {PYTHON_NAME.get(k, k): x if isinstance(x, int) else np.array(x, float) if np.ndim(x) else float(x[()]) for k, x in given.items()}


def operations(program):
    return set(re.findall(r'\["([a-z_]+)",\[', json.dumps(program.to_json(), separators=(",", ":"))))


class Problem:
    """A program, its inputs, and a direction of all of them at once."""

    def __init__(self, program, function, rng, lengths=LENGTHS):
        self.program, self.function, self.lengths = program, function, lengths
        self.given = {k: x for k, x in support.drawn(program, rng, lengths).items() if not k.startswith("tail_")}
        self.cotangents = support.cotangents(program, rng, lengths)
        self.along = {i.name: support.fractions_of(rng, np.shape(self.given[i.name])) for i in program.inputs if i.gradient and i.name in self.given}

    def asked(self):
        moved = lambda step: self.given | {k: np.asarray(self.given[k] + step * x) for k, x in self.along.items()}
        return [(self.program, self.given, self.cotangents), (self.program, moved(STEP), {}), (self.program, moved(-STEP), {})]

    def judge(self, test, here, up, down):
        if self.function is not None:
            on_arrays = self.function(lengths=self.lengths, **arrays_of(self.given), **self.program.settings)
            test.assertEqual(sorted(on_arrays), sorted(up))
            for o, x in ((o, np.asarray(here[o], float)) for o in on_arrays):
                np.testing.assert_allclose(on_arrays[o], x, rtol=1e-12, atol=1e-13 * max(1, np.abs(x).max(initial=0)), err_msg=o)
        if "detach" in operations(self.program):  # rooms: Library.ProgramsOfTheRoomsAreTheRooms
            return
        slopes = {k: (here["d_" + k], x) for k, x in self.along.items()}
        quotient = support.total((x, up[o] - down[o]) for o, x in self.cotangents.items()) / (2 * STEP)
        size = support.total((abs(a), abs(b)) for a, b in slopes.values()) or 1
        off = abs(quotient - support.total(slopes.values())) / size
        test.assertTrue(off < THIRD * STEP**2, f"gradients are off by {off:.2e}: {({k: f'{support.total([x]):.3e}' for k, x in slopes.items()})}")


def judge(test, problems):
    with decimal.localcontext(support.PRECISE):
        found = iter(support.answers([one for problem in problems for one in problem.asked()]))
        for problem, *answers in zip(problems, found, found, found):
            with test.subTest(problem.program.name, **problem.program.settings):
                problem.judge(test, *answers)


# One function for each rule that the library may not reach.
@mechanism(x="T K", y="T K", lone="", b="bool = true", n="int = 3")
def every_operation(x, y, lone, b, n):
    t = iota("T")
    both = where(b & (x < y) | ~(x <= lone), maximum(x, y) * abs(y), minimum(x, lone)) + where((t == 1)[:, None], x / (2 + y * y), 0)
    some = tanh(x) + sigmoid(y) + softplus(x - y) + sqrt(1 + x * x) + log(2 + y) + exp(x) + (2 + x) ** n + (2 + y) ** -2 + x ** 0
    seen = t[:, None] <= t
    rows = softmax(x @ y.T, seen) @ x + logsumexp(y @ x.T, seen)[:, None] * y
    moved = shift(x, 2) - shift(y, -1) + cumsum(x) * cumsum(y, reverse=True)

    def back(S, x, y):
        inner, parts = scan(lambda c, u: (c * u, (c + u, u * u)), lone, x)
        S = S * x.sum() + inner * y + parts[0] @ y
        return S, (S * lone, -S)

    A = x.T @ x + where(iota("K")[:, None] == iota("K"), 1 + lone * lone, 0)
    solved = solve(A + outer(x.sum(0), y.sum(0)), y.T).T + solve(A, x.T, definite=True).T + outer(y.sum(-1), solve(A, x.sum(0), definite=True))

    S, (u, w) = scan(back, y.sum(0), x, y, reverse=True)
    return {"o": both + some + rows + moved + solved, "S": S, "u": u * w, "lone": lone * const("1/3")}


class Core(unittest.TestCase):
    def test_every_program(self):
        judge(self, [Problem(support.program(*v), support.library()[v[0]], random.Random(f"{v}")) for v in support.variants()])

    def test_every_operation(self):
        p = every_operation.trace()
        used = operations(p).union(*(operations(support.program(*v)) for v in support.variants()))
        self.assertEqual(used, set(OPS) - {"round"})  # a mark, of chunk forms alone
        judge(self, [Problem(p, every_operation, random.Random(1))])

    def test_gradients_of_gradients(self):
        """A gradient program is a program: here is its own gradient."""
        problems = []
        for name in ("gated_deltanet", "softmax_attention"):
            p = support.program(name, (), True)
            inputs = [type(i)(i.name.replace("d_", "along_"), i.type, i.domain, i.default, i.gradient or i.domain == "cotangent", i.hint) for i in p.inputs]
            problems.append(Problem(type(p)(p.name, inputs, p.body, [o.replace("d_", "slope_") for o in p.outputs], p.settings), None, random.Random(name)))
        judge(self, problems)

    def test_ties_and_kinks(self):
        """max: to the first where it is strictly larger, else to the second; abs at 0: nothing; detach: nothing."""

        @mechanism(x="", y="")
        def kinks(x, y):
            return {"o": maximum(x, y) + 10 * abs(x) + 100 * detach(x) * (1 + y)}

        (found,) = support.answers([(kinks.trace(), {"x": D(0), "y": D(0)}, {"o": D(1)})])
        self.assertEqual([int(found["d_x"]), int(found["d_y"])], [0, 1])

    def test_published_cases(self):
        """40 digits of every tensor, which others have computed: of every room but one (that programs are the rooms is the law
        Library.ProgramsOfTheRoomsAreTheRooms), and of every program that is no room. The digits of these are those of their papers' sums
        and loops in decimals of 110 digits, without a scan; the gradients are central differences in every element."""
        files = (pathlib.Path(__file__).with_name("answers.json"), support.ROOT / "fixtures/library.json")
        of_rooms, of_others = (json.loads(file.read_text())["cases"] for file in files)
        self.assertEqual({case["id"] for case in of_others}, {support.exported(*v) for v in support.variants() if v[0] not in support.rooms()})
        cases = of_rooms + of_others
        with decimal.localcontext(support.PRECISE), tempfile.TemporaryDirectory() as folder:
            for case, answer in zip(cases, support.answered(cases, folder), strict=True):
                for part in ("outputs", "gradients"):
                    for name, x in case["expect"].get(part, {}).items():
                        x = support.decimals_of(x)
                        if x.size and all(number.is_finite() for number in x.flat):  # no scores of hidden keys
                            with self.subTest(case["id"], name=name):
                                self.assertTrue(support.distance(support.decimals_of(answer[part][name]), x) <= D("1e-38"))

    def test_order_of_outputs(self):
        """Outputs in another order, and so the nodes: the same digest from both readers."""
        source = json.loads(pathlib.Path(support.LIBRARY, "json", "kda.json").read_text())
        p = program_of({**source, "outputs": ["z", "a"]})
        given = {"q": [["1"]], "k": [["1"]], "v": [["2"]], "beta": ["1"], "log_decay": [["0"]]}
        (found,) = support.answers([(p, {k: support.decimals_of(x) for k, x in given.items()}, {})])
        self.assertEqual(sorted(found), ["a", "z"])
