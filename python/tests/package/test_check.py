"""assay.check on kernels in NumPy: what is healthy passes, and each bug is named."""
import functools
import inspect
import io
import itertools
import pathlib
import re
import subprocess
import sys
import textwrap
import time
import types

import assay
import assay._progress
import numpy as np
import pytest
from kernels import after, attention, delta_rule, kda_in_chunks

SHAPE, SMALL = (2, 70, "4/2", 16), (2, 9, "4/2", 16)


@pytest.fixture(scope="module")
def case():
    """What is asked of how a kernel is called is asked of few tokens."""
    return assay.case("deltanet", SMALL, seed=3, cotangents=False)


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_a_healthy_kernel_passes(dtype):
    case = assay.case("deltanet", SHAPE, dtype, seed=3)
    report = assay.check(case, delta_rule, arrays="numpy", gradients=False)
    assert report.passed and bool(report) and report.verdict == "PASS"
    assert [row["tensor"] for row in report.rows] == ["final_state", "o"]
    assert report.notes == ["NOT JUDGED: d_beta, d_initial_state, d_k, d_q, d_v (gradients=False)"] and report.notes[0] in str(report)


def retention(q, k, v, initial_state, log_decay, scale, *, of=lambda decays: decays):
    ones, decays = np.ones(v.shape[:3]), np.broadcast_to(of(log_decay)[:, None], v.shape[:3])
    return dict(zip(("o", "final_state"), delta_rule(q, k, v, ones, initial_state, scale, decays, predicts=lambda *_: 0)))


def test_each_head_of_retnet_has_its_decay():
    """Those of the paper, or one's own; a kernel that takes another head's fails, and is told so."""
    case = assay.case("retnet", (2, 40, 4, 8), "fp32", with_=["log_decay"], cotangents=False)
    np.testing.assert_array_equal(case["log_decay"], np.tile(np.log1p(-(2.0 ** (-5 - np.arange(4)))).astype(np.float32), (2, 1)))
    assert assay.check(case, retention).passed
    report = assay.check(case, functools.partial(retention, of=lambda decays: np.roll(decays, 1, 1)), raises=False)
    assert {row["verdict"] for row in report.rows} == {"FAIL"} and "log_decay of the head before" in report.explanation()
    assert not assay.check(case, functools.partial(retention, of=lambda decays: np.roll(decays, -1, 1)), raises=False, why=0.1)

    typed = assay.case("retnet", (2, 40, 4, 8), "fp32", with_={"log_decay": [-0.5, -0.25, 0, -1]}, cotangents=False)
    np.testing.assert_array_equal(typed["log_decay"], np.float32([[-0.5, -0.25, 0, -1]] * 2))
    inputs = {name: typed[name] for name in typed.inputs}
    assay.assert_close("retnet", inputs, retention(**inputs, scale=0.35), params={"scale": 0.35})
    with pytest.raises(assay.InputError, match="leave one of them out"):
        assay.assert_close("retnet", inputs, retention(**inputs, scale=0.35), params={"scale": 0.35, "head": 1})


def test_a_chunk_kernel_passes_behind_closed_gates():
    """There it errs by many times what the recurrence does; the contract's own chunk kernel errs as much."""
    case = assay.case("kda", (1, 33, 2, 16, 8), "fp32", style="dyadic", seed=6, cotangents=False)
    report = assay.check(case, kda_in_chunks)
    assert report["o"]["model_excess"] >= 5 and report["o"]["contract_excess"] < 0.5
    assert not assay.check(case, functools.partial(kda_in_chunks, leaks=2e-6), raises=False, why=0.1)


def test_the_readme_shows_what_happens():
    readme = (pathlib.Path(__file__).resolve().parents[3] / "README.md").read_text()
    code, shown = re.search(r"```python\n(.*?\n)((?:# [^\n]*\n)+)```", readme, re.S).groups()
    with pytest.raises(assay.Mismatch) as raised:
        exec(compile(code, "README.md", "exec"), {})
    assert str(raised.value).startswith(shown.replace("# assay.Mismatch: ", "").replace("# ", "").rstrip())


def test_the_demo_judges_the_kernel_of_the_readme(tmp_path):
    from assay._demo import attention as shown

    readme, start = (pathlib.Path(__file__).resolve().parents[3] / "README.md").read_text(), time.monotonic()
    assert inspect.getsource(shown) in readme
    ran = subprocess.run([sys.executable, "-m", "assay", "demo"], cwd=tmp_path, capture_output=True, text=True)
    assert all(len(line) <= 100 for line in ran.stdout.splitlines())
    assert (ran.returncode, ran.stderr) == (0, "") and time.monotonic() - start < 10 and not list(tmp_path.iterdir())
    code, said, means, mended, *_ = re.split(r"\n?^\d\. ", ran.stdout, flags=re.MULTILINE)[1:]
    assert textwrap.indent(inspect.getsource(shown), "    ") in code
    assert "FAIL  o is wrong in queries 0..62 of 64, in all heads" in said and "looks like the causal mask missing (99.99%)" in said
    assert re.search(r"the error of o is 84% of o, \de\+06 times", means) and "queries 0..62 of 64" in means
    assert "np.tri(*scores.shape[-2:], dtype=bool)" in mended and re.search("^    PASS  1 tensor by the model, .* of the allowed one", mended, re.MULTILINE)
    assert subprocess.run([sys.executable, "-m", "assay", "demo", "x"], capture_output=True).returncode == 2


def test_a_bug_is_named_with_where_why_and_the_line_that_reproduces_it():
    case = assay.case("deltanet", SHAPE, seed=3, cotangents=False)
    with pytest.raises(assay.Mismatch) as raised:
        assay.check(case, lambda **x: delta_rule(**x, forgets=lambda t: t >= 64))
    said, report = str(raised.value), raised.value.report
    assert isinstance(raised.value, AssertionError)
    assert "FAIL  o is wrong from token 64 on, in all sequences, in all heads" in said
    assert "where: all sequences, all heads, tokens 64..69 of 70 (chunk 1)" in said
    assert "looks like 4 times the right values (4 or sqrt K or" in said
    assert "case: assay.case('deltanet', (2, 70, '4/2', 16), 'bf16', seed=3, cotangents=False)" in said
    assert all(len(line) <= 100 or re.match("(reproduce:|     ) assay check ", line) for line in said.splitlines()), said
    (command,) = re.findall(r"^reproduce: (assay check .*)$", said, re.MULTILINE)
    assert command.split()[2] == str(report.folder / "case.safetensors")
    assert report["o"]["verdict"] == "FAIL" and report["final_state"]["verdict"] == "PASS"
    assert np.abs(report.error("o")[:, :64]).max() < 0.05 < np.abs(report.error("o")[:, 64:]).max()
    # The saved files are those that were judged.
    saved = assay.load(report.folder / "case.safetensors")
    assert {n: bytes(x[2]) for n, x in saved.tensors.items()} == {n: bytes(x[2]) for n, x in case.tensors.items()}


def test_a_kernel_for_other_axes_is_named():
    def untransposed(q, k, v, scale, d_o):
        return {name: x.swapaxes(1, 2) for name, x in attention(*(x.swapaxes(1, 2) for x in (q, k, v)), scale, d_o.swapaxes(1, 2)).items()}

    report = assay.check(assay.case("softmax_attention", (2, 12, 4, 8), "fp32"), untransposed, raises=False)
    (cause,) = report.page["looks_like"]
    assert cause["what"].startswith("heads taken for tokens, and tokens for heads")


def test_gradients_that_numpy_returns_are_judged():
    case = assay.case("softmax_attention", (1, 40, 2, 16), "fp32", seed=1)
    report = assay.check(case, attention, arrays="numpy")
    assert {row["tensor"] for row in report.rows} == {"o", "d_q", "d_k", "d_v"}

    with pytest.raises(assay.Mismatch, match="FAIL  d_k is wrong"):
        longer = lambda q, k, v, scale, d_o: {name: x * np.float32(1.001 if name == "d_k" else 1) for name, x in attention(q, k, v, scale, d_o).items()}
        assay.check(case, longer, arrays="numpy", why=0.1)


def test_other_bits_when_it_is_run_again_are_a_fault(case):
    runs = []
    drifts = after(lambda x, o, state: runs.append(0) or (o, state * np.float32(1 + len(runs) * 1e-7)))
    with pytest.raises(assay.Mismatch, match=r"^final_state: other bits when the kernel is run again"):
        assay.check(case, drifts)
    assert len(runs) == 2
    assert assay.check(case, drifts, same_bits=False).passed and len(runs) == 3


def test_rows_that_nobody_wrote_fail(case):
    def stale(**x):
        o, state = delta_rule(**x)
        found = np.empty_like(o)
        found[:, :-1] = o[:, :-1]
        return found, state

    with pytest.raises(assay.Mismatch, match=r"\[8\]"):  # where, or whose bits are others: what lay there decides
        assay.check(case, stale, why=0.1)


def test_memory_that_a_kernel_gets_is_poisoned(case, monkeypatch):
    filled, full = [], np.full
    monkeypatch.setattr(np, "full", lambda size, byte, dtype: filled.append((size, byte, dtype)) or full(size, byte, dtype))
    assay.check(case, lambda **x: delta_rule(**x))
    bits16, bits32 = (2 * 9 * 4 * 16 * width for width in (2, 4))
    assert [byte for size, byte, _ in filled if size == bits16] == [0xFF, 0xFF, 0x3F, 0x3F]
    assert {bits16, bits32} <= {size for size, _, _ in filled} and {dtype for _, _, dtype in filled} == {np.uint8}
    del filled[:]
    assay.check(case, lambda **x: delta_rule(**x), poisons=False)
    assert not filled


def test_a_kernel_without_a_state_says_so(case):
    stateless = lambda **x: delta_rule(**x)[0]  # noqa: E731
    report = assay.check(case, stateless, outputs=("o",))
    assert [row["tensor"] for row in report.rows] == ["o"] and report.page["not_judged"] == ["final_state"]
    assert re.search(r"^PASS  1 tensor by the model, .*; NOT JUDGED: final_state$", str(report), re.MULTILINE)


def test_a_state_that_is_updated_in_place(case):
    def decode(initial_state, **x):
        o, initial_state[:] = delta_rule(**x, initial_state=initial_state.copy())
        return o

    with pytest.raises(assay.InputError, match=r"^final_state: the case asks for it, .*; inplace=\('initial_state',\) if it leaves it there; outputs="):
        assay.check(case, decode)
    with pytest.raises(assay.Mismatch, match="^initial_state: the kernel has overwritten its input"):
        assay.check(case, decode, outputs=("o",), why=0.1)
    report = assay.check(case, decode, inplace=("initial_state",))
    assert {row["tensor"] for row in report.rows} == {"o", "final_state"}

    with pytest.raises(assay.Mismatch, match="final_state"):
        assay.check(case, lambda **x: delta_rule(**x)[0], inplace="initial_state", why=0.1)


def test_outputs_that_a_kernel_is_given_to_write_into(case):
    def writes(q, k, v, beta, initial_state, scale, out, final_state=None, *, returns="state", rows=slice(None)):
        o, state = delta_rule(q, k, v, beta, initial_state, scale=scale)
        out[:, rows] = o[:, rows]
        if final_state is not None:
            final_state[:] = state
        return {"state": state, "both": (out, state), "out": out, "none": None}[returns]

    names = {"o": "out"}
    for returns in ("state", "both"):
        assert assay.check(case, functools.partial(writes, returns=returns), out="o", rename=names)
    for returns in ("out", "none"):
        with pytest.raises(assay.InputError, match="^final_state: the case asks for it, and the kernel does not answer it"):
            assay.check(case, functools.partial(writes, returns=returns), out="o", rename=names)
        report = assay.check(case, functools.partial(writes, returns=returns), out=("o", "final_state"), rename=names)
        assert {row["tensor"]: row["verdict"] for row in report.rows} == {"o": "PASS", "final_state": "PASS"}
    assert (shape_of := lambda report: [report.answer["o"][i] for i in (0, 1)])(report) == ["BF16", (2, 9, 4, 16)]
    wide = assay.check(case, functools.partial(writes, returns="none"), out={"o": "fp32", "final_state": None}, rename=names)
    assert shape_of(wide) == ["F32", (2, 9, 4, 16)] and assay.check(assay.case("deltanet", SMALL), writes, out="o", rename=names, gradients=False)
    with pytest.raises(assay.Mismatch, match=r"\[8\]"):
        assay.check(case, functools.partial(writes, rows=slice(0, 8)), out="o", rename=names, why=0.1)

    def adds(out, **x):  # to what it takes for zeros
        o, state = delta_rule(**x)
        out += o
        return state

    assert not assay.check(case, adds, out="o", rename=names, same_bits=False, raises=False, why=0.1)


def test_a_sequence_of_the_batch_has_the_bits_that_it_has_alone(case):
    def depends(q, k, v, beta, initial_state, scale, *, on=lambda b: True):
        o, state = delta_rule(q, k, v, beta, initial_state, scale=scale)
        for b in range(len(q)):
            state[b] *= np.float32(1 + (len(q) > 1 and on(b)) * 1e-7)
        return o, state

    assert assay.check(case, delta_rule, batch_alone=True) and assay.check(case, depends)
    for b in (0, 1):
        only = functools.partial(depends, on=lambda one, b=b: one == b)
        with pytest.raises(assay.Mismatch, match=rf"^final_state: other bits when sequence {b} is run alone: final_state\[{b}\]\[0\]"):
            assay.check(case, only, batch_alone=True)
    attended = functools.partial(attention, d_o=None)
    assert assay.check(assay.case("softmax_attention", (1, 9, 2, 16)), attention, arrays="numpy", batch_alone=True)
    assert assay.check(assay.case("softmax_attention", (3, 9, 2, 16), window=9), attended, arrays="numpy", gradients=False, batch_alone=True,
                       rename={"window": None})  # fmt: skip


def test_a_kernel_gets_the_arrays_that_its_code_names(case, monkeypatch):
    from assay._frameworks import frameworks_for

    class Callable:
        def __call__(self, **x):
            return delta_rule(**x)

    plain = lambda x: x  # noqa: E731
    for kernel in (delta_rule, lambda **x: delta_rule(**x), functools.partial(delta_rule), Callable(), Callable().__call__):
        assert frameworks_for(kernel)[0] == "numpy"
    assert frameworks_for(plain) == ["numpy"]
    torch = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", torch)
    named = {"torch": torch, "np": np}
    exec("def tensors(x): return torch.exp(x)\ndef both(x): return np.exp(torch.exp(x))\ndef calls(x): return tensors(x)", named)
    assert frameworks_for(plain) == ["torch", "numpy"] and frameworks_for(delta_rule) == ["numpy", "torch"]
    assert frameworks_for(named["tensors"]) == frameworks_for(named["both"]) == frameworks_for(named["calls"]) == ["torch", "numpy"]
    assert frameworks_for(Callable)[0] == "numpy" and frameworks_for(type("Module", (), {"forward": named["tensors"]}))[0] == "torch"


def test_where_the_likeliest_arrays_do_not_do_others_are_tried(case, monkeypatch):
    import assay._calls as calls

    tried = []

    def run(framework):
        tried.append(framework)
        if framework == "torch":
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        return framework

    assert calls.first_run(run, ["torch", "numpy"]) == ("numpy", "numpy") and tried == ["torch", "numpy"]
    refusals = [calls.OtherArrays("o: expected a tensor of torch"), assay.InputError("a sentence")]

    def refuses(framework):
        raise refusals.pop(0)

    with pytest.raises(assay.InputError, match="a sentence"):  # which no other arrays mend
        calls.first_run(refuses, ["torch", "numpy", "jax"])
    with pytest.raises(RuntimeError, match="requires grad") as raised:
        calls.first_run(lambda framework: run("torch"), ["torch", "numpy"])
    assert raised.value.__notes__ == ["assay: the kernel was called with arrays of torch; arrays='numpy' did no better"]


def test_arrays_of_another_byte_order(case):
    assert assay.check(case, after(lambda x, o, state: (o, state.astype(state.dtype.newbyteorder())))).passed
    inputs = {name: case[name] for name in case.inputs}
    o, state = delta_rule(**inputs, scale=0.25)
    beta = inputs["beta"].astype(inputs["beta"].dtype.newbyteorder())
    assert assay.assert_close("deltanet", {**inputs, "beta": beta}, {"o": o, "final_state": state}, params={"scale": 0.25}).passed


def test_a_kernel_of_any_arguments_is_told_the_scale():
    case, told = assay.case("softmax_attention", (1, 40, 2, 16), cotangents=False), []

    def kernel(**x):
        told.append({name: x[name] for name in x if name not in case})
        return attention(**x)

    assert assay.check(case, kernel).passed and told == [{"scale": 0.25}, {"scale": 0.25}]


def test_the_report_reads_well(case):
    report = assay.check(case, lambda **x: delta_rule(**x))
    text = str(report)
    assert re.search(r"^PASS  2 tensors by the model, ", text, re.MULTILINE) and "build/assay" not in text
    assert "detects" in text and "detects" not in str(assay.check(case, lambda **x: delta_rule(**x), quick=True))
    page = report._repr_html_()
    assert page.startswith("<iframe") and "&lt;table" in page
    assert report.page["format"] == "assay-check"


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

    assert not assay.check(case, wrong_at_the_end, sample=2, raises=False, why=0.1)


def test_query_rows_of_attention_are_judged():
    case = assay.case("softmax_attention", (1, 48, 2, 16), seed=3)
    report = assay.check(case, attention, arrays="numpy", sample_rows=16, sample_seed=0)
    assert {row["tensor"] for row in report.rows} == {"o", "d_q"} and "d_k" in report.page["not_judged"]
    assert report.page["sample"]["rows"]["count"] == 16
