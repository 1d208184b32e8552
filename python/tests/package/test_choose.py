"""assay.check_choice: ties are anyone's, what is above a chosen score by more than both may err is found, with its margin."""
import json
import pathlib
import re

import assay
import ml_dtypes
import numpy as np
import pytest

HERE, PAGE = pathlib.Path(__file__), pathlib.Path(__file__).parents[3] / "docs/guides/choices.md"
f = np.float32

SCORES = """
from assay.language import const, iota, mechanism, scan, size, where

@mechanism(q="T K", k="S K : key")
def scores(q, k):
    \"\"\"q_t.k_s; keys up to the query's own are seen, the first is always read.\"\"\"
    def row(_, q, i):
        return None, (k @ q, where(iota("S") <= i + size("S") - size("T"), const(1), const(0)), where(iota("S") == 0, const(1), const(0)))

    score, seen, forced = scan(row, None, q, iota("T"))[1]
    return {"score": score, "seen": seen, "forced": forced}
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program of its own for each test, in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scores.py"
    path.write_text(SCORES)
    return str(path)


def drawn(seed=0, tokens=24, keys=40, dim=16):
    rng = np.random.default_rng(seed)
    q, k = (rng.standard_normal((2, n, 1, dim)).astype(f) for n in (tokens, keys))
    k[:, 1::5] = k[:, 0::5]  # ties
    return {"q": q, "k": k}


def chosen_by(q, k, n=8, keep=lambda s: s, backwards=False):
    """The first key and the n - 1 best of the others that are seen."""
    s = keep(np.einsum("bthd,bshd->bths", q, k))
    s[..., 0] = np.inf
    tokens, keys = s.shape[1], s.shape[3]
    s = np.where(np.arange(keys) <= (np.arange(tokens) + keys - tokens)[:, None, None], s, -np.inf)
    order = np.arange(keys)[::-1] if backwards else np.arange(keys)
    best = order[np.argsort(-s[..., order], axis=-1, kind="stable")[..., :n]]
    return np.where(np.take_along_axis(s, best, -1) == -np.inf, -1, best)


def to_bf16(s):
    return s.astype(ml_dtypes.bfloat16).astype(f)


@pytest.mark.parametrize("backwards", [False, True])
def test_ties_are_anyones(program, backwards):
    inputs = drawn()
    found = assay.check_choice(program, chosen_by(**inputs, backwards=backwards), inputs=inputs)
    assert found.passed and found.rows == [] and str(found) == "PASS  the choice of up to 8 of 40 by score: 48 rows"


def test_sums_in_any_order_pass(program):
    """Roundings of near ties in fp32 are allowed: keys that differ by less than a product's rounding."""
    inputs = drawn(3)
    inputs["k"][:, 1::5] = inputs["k"][:, 0::5] * (1 + 2.0**-23 * np.sign(np.random.default_rng(1).standard_normal((2, 8, 1, 16)))).astype(f)
    exact, wrong = np.einsum("bthd,bshd->bths", *(inputs[name].astype(float) for name in "qk")), 0
    for order in (np.arange(16), np.arange(16)[::-1], np.random.default_rng(2).permutation(16)):
        s = sum(inputs["q"][..., None, i] * inputs["k"][..., i].transpose(0, 2, 1)[:, None] for i in order)
        given = chosen_by(**inputs, keep=lambda _: s.copy())
        wrong += (np.sort(given, -1) != np.sort(chosen_by(**inputs, keep=lambda _: exact.copy()), -1)).any()
        assert assay.check_choice(program, given, inputs=inputs).passed
    assert wrong, "no order of summation chose otherwise than the exact scores"


def test_bf16_before_the_choice_is_found_and_named(program):
    inputs = drawn(1, tokens=96, keys=160)
    given = chosen_by(**inputs, keep=to_bf16)
    with pytest.raises(AssertionError, match=r"FAIL  the choice of up to 8 of 160 by score: \d+ of 192 rows wrong") as raised:
        assay.check_choice(program, given, inputs=inputs)
    found = raised.value.report
    assert found.looks_like == "scores rounded before the choice, as to bf16" and {row.kind for row in found.rows} == {"missing"}
    exact = np.einsum("bthd,bshd->bths", *(inputs[name].astype(float) for name in "qk"))
    for row in found.rows:
        assert row.key not in given[row.at] and row.entry in given[row.at]
        assert row.margin == pytest.approx(exact[row.at][row.key] - exact[row.at][row.entry], rel=1e-9)
        assert row.margin > row.limit and row.sigmas == row.margin / row.sigma
    assert assay.check_choice(program, given, inputs=inputs, precision="bf16").passed


def test_a_key_that_was_dropped(program):
    inputs = drawn(2)
    given = chosen_by(**inputs, n=9)
    given = np.delete(given, 1, axis=-1)  # the best of those that compete
    found = assay.check_choice(program, lambda q, k: given, inputs=inputs, raises=False)
    assert found.verdict == "FAIL" and found.wrong_rows > 40 and found.looks_like == ""
    page = json.loads(json.dumps(found.page))
    assert page["format"] == "assay-choice" and page["wrong_rows"] == found.wrong_rows
    row = page["rows"][0]
    assert row["kind"] == "missing" and row["margin"] > 100 * row["limit"] and row["sigmas"] > 1e4


def test_what_is_wrong_without_scores(program):
    inputs = drawn(4)
    right = chosen_by(**inputs)
    for place, value, length, kinds, said in [
        ((0, 3, 0, 4), right[0, 3, 0, 5], None, {"duplicate", "missing"}, r"\[0\]\[3\]\[0\]: \d+ is chosen 2 times"),
        ((1, 2, 0, 7), 40, None, {"out_of_range", "missing"}, r"\[1\]\[2\]\[0\]: entry 7 is 40 of 40 candidates"),
        ((1, 2, 0, 7), -2, None, {"out_of_range", "missing"}, "entry 7 is -2 of 40 candidates"),
        ((0, 0, 0, 7), 39, None, {"not_seen", "missing"}, r"\[0\]\[0\]\[0\]: 39 is chosen, and may not be seen"),
        ((0, 5, 0, 0), -1, None, {"missing"}, r"\[0\]\[5\]\[0\]: 0 is left out, and must be chosen"),
        ((0, 5, 0, 7), -1, None, {"missing"}, r"\[0\]\[5\]\[0\]: \d+ is left out, whose score [-\d.]+ is the best of 1 for which there are places"),
        ((0, 5, 0, 7), right[0, 5, 0, 7], 7, {"beyond_length", "missing"}, r"\[0\]\[5\]\[0\]: entry 7 is \d+, and only 7 count"),
    ]:
        given, lengths = right.copy(), np.full(right.shape[:-1], 8)
        given[place] = value
        lengths[place[:-1]] = length or 8
        found = assay.check_choice(program, given, length=lengths, inputs=inputs, raises=False)
        assert found.verdict == "FAIL" and {row.kind for row in found.rows} == kinds and re.search(said, str(found)), str(found)
        assert {row.at for row in found.rows} == {place[:-1]}
    found = assay.check_choice(program, right, k=7, inputs=inputs, raises=False)
    assert {row.kind for row in found.rows} == {"too_many"} and found.wrong_rows == 48


def test_rows_that_see_too_few_choose_all(program):
    inputs = drawn(5, tokens=40)
    found = assay.check_choice(program, lambda q, k: chosen_by(q, k)[:, :, 0], inputs=inputs)
    assert found.passed and found.count == 80
    assert assay.check_choice(program, chosen_by(**inputs, n=40), inputs=inputs, raises=False).verdict == "VACUOUS"


# The page's program with a block's largest score in place of its mean's.
HIGHEST = """(scan(lambda m, s: (maximum(m, s), None), log(const(0)) + zeros("N"), contract("nsk,k->ns", k, q).T)[0],"""


@pytest.mark.parametrize("pooled", [np.mean, np.max])
def test_blocks_of_the_page(tmp_path, monkeypatch, pooled):
    """Blocks by their mean or largest score, of which two must be chosen; by the scores of their first keys is wrong."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text().split("```python\n# blocks.py\n")[1].split("```")[0]
    if pooled is np.max:
        text = "from assay.language import contract, log, maximum, zeros\n" + text.replace("(mean @ q,", HIGHEST)
    name = f"{pooled.__name__}.py"
    pathlib.Path(name).write_text(text)
    case = assay.case(name, (2, 128, 1, 8), "fp32", cotangents=False)

    def best(q, k, pooled=pooled):
        s = pooled(np.einsum("bthd,bhnsd->bthns", q, k), -1)
        t, n = np.arange(s.shape[1])[:, None, None], np.arange(s.shape[3])
        s = np.where((n == 0) | (n == t // 16), np.inf, np.where(n * 16 <= t, s, -np.inf))
        chosen = np.argsort(-s, axis=-1, kind="stable")[..., :4]
        return np.where(np.take_along_axis(s, chosen, -1) == -np.inf, -1, chosen)

    assert assay.check_choice(case, best).passed
    assert assay.check_choice(case, lambda q, k: best(q, k, lambda s, _: s[..., 0]), raises=False).verdict == "FAIL"
