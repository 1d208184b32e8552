"""The command line that traces: what it writes, and its refusals: one sentence, exit code 2, nothing written."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import support
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

    def test_export(self):
        code, out, err = run("export", GDN, "--set", "error=undecayed")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, (support.LIBRARY / "json/gated_deltanet-error-undecayed.json").read_text())
        target = os.path.join(self.folder, "g.json")
        self.assertEqual(run("export", GDN, "-o", target), (0, "", ""))
        with open(target) as f:
            self.assertEqual(f.read(), (support.LIBRARY / "json/gated_deltanet.json").read_text())

    def test_settings_on_the_command_line(self):
        two = self.file("two.py", TWO)
        for text, written in (("on=false", '{"n":2,"on":false}'), ("on=true", '{"n":2,"on":true}'), ("n=-1", '{"n":-1,"on":true}')):
            code, out, err = run("export", two, "--mechanism", "two", "--set", text)
            self.assertEqual((code, err), (0, ""), text)
            self.assertIn(f'"settings":{written}', out)

    def test_export_all(self):
        self.file("two.py", TWO)
        os.mkdir(os.path.join(self.folder, "json"))
        self.file("json/stale.json", "{}")
        self.assertEqual(run("export-all", self.folder)[0], 0)
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "json"))), ["one.json", "two.json"])

    def test_refusals(self):
        two, broken = self.file("two.py", TWO), self.file("broken.py", "def f(:\n")
        empty, failing = self.file("empty.py", "x = 1\n"), self.file("failing.py", "x = 1\nraise ValueError('no')\n")
        wrong = self.file("wrong.py", TWO.replace("* n", "* 0.5"))
        leaving = self.file("leaving.py", "import sys\nsys.exit(3)\n")
        target = os.path.join(self.folder, "out.json")
        for arguments, said in (
            (["export", "nowhere.py"], "nowhere.py: there is no such file"),
            (["export", self.folder], "there is no such file"),
            (["export", self.file("notes.txt", "x")], "expected a file of Python, NAME.py"),
            (["export", broken], "broken.py:1: "),
            (["export", empty], "empty.py: defines no mechanism"),
            (["export", failing], "failing.py: ValueError: no (failing.py:2: raise ValueError('no'))"),
            (["export", leaving], "leaving.py: SystemExit: 3"),
            (["export", two, "--mechanism", "three"], "two.py: there is no mechanism three; there is one, two"),
            (["export", GDN, "--set", "error=other"], "gated_deltanet: there is no error 'other'; there is decayed, undecayed"),
            (["export", GDN, "--set", "mode=1"], "gated_deltanet has no setting 'mode'"),
            (["export", two, "-o", target], "two.py: has 2 mechanisms; say which with --mechanism"),
            (["export", wrong, "--mechanism", "two", "-o", target], '0.5 is a binary number: write "0.5" for the decimal'),
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
        self.assertEqual(run("export", GDN, "--set", "error")[0], 2)

    def test_as_a_program(self):
        environment = {**os.environ, "PYTHONPATH": str(support.ROOT / "python")}
        export = lambda file: subprocess.run(
            [sys.executable, "-m", "assay.language", "export", file], capture_output=True, env=environment, cwd=self.folder
        )
        self.assertEqual(export(GDN).stdout, (support.LIBRARY / "json/gated_deltanet.json").read_bytes())
        found = export("nowhere.py")
        self.assertEqual((found.returncode, found.stderr), (2, b"assay: nowhere.py: there is no such file\n"))
