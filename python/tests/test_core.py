"""The C++ core on the library's programs, as exported: the same digests, and the same outputs and gradients to 38 digits.

ASSAY names the program.
"""
import decimal
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy as np
import support
from assay.language import digest
from assay.language.core import program_of
from evaluate import evaluate
from fields import PRECISE, decimals
from test_gradients import cotangents, drawn

AT_ONCE = 40  # programs in one file; assay takes 64
LENGTHS = {**support.LENGTHS, "P": 0}


def texts(field, x):
    return [texts(field, y) for y in x] if isinstance(x, list) else str(field.one(x))


def posed(name, settings, field):
    """A case of a program, its mechanism the exported file and its digest; and what is expected, by name."""
    p, rng = support.program(name, settings), random.Random(f"{name} {settings}")
    given = {k: x for k, x in drawn(p, rng, LENGTHS).items() if not k.startswith("tail_")}
    cotangent = cotangents(p, rng, LENGTHS)
    file = support.exported(name, settings)
    inputs = {i.name: given[i.name] for i in p.inputs if i.name in given}
    written = {k: x if isinstance(x, int) else texts(field, np.asarray(x, dtype=object).tolist()) for k, x in inputs.items()}
    params = [i.name for i in p.inputs if not i.gradient]
    case = {
        "id": file,
        "mechanism": f"{support.LIBRARY}/json/{file}.json@{digest(p)}",
        "params": {k: x for k, x in written.items() if k in params},
        "inputs": {k: x for k, x in written.items() if k not in params},
        "cotangents": {k: texts(field, x.tolist()) for k, x in cotangent.items()},
    }
    expected = evaluate(support.program(name, settings, True), {**given, **{"d_" + k: x for k, x in cotangent.items()}}, field, LENGTHS)
    return case, expected


class Core(unittest.TestCase):
    def test_every_program(self):
        field = decimals()
        with decimal.localcontext(PRECISE), tempfile.TemporaryDirectory() as folder:
            every = [posed(name, settings, field) for name, settings in support.variants()]
            for at in range(0, len(every), AT_ONCE):
                part = every[at : at + AT_ONCE]
                answers = self.answers([case for case, _ in part], pathlib.Path(folder))
                self.assertEqual(len(answers), len(part))
                for answer, (case, expected) in zip(answers, part):
                    with self.subTest(case["id"]):
                        self.assertEqual(answer["status"], "OK", answer.get("message"))
                        self.compare(answer["outputs"] | {"d_" + k: x for k, x in answer["gradients"].items()}, expected)

    def test_published_cases(self):
        """Of every room but one; 40 digits of every tensor, which others have computed. That programs are the rooms is the law
        Library.ProgramsOfTheRoomsAreTheRooms."""
        cases = json.loads(pathlib.Path(__file__).with_name("answers.json").read_text())["cases"]
        with decimal.localcontext(PRECISE), tempfile.TemporaryDirectory() as folder:
            for case, answer in zip(cases, self.answers(cases, pathlib.Path(folder)), strict=True):
                for part in ("outputs", "gradients"):
                    wanted = {k: support.decimals_of(x) for k, x in case["expect"].get(part, {}).items()}
                    finite = {k: x for k, x in wanted.items() if all(number.is_finite() for number in x.flat)}  # no scores of hidden keys
                    with self.subTest(case["id"]):
                        self.compare({k: answer[part][k] for k in finite}, finite)

    def test_order_of_outputs(self):
        """Outputs in another order, and so the nodes: the same digest from both readers."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            source = json.loads(pathlib.Path(support.LIBRARY, "json", "kda.json").read_text())
            source["outputs"] = ["z", "a"]
            (folder / "p.json").write_text(json.dumps(source))
            named = f"{folder}/p.json@{digest(program_of(source))}"
            given = {"q": [["1"]], "k": [["1"]], "v": [["2"]], "beta": ["1"], "log_decay": [["0"]]}
            case = {"id": "swapped", "mechanism": named, "params": {}, "inputs": given, "cotangents": {}}
            (answer,) = self.answers([case], folder)
            self.assertEqual(answer["status"], "OK", answer.get("message"))
            self.assertEqual(sorted(answer["outputs"]), ["a", "z"])

    def answers(self, cases, folder):
        (folder / "cases.json").write_text(json.dumps({"format": "assay-cases", "version": 1, "cases": cases}))
        command = [os.environ["ASSAY"], "oracle", str(folder / "cases.json"), "--digits", "60", "-o", str(folder / "answers.json")]
        subprocess.run(command, check=True)
        return json.loads((folder / "answers.json").read_text())["cases"]

    def compare(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, x in expected.items():
            if np.size(x) == 0:
                self.assertEqual(found[name], [])
                continue
            d = support.distance(support.decimals_of(found[name]), np.asarray(x, dtype=object))
            self.assertTrue(d <= decimal.Decimal("1e-38"), f"{name}: off by {d:.2e} of its largest element")
