"""assay mechanism check|export|equal, on Python and on JSON, and what is written with it; ASSAY names the program."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support
from assay.language import MechanismError, digest, gradient, read, write
from assay.language.load import load

FORMS = support.LIBRARY / "forms"
# Mechanisms of the library that do not obey a law, with some setting at least.
BROKEN = {
    "continuation": {"falcon3", "falcon3a", "linear_attention", "rls"},  # they count tokens, or a tail of pairs does not come in again
    "linearity": {"atlas", "differential_attention", "gated_oja_rule", "memora", "moneta", "rg_lru", "simplicial_attention", "ttt_linear",
                  "ttt_mlp", "yaad"},
}  # fmt: skip


def run(*arguments):
    """Exit code, output, and what was said on standard error."""
    ran = subprocess.run([os.environ["ASSAY"], "mechanism", *map(str, arguments)], text=True, capture_output=True)
    return ran.returncode, ran.stdout, ran.stderr


class Check(unittest.TestCase):
    def test_every_program(self):
        """The core says what Python says, a program's digest and its size, and measures its laws."""
        broken = {"continuation": set(), "linearity": set()}
        for name, settings in support.variants():
            file = support.exported(name, settings)
            with self.subTest(file):
                code, out, said = run("check", support.LIBRARY / "json" / f"{file}.json", "--json")
                self.assertEqual((code, said), (0, ""))
                p, found = support.program(name, settings), json.loads(out)
                self.assertEqual((found["digest"], found["nodes"]), (digest(p), p.size()))
                laws = {x["law"]: x["holds"] for x in found["laws"]}
                self.assertTrue(laws["causality"] and laws["heads"], found["laws"])
                for law, names in broken.items():
                    names |= set() if laws.get(law, True) else {name}
        self.assertEqual(broken, BROKEN)


class Export(unittest.TestCase):
    def test_marks(self):
        (form,) = load(str(FORMS / "kda.py")).values()
        self.assertEqual(run("export", FORMS / "kda.py"), (0, write(form.trace()) + "\n", ""))
        count = lambda p: write(p).count('{"site":"bK"}')
        self.assertEqual(count(gradient(form.trace())), 3 * count(form.trace()))  # forward, again on the way back, and the cotangent

    def test_gradients(self):
        """A program like any other, in canonical form; name, settings and hints stay."""
        for name in ("gated_deltanet", "softmax_attention", "lla"):
            with self.subTest(name):
                p, g = support.program(name), support.program(name, (), True)
                written = lambda inputs: [i.to_json() for i in inputs]
                self.assertEqual((g.name, g.settings, written(g.inputs[: len(p.inputs)])), (p.name, p.settings, written(p.inputs)))
                self.assertEqual([i.name for i in g.inputs[len(p.inputs) :]], ["d_" + o for o in p.outputs])
                self.assertEqual(g.outputs, sorted(p.outputs + ["d_" + i.name for i in p.inputs if i.gradient]))
                self.assertEqual(write(read(write(g))), write(g))
        with self.assertRaisesRegex(MechanismError, "its gradients: two inputs are called d_final_state"):
            gradient(support.program("kda", (), True))

    def test_what_the_core_refuses(self):
        """In one sentence, which names no file of ours."""
        good = write(support.program("gated_deltanet"))
        for text, words in ((good[:-9], ""), (b"\xff", ""), (good.replace('"exp"', '"expp"'), r"^body\.0: node 0 \(expp\): there is no operation")):
            with self.subTest(words), self.assertRaisesRegex(MechanismError, words) as refused:
                read(text)
            self.assertNotIn("\n", str(refused.exception))
            self.assertNotIn("program.json", str(refused.exception))


class Written(unittest.TestCase):
    """The files in the tree are those that these write."""

    def written(self, *command):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", *command, folder], check=True, stdout=subprocess.DEVNULL)
            return {f.name: f.read_text(encoding="utf-8") for f in pathlib.Path(folder).iterdir()}

    def in_tree(self, folder):
        return {f.name: f.read_text(encoding="utf-8") for f in folder.iterdir()}

    def test_pages(self):
        for folder in (support.LIBRARY, support.LIBRARY / "stages"):
            command = [support.ROOT / "tools/dev/mechanism_pages.py", folder, "--tool", os.environ["ASSAY"], "--out"]
            self.assertEqual(self.written(*command), self.in_tree(folder / "pages"))

    def test_identities(self):
        source = support.LIBRARY / "identities"
        self.assertEqual(self.written(source / "write.py"), self.in_tree(source / "json"))


class Equal(unittest.TestCase):
    def test_chunk_forms(self):
        """40 tokens are two chunks and a half; outputs and gradients, by enclosures. Sites are marked."""
        for file in sorted(FORMS.glob("*.py")):
            if file.stem == "chunks":
                continue
            with self.subTest(file.stem):
                form = next(iter(load(str(file)).values())).trace()
                self.assertEqual((form.outputs, form.version()), (support.program(file.stem).outputs, 2))
                code, out, said = run("equal", support.LIBRARY / file.name, file, "--json")
                self.assertEqual((code, said), (0, ""), out)
                found = json.loads(out)
                self.assertTrue(found["equal"])
                names = {x["tensor"] for x in found["tensors"]}
                self.assertLessEqual({*form.outputs, "d_q", "d_k", "d_v"}, names)
                for x in found["tensors"]:
                    self.assertLessEqual(x["bound"], 2.0**-95 * x["largest"], x)
