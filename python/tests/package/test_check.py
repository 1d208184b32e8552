"""assay.check on kernels in NumPy: what is healthy passes, and each bug is named."""
import io
import itertools
import re
import sys
import types

import assay
import assay._progress
import numpy as np
import pytest
from kernels import attention, delta_rule

SHAPE = (2, 70, "4/2", 16)


@pytest.fixture(scope="module")
def case():
    return assay.case("deltanet", SHAPE, seed=3, cotangents=False)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_healthy_kernel_passes(dtype):
    case = assay.case("deltanet", SHAPE, dtype, seed=3)
    report = assay.check(case, lambda **x: delta_rule(**x, to=x["q"].dtype), arrays="numpy")
    assert report.passed and bool(report) and report.verdict == "PASS"
    assert [row["tensor"] for row in report.rows] == ["final_state", "o"]
    assert report.notes == ["no gradients: the kernel has none, and they are not judged"]


def test_a_bug_is_named_with_where_why_and_the_line_that_reproduces_it(case):
    with pytest.raises(assay.Mismatch) as raised:
        assay.check(case, lambda **x: delta_rule(**x, forgets=lambda t: t >= 64))
    said, report = str(raised.value), raised.value.report
    assert isinstance(raised.value, AssertionError)
    assert "first wrong: o, from token 64 on, all sequences, all heads" in said
    assert "where: all sequences, all heads, tokens 64..69 of 70 (chunk 1)" in said
    assert "case: assay.case('deltanet', (2, 70, '4/2', 16), 'bf16', seed=3, cotangents=False)" in said
    (command,) = re.findall(r"^reproduce: (assay check .*)$", said, re.MULTILINE)
    assert command.split()[2] == str(report.folder / "case.safetensors")
    assert report["o"]["verdict"] == "FAIL" and report["final_state"]["verdict"] == "PASS"
    assert np.abs(report.error("o")[:, :64]).max() < 0.05 < np.abs(report.error("o")[:, 64:]).max()
    # What is saved is what was judged.
    saved = assay.load(report.folder / "case.safetensors")
    assert {n: bytes(x[2]) for n, x in saved.tensors.items()} == {n: bytes(x[2]) for n, x in case.tensors.items()}


def test_a_known_convention_is_called_by_its_name(case):
    with pytest.raises(assay.Mismatch, match="looks like the scale missing"):
        assay.check(case, lambda **x: delta_rule(**{**x, "scale": 1}))


def test_gradients_that_numpy_returns_are_judged():
    case = assay.case("softmax_attention", (1, 40, 2, 16), "fp32", seed=1)
    report = assay.check(case, attention, arrays="numpy")
    assert {row["tensor"] for row in report.rows} == {"o", "d_q", "d_k", "d_v"}

    def wrong(q, k, v, scale, d_o=None):
        found = attention(q, k, v, scale, d_o)
        return {**found, "d_k": found["d_k"] * np.float32(1.001)}

    with pytest.raises(assay.Mismatch, match="first wrong: d_k"):
        assay.check(case, wrong, arrays="numpy")

    def without(q, k, v, scale, d_o=None):
        found = attention(q, k, v, scale, d_o)
        del found["d_v"]
        return found

    with pytest.raises(assay.InputError, match="d_v: missing"):
        assay.check(case, without, arrays="numpy")


def test_an_input_that_is_overwritten_is_a_fault(case):
    def overwrites(q, k, v, beta, initial_state, scale):
        found = delta_rule(q, k, v, beta, initial_state, scale=scale)
        k[1, 5, 0, 2] = 7
        return found

    with pytest.raises(assay.Mismatch, match=r"^k: the kernel has overwritten its input: k\[1\]\[5\]\[0\]\[2\] is 7, and was "):
        assay.check(case, overwrites)


def test_other_bits_when_it_is_run_again_are_a_fault(case):
    runs = []

    def drifts(**x):
        runs.append(0)
        o, state = delta_rule(**x)
        return o, state * np.float32(1 + len(runs) * 1e-7)

    with pytest.raises(assay.Mismatch, match=r"^final_state: other bits when the kernel is run again"):
        assay.check(case, drifts)
    assert len(runs) == 2
    assert assay.check(case, drifts, same_bits=False).passed and len(runs) == 3


def test_memory_that_a_kernel_gets_is_poisoned(case, monkeypatch):
    filled, full = [], np.full
    monkeypatch.setattr(np, "full", lambda size, byte, dtype: filled.append((size, byte, dtype)) or full(size, byte, dtype))
    assay.check(case, lambda **x: delta_rule(**x))
    bits16, bits32 = (2 * 70 * 4 * 16 * width for width in (2, 4))
    assert [byte for size, byte, _ in filled if size == bits16] == [0xFF, 0xFF, 0x3F, 0x3F]
    assert {bits16, bits32} <= {size for size, _, _ in filled} and {dtype for _, _, dtype in filled} == {np.uint8}
    del filled[:]
    assay.check(case, lambda **x: delta_rule(**x), poisons=False)
    assert not filled


def test_rows_that_nobody_wrote_fail(case):
    def stale(**x):
        o, state = delta_rule(**x)
        found = np.empty_like(o)
        found[:, :-1] = o[:, :-1]
        return found, state

    with pytest.raises(assay.Mismatch, match=r"\[69\]"):
        assay.check(case, stale)


def test_a_kernel_without_a_state_is_judged_without_it():
    case = assay.case("deltanet", SHAPE, seed=3)
    report = assay.check(case, lambda **x: delta_rule(**x)[0], arrays="numpy")
    assert [row["tensor"] for row in report.rows] == ["o"]
    assert "final_state: not answered, and not judged" in report.notes
    forward = assay.check(assay.case("deltanet", SHAPE, cotangents=False), lambda **x: delta_rule(**x)[0], arrays="numpy")
    assert forward.notes == ["final_state: not answered, and not judged"]


def test_names_of_arguments(case):
    def renamed(q, k, v, b, initial_state, sm_scale):
        return delta_rule(q, k, v, b, initial_state, scale=sm_scale)

    assert assay.check(case, renamed, rename={"beta": "b"}).passed
    with pytest.raises(assay.InputError, match="beta: the kernel takes no argument beta; it takes q, k, v, b, initial_state, sm_scale"):
        assay.check(case, renamed)
    with pytest.raises(assay.InputError, match=r"rename: the case has no bata \(did you mean beta\?\)"):
        assay.check(case, renamed, rename={"bata": "b"})


def test_a_kernel_of_any_arguments_is_told_the_scale():
    case, told = assay.case("softmax_attention", (1, 40, 2, 16), cotangents=False), []

    def kernel(**x):
        told.append({name: x[name] for name in x if name not in case})
        return attention(**x)

    assert assay.check(case, kernel).passed and told == [{"scale": 0.25}, {"scale": 0.25}]


def test_a_scale_that_the_kernel_cannot_know_is_not_swallowed():
    def own_scale(q, k, v, beta, initial_state):
        return delta_rule(q, k, v, beta, initial_state, scale=q.shape[-1] ** -0.5)

    assert assay.check(assay.case("deltanet", SHAPE, cotangents=False), own_scale).passed
    with pytest.raises(assay.InputError, match="scale=0.5: the kernel takes no argument of that name"):
        assay.check(assay.case("deltanet", SHAPE, cotangents=False, scale=0.5), own_scale)


def test_the_report_reads_well(case):
    report = assay.check(case, lambda **x: delta_rule(**x))
    text = str(report)
    assert "deltanet chunkwise" in text and "2 tensors: 2 PASS" in text and "build/assay" not in text
    page = report._repr_html_()
    assert page.startswith("<iframe") and "&lt;table" in page
    assert report.page["format"] == "assay-check"


def test_a_contract_of_a_library_decides(case):
    assert assay.check(case, lambda **x: delta_rule(**x), "fla").page["contract"] == "fla"
    with pytest.raises(assay.InputError, match=r"contract: there is no flaa \(did you mean fla\?\)"):
        assay.check(case, lambda **x: delta_rule(**x), "flaa")


LONG = ("gated_deltanet", (1, 1024, 4, 64))


def test_progress_is_heard_and_what_it_raises_ends_the_work():
    heard = []
    assay.oracle(assay.case(*LONG), progress=lambda *x: heard.append(x))
    assert heard and all(isinstance(what, str) and what and isinstance(done, int) and isinstance(total, int) for what, done, total in heard)

    def stops(*_):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        assay.oracle(assay.case(*LONG), progress=stops)


@pytest.mark.parametrize("looks_on", [True, False])
def test_who_looks_on_sees_a_line_that_goes_away(looks_on, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return looks_on

    seconds = itertools.count()
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(assay._progress, "time", types.SimpleNamespace(monotonic=lambda: next(seconds)))
    assay.oracle(assay.case(*LONG))
    said = sys.stderr.getvalue()
    if not looks_on:
        assert not said
        return
    assert re.search(r"\rassay: [^\r]*, \d+ s\r", said)
    shown = ""
    for words in said.split("\r"):  # each is written over what is there
        shown = words + shown[len(words) :]
    assert not shown.strip()


def test_a_part_of_a_case_is_judged():
    case = assay.case("deltanet", SHAPE, seed=3, cotangents=False)
    report = assay.check(case, delta_rule, sample=2)
    sample = report.page["sample"]
    assert (sample["parts"], len(sample["judged"]), sample["secret"]) == (4, 2, True)
    again = assay.check(case, delta_rule, sample=2, sample_seed=sample["seed"], judge="cpu")
    assert again.page["sample"]["judged"] == sample["judged"]
    assert [row["rms_z"] for row in again.rows] == [row["rms_z"] for row in report.rows]

    def wrong_at_the_end(**x):  # of the last head, which is in every sample
        o, state = delta_rule(**x)
        o[1, 60, 3] = 0
        return o, state

    assert not assay.check(case, wrong_at_the_end, sample=2, raises=False)


def test_query_rows_of_attention_are_judged():
    case = assay.case("softmax_attention", (1, 48, 2, 16), seed=3)

    def wrong(q, k, v, scale, d_o):
        found = attention(q, k, v, scale, d_o)
        found["o"][0, 20] = 0
        return found

    verdicts = {}
    for seed in range(12):
        report = assay.check(case, wrong, arrays="numpy", raises=False, sample_rows=16, sample_seed=seed)
        assert {"o", "d_q"} <= {row["tensor"] for row in report.rows} and "d_k" in report.page["not_judged"]
        verdicts.setdefault(report.page["sample"]["rows"]["first"], set()).add(report.passed)
    assert verdicts == {0: {True}, 16: {False}, 32: {True}}


def test_bad_use_has_one_sentence(case):
    for use, sentence in [
        (lambda: assay.check(case, 3), "kernel: expected a function, got int"),
        (lambda: assay.check(case, delta_rule, judge="tpu"), "judge: expected auto, cpu or gpu, got tpu"),
        (lambda: assay.check(case, delta_rule, sample=9), "sample: expected 1 to 4"),
        (lambda: assay.check(case, delta_rule, sample_rows=9), "sample_rows: expected attention"),
        (lambda: assay.check({}, delta_rule), "case: expected what assay.case makes, got dict"),
        (lambda: assay.check(case, delta_rule, arrays="cupy"), "arrays: there are no arrays of cupy; there are torch, numpy, jax"),
        (lambda: assay.judge(case, {"o": [1.0]}), "o: expected an array of NumPy, torch or JAX, got list"),
        (lambda: assay.judge(case, {"o": np.zeros(3, int)}), "o: expected floating-point numbers, got int64"),
        (lambda: assay.judge(case, {"o": np.zeros((2, 4, 70, 16))}, tensors="o"), r"answer: tensor o: expected shape .* transpose axes 1 and 2"),
        (lambda: case["w"], "w: this case has no such tensor; it has beta, initial_state, k, q, v"),
        (lambda: assay.case("deltanett", SHAPE), r"mechanism: there is no deltanett \(did you mean deltanet\?\)"),
        (lambda: assay.case("deltanet", (1, 2)), "shape: expected four or five numbers"),
        (lambda: assay.case("deltanet", SHAPE, "int8"), "dtype: there is no int8; there are fp64, fp32"),
        (lambda: assay.case("deltanet", SHAPE, widow=3), "params: deltanet has no widow"),
        (lambda: assay.load("/nowhere"), "/nowhere: cannot be read: No such file or directory"),
        (lambda: case.save("/nowhere/x"), "/nowhere/x: cannot be written: No such file or directory"),
    ]:
        with pytest.raises(assay.InputError, match="^" + sentence):
            use()
