"""The library as a whole: its exported programs, its pages' worth of words, its length, and the laws that its programs show."""
import inspect
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

import support
from assay.language import MechanismError, contract, digest, exp, iota, mechanism, outer, scan, shift, size, softmax, sqrt, where, zeros
from assay.language.causality import causal_outputs
from assay.language.command import library, pages
from assay.language.continuation import continues, state_pairs
from assay.language.functions import WORDS
from assay.language.infer import OPS
from assay.language.laws import laws
from assay.language.linearity import AFFINE, LINEAR, OTHER, ZERO, linear_in
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
    "raven": "a paper in its authors' repository",
    "value_averaging": "a limit of softmax attention",
    "wall_attention": "a page of Tilde Research",
}  # fmt: skip


def rooms():
    lines = (support.ROOT / "mechanisms.def").read_text().splitlines()
    return [line.partition("(")[2].rstrip(")") for line in lines if line.startswith(("MECHANISM(", "REFERENCE("))]


def mathematics(m):
    """The lines of a function that are neither its head, nor its words, nor empty."""
    lines = inspect.getsource(m.function).split('"""', 2)[-1].splitlines()
    return [line for line in lines if line.strip()]


class Library(unittest.TestCase):
    def test_every_room_has_a_program_or_a_reason(self):
        self.assertEqual({r for r in rooms() if r not in support.library()}, set(WITHOUT))

    def test_exported_programs_are_those_of_the_files(self):
        """python -m assay.language export-all mechanisms writes them again."""
        forms = support.LIBRARY / "forms"
        for source, name, made in ((support.LIBRARY, "json", library), (support.LIBRARY, "pages", pages), (forms, "json", library)):
            folder, wanted = source / name, dict(made(str(source)))
            self.assertEqual(sorted(f.name for f in folder.iterdir()), sorted(wanted))
            for name, text in wanted.items():
                self.assertEqual((folder / name).read_text(encoding="utf-8"), text, name)

    def test_exported_identities_are_those_of_the_files(self):
        """python mechanisms/identities/write.py writes them again."""
        source = support.LIBRARY / "identities"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", source / "write.py", folder], check=True, stdout=subprocess.DEVNULL)
            written = {f.name: f.read_text(encoding="utf-8") for f in pathlib.Path(folder).iterdir()}
        self.assertEqual(written, {f.name: f.read_text(encoding="utf-8") for f in (source / "json").iterdir()})

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
        for room in set(rooms()) - set(WITHOUT):
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
        for op in OPS:
            self.assertRegex(table, rf"`[a-z ]*\b{op}\b[a-z ]*`")
        words = page.partition("## Words")[2].partition("## The file")[0]
        for word in set(WORDS) - {"real"}:
            self.assertRegex(words, rf"\b{word}\b")


# Causal without a proof: tables of tokens by tokens, a walk back from a token, and functions of masked scores.
NOT_PROVED = {
    "selective_attention",
    "simplicial_attention",
    "path_attention",
    "native_sparse_attention",
    "softpick_attention",
}
ATTENTION = dict(q="T K", k="T K", v="T V")


def attention(row):
    @mechanism(**ATTENTION)
    def f(q, k, v):
        return {"o": scan(lambda _, q, i: (None, row(q, k, v, i)), None, q, iota("T"))[1]}

    return f.trace()


class Causality(unittest.TestCase):
    """What is proved, and that nothing false is."""

    def test_masks(self):
        t = lambda: iota("T")
        for row, proved in (
            (lambda q, k, v, i: softmax(k @ q, t() <= i) @ v, True),
            (lambda q, k, v, i: softmax(k @ q, t() < i) @ v, True),
            (lambda q, k, v, i: softmax(k @ q, (t() <= i) & (i - 3 < t())) @ v, True),
            (lambda q, k, v, i: where(t() <= i, exp(k @ q), 0) @ v, True),
            (lambda q, k, v, i: (where(t() <= i, k @ q, 0)[:, None] * v).sum(0), True),
            (lambda q, k, v, i: softmax(k @ q, i <= t()) @ v, False),
            (lambda q, k, v, i: softmax(k @ q, t() <= i + 1) @ v, False),
            (lambda q, k, v, i: softmax(k @ q, (t() <= i) | (t() == 0)) @ v, False),
            (lambda q, k, v, i: softmax(k @ q, ~(t() <= i)) @ v, False),
            (lambda q, k, v, i: softmax(k @ q) @ v, False),
            (lambda q, k, v, i: where(t() <= i, exp(k @ q), 1) @ v, False),
            (lambda q, k, v, i: where(i < t(), exp(k @ q), 0) @ v, False),
            (lambda q, k, v, i: exp(where(t() <= i, k @ q, 0)) @ v, False),
            (lambda q, k, v, i: softmax(k @ q, t() <= i) @ shift(v, -1), False),
            (lambda q, k, v, i: softmax(k @ q, t() <= i) @ shift(v, 1), True),
            (lambda q, k, v, i: softmax(k @ q, t() <= i) @ v + v.sum(0), False),
            (lambda q, k, v, i: (softmax(k @ q, t() <= i) - softmax(q @ k.T, t() < i)) @ v, True),
            (lambda q, k, v, i: (softmax(k @ q, t() <= i) - softmax(q @ k.T, i < t())) @ v, False),
        ):
            with self.subTest(inspect.getsource(row)[:0], proved=proved, line=row.__code__.co_firstlineno):
                self.assertEqual(causal_outputs(attention(row), "T"), {"o": proved})

    def test_recurrences(self):
        def recurrence(step, reverse=False, of=lambda x: x):
            @mechanism(**ATTENTION, s="K V")
            def f(q, k, v, s):
                S, o = scan(step, s, q, of(k), v, reverse=reverse)
                return {"o": o, "S": S}

            return causal_outputs(f.trace(), "T")

        plain = lambda S, q, k, v: (S + outer(k, v), q @ S)
        self.assertEqual(recurrence(plain), {"o": True})
        self.assertEqual(recurrence(plain, reverse=True), {"o": False})
        self.assertEqual(recurrence(plain, of=lambda k: shift(k)), {"o": True})
        self.assertEqual(recurrence(plain, of=lambda k: shift(k, -1)), {"o": False})
        self.assertEqual(recurrence(plain, of=lambda k: k * k.sum(0)), {"o": False})

    def test_the_library(self):
        """All are causal, and each proof is tried on numbers in test_laws_on_numbers."""
        for name, settings in support.variants():
            p = support.program(name, settings)
            causal = causal_outputs(p, "T")
            self.assertEqual(all(causal.values()), name not in NOT_PROVED, f"{name}: {causal}")


class Sentences(unittest.TestCase):
    def test_a_delta_rule(self):
        self.assertEqual(
            laws(support.program("gated_deltanet")),
            [
                "initial_state and final_state are a pair: two runs with the state carried are one run",
                "o: causal, row t reads no row of q, k, v, beta and log_decay beyond t",
                "final_state and o: linear in v and initial_state together",
            ],
        )

    def test_what_counts_tokens_cannot_be_cut(self):
        for name, settings, proved in (
            ("linear_attention", (("normalization", "count"),), False),
            ("linear_attention", (("normalization", "features"),), True),
            ("deltanet", (("alignment", "next_latent"),), False),
            ("deltanet", (), True),
            ("mdn", (), True),
            ("rwkv7", (), True),
            ("gsa", (), True),
            ("falcon3", (), False),
        ):
            with self.subTest(name, **dict(settings)):
                found = [x for x in laws(support.program(name, settings)) if "are a pair" in x]
                self.assertTrue(found)
                self.assertEqual([not x.endswith("is not proved") for x in found], [proved] * len(found))

    def test_what_is_not_row_by_row_cannot_be_cut(self):
        def f(outside, inside=lambda x: x, reverse=False):
            @mechanism(x="T K", y="T K", initial_S="K")
            def cut(x, y, initial_S):
                (S,), o = scan(lambda S, x: ([S[0] + inside(x)], S[0] * x), [initial_S], outside(x, y), reverse=reverse)
                return {"final_S": S, "o": o}

            return continues(cut.trace(), state_pairs(cut.trace()))

        self.assertTrue(f(lambda x, y: x + (x * y).sum(-1)[:, None] * y))
        self.assertFalse(f(lambda x, y: x, reverse=True))
        for outside in (
            lambda x, y: (x @ y.T) @ y,
            lambda x, y: contract("ta,sa->ts", x, y) @ y,
            lambda x, y: x + x.sum(0),
            lambda x, y: shift(x),
            lambda x, y: x * iota("T")[:, None],
            lambda x, y: x * size("T"),
        ):
            self.assertFalse(f(outside))
        self.assertFalse(f(lambda x, y: x, lambda x: x * size("T")))

    def test_what_is_not_linear(self):
        @mechanism(v="T", w="T", s="")
        def f(v, w, s):
            S, o = scan(lambda S, v: (S * v, S + v), s, v)
            return {"square": v * v, "ratio": w / v, "affine": v * w + 1, "exp": exp(v), "product": S, "rows": o, "chosen": where(0 < v, v, 0),
                    "linear": where(0 < w, v, 2 * v) / w}  # fmt: skip

        found = linear_in(f.trace(), ["v"])
        self.assertEqual({o for o, d in found.items() if d == LINEAR}, {"linear"})
        self.assertEqual({o for o, d in found.items() if d == AFFINE}, {"affine"})
        self.assertEqual({o for o, d in found.items() if d == OTHER}, set(found) - {"linear", "affine"})

    def test_a_gradient_is_linear_in_its_cotangents(self):
        for name, settings in support.variants():
            g = support.program(name, settings, True)
            cotangents = [i.name for i in g.inputs if i.domain == "cotangent"]
            degrees = linear_in(g, cotangents)
            for o in g.outputs:
                if o.startswith("d_"):
                    self.assertIn(degrees[o], (LINEAR, ZERO), f"{name}: {o}")


if __name__ == "__main__":
    unittest.main()
