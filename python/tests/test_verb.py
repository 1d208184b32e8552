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
# Errors of algebra in a chunk algorithm: what is replaced by what.
PLANTED = {
    "deltanet": ("strict, b[:, None]", "strict.T, b[:, None]"),  # the triangle on the other side
    "gated_deltanet": ("exp(last - c)[:, None] * new", "exp(-c)[:, None] * new"),  # writes that do not decay to the chunk's end
    "kda": ('round(b[:, None] * up, "bK")', 'round(b[:, None] * k, "bK")'),  # the old state read without its decay
}
# Mechanisms of the library that do not obey a law, with some setting at least.
BROKEN = {
    "continuation": {"falcon3", "falcon3a", "linear_attention", "rls"},  # they count tokens, or a tail of pairs does not come in again
    "linearity": {"atlas", "differential_attention", "gated_oja_rule", "memora", "moneta", "rg_lru", "simplicial_attention", "ttt_linear",
                  "ttt_mlp", "yaad"},
}  # fmt: skip


def run(*arguments, path=None):
    """Exit code, output, and what was said on standard error."""
    environment = os.environ if path is None else {**os.environ, "PATH": path}
    ran = subprocess.run([os.environ["ASSAY"], "mechanism", *map(str, arguments)], text=True, capture_output=True, env=environment)
    return ran.returncode, ran.stdout, ran.stderr


class Check(unittest.TestCase):
    def test_every_program(self):
        """The core says what Python says, a program's digest and its size, and measures its laws."""
        broken = {"continuation": set(), "linearity": set()}
        for name, settings in support.variants():
            suffix = "".join(f"-{k}-{str(v).replace(' ', '') or 'one'}" for k, v in settings)
            with self.subTest(name + suffix):
                code, out, said = run("check", support.LIBRARY / "json" / f"{name}{suffix}.json", "--json")
                self.assertEqual((code, said), (0, ""))
                p, found = support.program(name, settings), json.loads(out)
                self.assertEqual((found["digest"], found["nodes"]), (digest(p), p.size()))
                laws = {x["law"]: x["holds"] for x in found["laws"]}
                self.assertTrue(laws["causality"] and laws["heads"], found["laws"])
                for law, names in broken.items():
                    names |= set() if laws.get(law, True) else {name}
        self.assertEqual(broken, BROKEN)

    def test_laws(self):
        laws = lambda *a: {x["law"]: x for x in json.loads(run("check", *a, "--json")[1])["laws"]}
        found = laws(support.LIBRARY / "gated_deltanet.py")
        self.assertTrue(all(x["holds"] for x in found.values()), found)
        self.assertEqual(set(found), {"causality", "continuation", "heads", "linearity", "permutation"})
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "f.py")
            file.write_text(
                "from assay.language import iota, mechanism, outer, scan, shift\n\n\n"
                '@mechanism(q="T K", k="T K", v="T V", initial_state="K V = 0")\n'
                "def f(q, k, v, initial_state):\n"
                '    k = shift(k, -2) * (1 + iota("K"))\n'
                "    S, o = scan(lambda S, q, k, v: (S + outer(k, v * v), q @ S), initial_state, q, k, v)\n"
                '    return {"o": o, "final_state": S}\n'
            )
            found = laws(file)
            out = run("check", file)[1]
        self.assertEqual({k for k, x in found.items() if x["holds"]}, {"heads", "permutation"} & set(found))
        self.assertIn("NOT: row t of o reads nothing of tokens beyond t (off by ", out)

    def test_messages(self):
        with tempfile.TemporaryDirectory() as folder:
            bad = pathlib.Path(folder, "gdn.py")
            bad.write_text(
                "from assay.language import mechanism, outer\n\n\n"
                '@mechanism(k="K", v="V", S="K V")\ndef gdn(k, v, S):\n    return {"S": S + outer(v, k)}\n'
            )
            code, out, said = run("check", bad)
            self.assertEqual((code, out), (2, ""))
            self.assertEqual(
                said, "assay: gdn: add: axis V meets axis K, of [K V] and [V K] (gdn.py:6: return {\"S\": S + outer(v, k)})\n"
            )
            program = pathlib.Path(folder, "gdn.json")
            program.write_text("{}")
            self.assertEqual(run("check", program)[0], 2)
            for arguments, words in (
                (("check", pathlib.Path(folder, "none.py")), "none.py: there is no such file"),
                (("check", pathlib.Path(folder, "gdn.txt")), "expected FILE.py, a mechanism in Python, or FILE.json, a program"),
                (("check", support.LIBRARY / "json/kda.json", "--set", "a=1"), "a program has its settings already"),
                (("check", support.LIBRARY / "kda.py", "--set", "a=1"), "kda has no setting 'a'"),
            ):
                code, out, said = run(*arguments)
                self.assertEqual((code, out), (2, ""), said)
                self.assertIn(words, said)
                self.assertEqual(said.count("\n"), 1)

    def test_without_python(self):
        """A program as JSON needs none; a file of Python says what it needs."""
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("sh", "env"):
                os.symlink(f"/bin/{tool}", pathlib.Path(folder, tool))
            self.assertEqual(run("check", support.LIBRARY / "json/kda.json", path=folder)[0], 0)
            code, out, said = run("check", support.LIBRARY / "kda.py", path=folder)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("kda.py: there is no python3 to read it; a program as JSON", said)


class Export(unittest.TestCase):
    def test_python_and_json(self):
        for name in ("falcon1", "lla", "mamba3"):
            text = write(support.program(name)) + "\n"
            for file in (support.LIBRARY / f"{name}.py", support.LIBRARY / "json" / f"{name}.json"):
                self.assertEqual(run("export", file), (0, text, ""))
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder, "out.json")
            self.assertEqual(run("export", support.LIBRARY / "falcon1.py", "--set", "alignment=same_step", "-o", target)[0], 0)
            self.assertEqual(target.read_text(), write(support.program("falcon1", (("alignment", "same_step"),))) + "\n")

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
    """What is in the tree is what these write."""

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
        """40 tokens are two chunks and a half; outputs and gradients, by enclosures."""
        for file in sorted(FORMS.glob("*.py")):
            if file.stem == "chunks":
                continue
            with self.subTest(file.stem):
                code, out, said = run("equal", support.LIBRARY / file.name, file, "--json")
                self.assertEqual((code, said), (0, ""), out)
                found = json.loads(out)
                self.assertTrue(found["equal"])
                names = {x["tensor"] for x in found["tensors"]}
                self.assertLessEqual({"o", "final_state", "d_q", "d_k", "d_v", "d_beta", "d_initial_state", "d_scale"} - {"d_scale"}, names)
                for x in found["tensors"]:
                    self.assertLess(x["bound"], 2.0**-95 * x["largest"], x)

    def test_planted_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "chunks.py").write_text((FORMS / "chunks.py").read_text())
            for name, (right, wrong) in PLANTED.items():
                with self.subTest(name):
                    source = (FORMS / f"{name}.py").read_text()
                    self.assertEqual(source.count(right), 1)
                    file = pathlib.Path(folder, f"{name}.py")
                    file.write_text(source.replace(right, wrong))
                    code, out, said = run("equal", support.LIBRARY / f"{name}.py", file)
                    self.assertEqual((code, said), (1, ""), out)
                    self.assertIn("DIFFERENT: the two do not compute the same.", out)

    def test_settings_and_shapes(self):
        a, b = support.LIBRARY / "deltanet.py", FORMS / "deltanet.py"
        self.assertEqual(run("equal", a, b, "--form-set", "chunk=4", "--shape", "1,9,1,3,2", "--seed", "3")[0], 0)
        self.assertEqual(run("equal", a, a, "--set", "alignment=next_latent", "--shape", "1,6,1,3,2")[0], 1)
        self.assertEqual(run("equal", a, a, "--shape", "1,6,1,3,2")[0], 0)
        code, _, said = run("equal", a, support.LIBRARY / "gla.py")
        self.assertEqual(code, 2)
        self.assertEqual(said, "assay: gla wants log_decay, which deltanet has not\n")
