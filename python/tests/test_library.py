"""The library as a whole: its exported programs, what its docstrings and pages say, and its length."""
import inspect
import pathlib
import re
import statistics
import tempfile
import unittest

import support
from assay.language import MechanismError, digest, exp, mechanism, outer, scan, size, sqrt, zeros
from assay.language.command import library
from assay.language.functions import WORDS
from assay.language.infer import OPS
from assay.language.load import load
from assay.language.program import Type
from assay.language.scope import Scope

# Rooms that have no program, and why.
WITHOUT = {"stable_rank": "a largest singular value is the limit of an iteration"}


# Mechanisms whose source has no number of arXiv's.
WITHOUT_NUMBER = {
    **{name: "FALCON, a paper that is not there" for name in
       ("falcon1", "falcon2", "falcon2_lite", "falcon2a", "falcon3", "falcon3a", "rls")},
    "gated_oja_rule": "a note in flash-linear-attention",
    "qwen_sparse_attention": "a report of its authors",
    "raven": "a paper in its authors' repository",
    "value_averaging": "a limit of softmax attention",
    "wall_attention": "a page of Tilde Research",
}  # fmt: skip


def mathematics(m):
    """The lines of a function that are neither its head, nor its words, nor empty."""
    lines = inspect.getsource(m.function).split('"""', 2)[-1].splitlines()
    return [line for line in lines if line.strip()]


class Library(unittest.TestCase):
    def test_every_room_has_a_program_or_a_reason(self):
        self.assertEqual({r for r in support.rooms() if r not in support.library()}, set(WITHOUT))

    def test_exported_programs_are_those_of_the_files(self):
        """python -m assay.language export-all mechanisms writes them again."""
        for source in (support.LIBRARY, support.LIBRARY / "forms", support.LIBRARY / "stages"):
            folder, wanted = source / "json", dict(library(str(source)))
            self.assertEqual(sorted(f.name for f in folder.iterdir()), sorted(wanted))
            for name, text in wanted.items():
                self.assertEqual((folder / name).read_text(encoding="utf-8"), text, name)

    def test_a_mechanism_calls_another(self):
        """On axes of other names, with its defaults; what is missing or does not fit is said."""

        mamba2 = support.library()["mamba2"]

        @mechanism(a="N K", b="N W", decay="N")
        def caller(a, b, decay):
            return {"o": mamba2(q=a, k=a, v=b, log_decay=-decay)["o"]}

        @mechanism(a="N K", b="N W", decay="N")
        def same(a, b, decay):
            scale = 1 / sqrt(size("K"))

            def step(S, q, k, v, g):
                S = exp(g) * S + outer(k, v)
                return S, scale * (q @ S)

            return {"o": scan(step, zeros("K", "W"), a, a, b, -decay)[1]}

        self.assertEqual(digest(caller.trace()), digest(same.trace()))
        with Scope([Type("real", ("N", "K"))]) as scope:
            q = scope.value(0)
            for given, why in (({}, "mamba2: k is missing"), ({"k": q, "v": q, "log_decay": q}, "mamba2: log_decay is .real N K. and needs .real T.")):
                with self.subTest(why), self.assertRaisesRegex(MechanismError, why):
                    mamba2(q=q, **given)

    def test_each_says_what_it_is(self):
        for name, m in support.library().items():
            with self.subTest(name):
                self.assertTrue(m.__doc__ and m.__doc__.strip().endswith("."), "a docstring: the equation, and where it is from")
                self.assertIn(f"{name}.py", m.function.__code__.co_filename)

    def test_each_cites_its_paper(self):
        """By its arXiv number, on its page as well; the others are said to have none."""
        for name, m in support.library().items():
            with self.subTest(name):
                page = (support.LIBRARY / "pages" / f"{name}.md").read_text(encoding="utf-8")
                cited = re.findall(r"arXiv (\d{4}\.\d{4,5})", " ".join(m.__doc__.split()))
                self.assertEqual(bool(cited), name not in WITHOUT_NUMBER, "a paper's arXiv number, or a reason in WITHOUT_NUMBER")
                for number in cited:
                    self.assertIn(number, page)
                self.assertRegex(m.__doc__, r"[=:]", "its equation")

    def test_they_are_short(self):
        lines = {name: len(mathematics(m)) for name, m in support.library().items()}
        self.assertLessEqual(statistics.median(lines.values()), 15, lines)
        self.assertLessEqual(max(lines.values()), 25, lines)

    def test_outputs_and_inputs_are_documented_names(self):
        page = (support.ROOT / "docs/case-format.md").read_text()
        for room in set(support.rooms()) - set(WITHOUT):
            p = support.program(room)
            for name in [i.name for i in p.inputs] + p.outputs:
                self.assertIn(f"`{name}`" if f"`{name}`" in page else name, page, f"{room}: {name}")


class Page(unittest.TestCase):
    def test_its_examples(self):
        """docs/mechanism-language.md: the first example is the library's, and the library has as many as it says."""
        page = (support.ROOT / "docs/mechanism-language.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "example.py")
            file.write_text(page.split("```python\n", 1)[1].split("```", 1)[0])
            (m,) = load(str(file)).values()
            self.assertEqual(digest(m.trace()), digest(support.program("gated_deltanet")))
        self.assertIn(f"has {len(support.library())} examples", page)

    def test_it_lists_all_operations_and_words(self):
        page = (support.ROOT / "docs/mechanism-language.md").read_text()
        table = page.partition("| operations | attributes")[2].partition("**Canonical form.**")[0]
        self.assertIn(f"The {len(OPS)} operations", page)
        for op in OPS:
            self.assertRegex(table, rf"`[a-z ]*\b{op}\b[a-z ]*`")
        words = page.partition("## Words")[2].partition("## The file")[0]
        for word in set(WORDS) - {"real"}:
            self.assertRegex(words, rf"\b{word}\b")
