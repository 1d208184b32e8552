"""Cases, arrays, the oracle and expectations."""
import ast
import inspect
import os
import pathlib
import shlex
import subprocess
import sys

import assay
import ml_dtypes
import numpy as np
import pytest
from assay._arrays import stored
from kernels import attention, delta_rule

DTYPES = {"fp64": np.float64, "fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16,
          "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_in_and_out(name):
    """And is read where it is."""
    case = assay.case("softmax_attention", (1, 4, 2, 8), DTYPES[name], seed=2)
    assert case["q"].dtype == DTYPES[name] and case["q"].shape == (1, 4, 2, 8)
    truth = assay.oracle("softmax_attention", {n: case[n] for n in case.inputs}, params=case.params)
    assert np.array_equal(truth["o"].hi, assay.oracle(case)["o"].hi)
    x = np.ones((3, 4, 5), DTYPES[name])
    assert np.shares_memory(stored(x, "x")[2], x) and not np.shares_memory(stored(x[:, ::2], "x")[2], x)


def test_a_case_is_what_the_command_line_makes(tmp_path):
    path = tmp_path / "case.safetensors"
    tool = os.environ.get("ASSAY", "assay")
    words = ["softmax_attention", "--shape", "1,9/12,4/2,8", "--precision", "fp32", "--seed", "7", "--param", "window=5", "--style", "outlier_channels"]
    subprocess.run([tool, "case", *words, "-o", path], check=True)
    case = assay.case("softmax_attention", (1, "9/12", "2/4", 8), "fp32", seed=7, window=5, style="outlier_channels")
    case.save(tmp_path / "own.safetensors")
    assert path.read_bytes() == (tmp_path / "own.safetensors").read_bytes()
    assert case.metadata == assay.load(path).metadata


def test_fill_and_without():
    case = assay.case("gated_deltanet", (1, 5, 2, 4), fill={"log_decay": -0.5})
    assert (case["log_decay"] == -0.5).all()
    assert "initial_state" not in case.without("initial_state")
    zero = assay.case("gated_deltanet", (1, 5, 2, 4), fill={"initial_state": 0})
    assert np.array_equal(assay.oracle(zero.without("initial_state"))["o"].hi, assay.oracle(zero)["o"].hi)


def test_the_oracle_is_right_and_proves_it():
    case = assay.case("softmax_attention", (1, 40, 2, 16), "fp64", seed=1)
    own = attention(**{n: case[n] for n in case}, scale=1 / float(case.params["bandwidth"]))
    for name, truth in assay.oracle(case).items():
        if name in own:
            assert np.abs(own[name] - truth.hi).max() < 1e-13
            assert (truth.bound < 1e-25).all() and (np.abs(truth.lo) <= np.spacing(np.abs(truth.hi))).all()


def test_expectations_hold_for_a_healthy_kernel_and_not_for_a_wrong_one():
    case = assay.case("deltanet", (1, 70, 2, 16), seed=5, cotangents=False)
    expected = assay.expect(case)["o"]
    o = delta_rule(**{n: case[n] for n in case}, scale=float(case.params["scale"]))[0].astype(np.float64)
    assert (np.abs(o - expected.value) <= expected.limit).all()
    assert 0.1 < np.sqrt((((o - expected.value) / expected.sigma) ** 2).mean()) < 2
    assert (np.abs(1.1 * o - expected.value) > expected.limit).any()


def test_assert_close_takes_ones_own_tensors():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 33, 2, 16)).astype(np.float32) for _ in range(3))
    d_o = rng.standard_normal(v.shape).astype(np.float32)
    out = attention(q, k, v, 0.25, d_o)
    given = {"q": q, "k": k, "v": v}
    report = assay.assert_close("softmax_attention", given, out, params={"scale": 0.25}, cotangents={"o": d_o})
    assert report.passed and len(report.rows) == 4
    with pytest.raises(assay.Mismatch):
        assay.assert_close("softmax_attention", given, {"o": out["o"] * 1.01}, params={"scale": 0.25})
    with pytest.raises(assay.InputError, match="^cotangents: expected, for outputs has d_q"):
        assay.assert_close("softmax_attention", given, out)


@pytest.mark.parametrize("strict", [False, True])
def test_what_another_tensor_shows_asks_for_no_contract(strict):
    """The gradient of the last key is smaller than its errors, so that d_k would pass without it; o would not."""
    rng = np.random.default_rng(1)
    q, k, v, d_o = (rng.standard_normal((1, 40, 1, 8)) for _ in range(4))
    q[:, -1] *= 0.05
    v[:, -1] = v[:, :-1].mean(1)
    q, k, v, d_o = (x.astype(ml_dtypes.bfloat16) for x in (q, k, v, d_o))
    posed = {"inputs": {"q": q, "k": k, "v": v}, "params": {"scale": 0.3}, "cotangents": {"o": d_o}}
    truth = assay.oracle("softmax_attention", **posed)
    out = {name: truth[name].hi.astype(ml_dtypes.bfloat16) for name in ("o", "d_q", "d_k", "d_v")}
    report = assay.assert_close("softmax_attention", outputs=out, strict=strict, cache=False, raises=False, **posed)
    rows = {row["tensor"]: row for row in report.rows}
    assert rows["d_k"]["model_verdict"] == "VACUOUS" and "last_row_zero" in rows["d_k"]["model_reason"]
    assert rows["d_k"]["verdict"] == ("VACUOUS" if strict else "PASS")
    assert (rows["d_k"]["contract_verdict"] != "") == strict


def test_capture_saves_every_so_many_th_call(tmp_path):
    calls = []

    @assay.capture(every=3, mechanism="deltanet", rename={"beta": "b"}, folder=tmp_path)
    def live(q, k, v, b, scale, initial_state):
        calls.append(1)
        found = delta_rule(q, k, v, b, initial_state, scale=scale)
        q[:] = 0  # what is saved is what came in
        return found

    for seed in range(5):
        case = assay.case("deltanet", (1, 6, 2, 8), seed=seed)
        live(case["q"], case["k"], case["v"], b=case["beta"], scale=0.25, initial_state=case["initial_state"])
    assert len(calls) == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["live-000000", "live-000003"]
    folder = tmp_path / "live-000003"
    command = [os.environ.get("ASSAY", "assay"), "check", folder / "case.safetensors", folder / "answer.safetensors"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    with pytest.warns(RuntimeWarning, match="nothing saved: q: expected"):
        assay.capture(lambda q: q, mechanism="deltanet", folder=tmp_path)([1])


def test_pages_of_verbs():
    page = assay.report("deltanet", precision="bf16", form="chunkwise", shape="1,17,2,8,8")
    assert page["format"] == "assay-report" and {row["mechanism"] for row in page["rows"]} == {"deltanet"}
    assert assay.drift("retnet", tokens=512, dim=4, draws=0, no_sites=True, sequences=1)


def test_import_is_quick_and_needs_no_framework():
    code = "import sys, time; t = time.perf_counter(); import assay; assay.InputError; print(time.perf_counter() - t, 'numpy' in sys.modules)"
    seconds, numpy = min(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(3))
    assert float(seconds) < 0.3 and numpy == "False"


def test_ctrl_c_ends_the_wait_at_once():
    code = """if 1:
        import assay, os, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs in the background of a shell ignores it
        case = assay.case("gated_deltanet", (1, 2048, 8, 64), cotangents=True)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            assay.oracle(case)
            print("ended")
        except KeyboardInterrupt:
            print(time.monotonic() - start)
            os._exit(0)
    """
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
    assert said and said != "ended" and float(said) < 1.3


def test_other_threads_run_meanwhile():
    import threading

    case = assay.case("gated_deltanet", (1, 128, 4, 32))
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            stop.wait(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    assay.oracle(case)
    stop.set()
    counter.join()
    assert counted[0] > 5


def test_the_command_line_is_the_same_program():
    tool = os.environ.get("ASSAY")
    own = [sys.executable, "-m", "assay"]
    for words in (["list"], ["check", "/nowhere", "/nowhere"], ["--version"]):
        ran = [subprocess.run([*program, *words], capture_output=True, text=True) for program in ([[tool]] if tool else []) + [own]]
        assert len({(r.returncode, r.stdout, r.stderr) for r in ran}) == 1
    script = pathlib.Path(sys.executable).with_name("assay")
    for program in (own, [str(script)]):  # a command that is shown can be typed as this one was
        ran = subprocess.run([*program, "report", "--mechanism", "value_averaging", "--shape", "1,4,1,4,4"], capture_output=True, text=True)
        assert f"\nreproduce: {shlex.join(program)} report " in ran.stdout


def test_the_skill_is_beside_the_package():
    """The parts of a skill that agents read first: its name and when to use it."""
    page = pathlib.Path(assay.__file__).with_name("SKILL.md").read_text()
    head, _, body = page.removeprefix("---\n").partition("---\n")
    assert [line.partition(":")[0] for line in head.splitlines()] == ["name", "description"] and len(head) < 1100
    assert len(body.splitlines()) < 150 and "](" not in body  # links lead nowhere in a wheel


def test_stubs_say_what_is_there():
    tree = ast.parse(pathlib.Path(assay.__file__).with_name("__init__.pyi").read_text())
    assert pathlib.Path(assay.__file__).with_name("py.typed").exists()
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert set(assay.__all__) - {"adapters", "executors", "kernels", "language"} == set(stubs)

    def parameters(node):
        args = node.args
        return [a.arg for a in args.posonlyargs + args.args + ([args.vararg] if args.vararg else []) + args.kwonlyargs + ([args.kwarg] if args.kwarg else [])]

    for name, node in stubs.items():
        value = getattr(assay, name)
        if isinstance(node, ast.FunctionDef):
            assert parameters(node) == list(inspect.signature(value).parameters), name
            continue
        for method in (m for m in node.body if isinstance(m, ast.FunctionDef) and not m.name.startswith("__")):
            found = inspect.getattr_static(value, method.name)
            function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
            assert parameters(method) == list(inspect.signature(function).parameters), f"{name}.{method.name}"
