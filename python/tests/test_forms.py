"""Chunk algorithms in the language: marks of rounding, and what modules of two folders that have one name do to each other."""
import pathlib
import tempfile
import unittest

import support  # noqa: F401
from assay.language import digest, iota, mechanism, round, scan, where, write
from assay.language.load import load


def marked(site="P", where_from=round):
    @mechanism(q="T K", k="T K", v="T V")
    def attention(q, k, v):
        def row(_, q, i):
            return None, where_from(where(iota("T") <= i, k @ q, 0), site) @ v

        return {"o": scan(row, None, q, iota("T"))[1]}

    return attention.trace()


class Marks(unittest.TestCase):
    def test_version_and_digest(self):
        plain, p = marked(where_from=lambda x, site: x), marked()
        self.assertEqual((plain.version(), p.version()), (1, 2))
        self.assertIn('"version":2', write(p))
        self.assertEqual(len({digest(x) for x in (plain, p, marked("Q"))}), 3)

    def test_a_mark_wants_a_name(self):
        @mechanism(x="T")
        def f(x):
            return {"y": round(x, "no name")}

        with self.assertRaisesRegex(Exception, "round: its attribute site is the name of a site"):
            f.trace()


class Forms(unittest.TestCase):
    def test_modules_of_one_name(self):
        """Two files that import modules of one name from their own folders."""
        with tempfile.TemporaryDirectory() as folder:
            for number in "12":
                at = pathlib.Path(folder, number)
                at.mkdir()
                (at / "common.py").write_text(f"FACTOR = {number}\n")
                (at / "f.py").write_text(
                    "from assay.language import mechanism\nfrom common import FACTOR\n\n\n"
                    '@mechanism(x="T")\ndef f(x):\n    return {"y": FACTOR * x}\n'
                )
            found = [digest(load(str(pathlib.Path(folder, number, "f.py")))["f"].trace()) for number in "12"]
        self.assertNotEqual(*found)
