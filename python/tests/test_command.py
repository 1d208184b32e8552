"""The command line: what it prints, what it writes, and its refusals: one sentence, exit code 2, nothing written."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import support
from assay.language import digest, gradient, read, write
from assay.language.command import main

GDN = str(support.LIBRARY / "gated_deltanet.py")
TWO = '''
from assay.language import mechanism
@mechanism(x="T")
def one(x):
    return {"o": x}
@mechanism(x="T")
def two(x, on=True, n=2):
    return {"o": x * n if on else x}
'''


def run(*arguments):
    """Exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(arguments))
        except SystemExit as stopped:
            code = stopped.code
    return code, out.getvalue(), err.getvalue()


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_check(self):
        code, out, err = run("check", GDN)
        self.assertEqual((code, err), (0, ""))
        with open(support.ROOT / "docs/mechanism-language.md") as f:
            self.assertIn(out, f.read())  # the page shows it whole
        self.assertIn(digest(support.program("gated_deltanet")), out)

    def test_check_a_program(self):
        path = self.file("p.json", write(support.program("gated_deltanet")))
        self.assertEqual(run("check", path), run("check", GDN))

    def test_every_program_can_be_shown(self):
        for name, settings in support.variants():
            path = self.file("p.json", write(support.program(name, settings, True)))
            code, out, err = run("check", path)
            self.assertEqual((code, err), (0, ""), name)
            size = support.program(name, settings, True).size()
            self.assertIn(f"size      {size} nodes; with gradients {size} nodes", out)
            sets = [x for k, v in settings for x in ("--set", f"{k}={v}")]
            code, out, err = run("check", "--gradient", *sets, str(support.LIBRARY / f"{name}.py"))
            self.assertEqual((code, err), (0, ""), name)
            self.assertNotIn("None =", out)

    def test_export(self):
        code, out, err = run("export", GDN, "--set", "error=undecayed")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, (support.LIBRARY / "json/gated_deltanet-error-undecayed.json").read_text())
        target = os.path.join(self.folder, "g.json")
        self.assertEqual(run("export", "--gradient", GDN, "-o", target), (0, "", ""))
        with open(target) as f:
            self.assertEqual(digest(read(f.read())), digest(gradient(support.program("gated_deltanet"))))

    def test_settings_on_the_command_line(self):
        two = self.file("two.py", TWO)
        for text in ("on=false", "on=true", "n=3", "n=-1"):
            code, out, err = run("check", two, "--mechanism", "two", "--set", text)
            self.assertEqual((code, err), (0, ""), text)
        self.assertIn("two, n = 2, on = false", run("check", two, "--mechanism", "two", "--set", "on=false")[1])

    def test_export_all(self):
        self.file("two.py", TWO)
        os.mkdir(os.path.join(self.folder, "json"))
        self.file("json/stale.json", "{}")
        self.assertEqual(run("export-all", self.folder)[0], 0)
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "json"))), ["one.json", "two.json"])

    def test_hostile_programs(self):
        """The longest chain and the deepest scans that a file may have, with states that wake one another: done in seconds."""
        chain = [["exp", [i]] for i in range(30_000)]
        long = {"format": "assay-mechanism", "version": 1, "name": "f", "settings": {}, "outputs": ["o"],
                "inputs": [{"name": "x", "type": "real T", "domain": "value", "default": None, "gradient": True}],
                "body": {"params": ["real T"], "nodes": chain, "results": [30_000]}}  # fmt: skip
        n = 12  # states, each of which takes the next one's value
        states, x = list(range(n)), n
        body = {"params": ["real"] * (n + 1) + ["real T"], "nodes": [["add", [n - 1, x]]], "results": [*states[1:], n + 2, 0]}
        for _ in range(15):
            scan = ["scan", [*states, n + 1, n + 1], {"carry": n, "xs": 1, "reverse": False, "body": body}]
            body = {**body, "nodes": [scan, ["get", [n + 2], {"i": 0}]], "results": [*states[1:], n + 3, n + 3]}
        scan = ["scan", [1] * n + [0, 0], {"carry": n, "xs": 1, "reverse": False, "body": body}]
        nodes = [["const", [], {"value": "0"}], scan, ["get", [2], {"i": 0}]]
        deep = {**long, "body": {"params": ["real T"], "nodes": nodes, "results": [3]}}
        for name, program in (("long", long), ("deep", deep)):
            begin = time.process_time()
            code, out, err = run("check", self.file("p.json", json.dumps(program)))
            self.assertEqual((code, err), (0, ""), name)
            self.assertIn("digest", out)
            self.assertLess(time.process_time() - begin, 60, name)

    def test_refusals(self):
        two, broken = self.file("two.py", TWO), self.file("broken.py", "def f(:\n")
        empty, failing = self.file("empty.py", "x = 1\n"), self.file("failing.py", "x = 1\nraise ValueError('no')\n")
        wrong = self.file("wrong.py", TWO.replace("* n", "* 0.5"))
        leaving = self.file("leaving.py", "import sys\nsys.exit(3)\n")
        torn = self.file("torn.json", write(support.program("gated_deltanet"))[:-9])
        target = os.path.join(self.folder, "out.json")
        for arguments, said in (
            (["check", "nowhere.py"], "nowhere.py: there is no such file"),
            (["check", "nowhere.json"], "nowhere.json: No such file or directory"),
            (["check", torn], "torn.json: this is no JSON"),
            (["check", self.folder], "there is no such file"),
            (["check", self.file("notes.txt", "x")], "expected a file of Python, NAME.py"),
            (["check", broken], "broken.py:1: "),
            (["check", empty], "empty.py: defines no mechanism"),
            (["check", failing], "failing.py: ValueError: no (failing.py:2: raise ValueError('no'))"),
            (["check", leaving], "leaving.py: SystemExit: 3"),
            (["check", wrong], '0.5 is a binary number: write "0.5" for the decimal'),
            (["check", two, "--mechanism", "three"], "two.py: there is no mechanism three; there is one, two"),
            (["check", GDN, "--set", "error=other"], "gated_deltanet: there is no error 'other'; there is decayed, undecayed"),
            (["check", GDN, "--set", "mode=1"], "gated_deltanet has no setting 'mode'"),
            (["check", str(support.LIBRARY / "json/kda.json"), "--set", "a=1"], "--set and --mechanism are for files of Python"),
            (["export", "--gradient", self.file("g.json", write(support.program("kda", (), True))), "-o", target], "its gradients need the name d_"),
            (["export", two, "-o", target], "two.py: has 2 mechanisms; say which with --mechanism"),
            (["export", wrong, "--mechanism", "two", "-o", target], "is a binary number"),
            (["export", GDN, "-o", os.path.join(self.folder, "no", "x.json")], "x.json: No such file or directory"),
        ):
            with self.subTest(arguments=arguments):
                code, out, err = run(*arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn(said, err)
                self.assertEqual(err.count("\n"), 1, err)
                self.assertFalse(os.path.exists(target))

    def test_usage(self):
        self.assertEqual(run()[0], 2)
        self.assertEqual(run("check", GDN, "--set", "error")[0], 2)

    def test_as_a_program(self):
        environment = {**os.environ, "PYTHONPATH": str(support.ROOT / "python")}
        found = subprocess.run([sys.executable, "-m", "assay.language", "export", GDN], capture_output=True, env=environment, cwd=self.folder)
        self.assertEqual(found.stdout, (support.LIBRARY / "json/gated_deltanet.json").read_bytes())
        found = subprocess.run([sys.executable, "-m", "assay.language", "check", "nowhere.py"], capture_output=True, env=environment, cwd=self.folder)
        self.assertEqual((found.returncode, found.stderr), (2, b"assay: nowhere.py: there is no such file\n"))


if __name__ == "__main__":
    unittest.main()
