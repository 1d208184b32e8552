"""The pytest plugin, in a process of its own."""
import json
import os
import subprocess
import sys

import pytest

TESTS = """
import assay, pytest, sys
sys.path.insert(0, {here!r})
from kernels import delta_rule

@pytest.mark.assay_cases("deltanet", shape=[(1, 17, 2, 8), (1, 70, "4/2", 8)], dtype=["bf16"], seed=range(2), cotangents=False)
def test_right(assay_case):
    assay.check(assay_case, lambda **x: delta_rule(**x))

@pytest.mark.assay_cases("deltanet", (1, 17, 2, 8), cotangents=False)
def test_wrong(assay_case):
    assay.check(assay_case, lambda **x: delta_rule(**{{**x, "scale": 1}}))
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_cases_and_reports(tmp_path, workers):
    tests = tmp_path / "test_own.py"
    tests.write_text(TESTS.format(here=__file__.rpartition("/")[0]))
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-v", "--assay-report=failed", *workers, tests]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "4 passed" in ran.stdout and "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "test_right[deltanet-1x70x4_2x8-bf16-seed=1-cotangents=False]" in ran.stdout
    assert "looks like the scale missing" in ran.stdout and "_checks.py" not in ran.stdout
    (folder,) = (tmp_path / "failed").iterdir()
    assert folder.name.startswith("test_own.py_test_wrong")
    assert sorted(p.name for p in folder.iterdir()) == ["answer.safetensors", "case.safetensors", "report.html", "report.txt"]
    command = f"assay check failed/{folder.name}/case.safetensors failed/{folder.name}/answer.safetensors"
    assert f"reproduce: {command}" in ran.stdout.replace("'", "")
    assert command in (folder / "report.txt").read_text().replace("'", "")


GROWS = """
import assay, os, pytest, sys
import numpy as np
sys.path.insert(0, {here!r})
from kernels import delta_rule

@pytest.mark.assay_cases("deltanet", (1, 17, 2, 8), dtype=["bf16", "fp32"], seed=range(4), cotangents=False)
def test_grows(assay_case):
    def kernel(**x):
        o, state = delta_rule(**x, to=x["q"].dtype)
        noise = np.random.default_rng(int(x["q"].astype(np.float32).sum() * 1e6) % 2**32).standard_normal(state.shape)
        return o, (state * (1 + float(os.environ["EXTRA"]) * noise)).astype(np.float32)
    assay.check(assay_case, kernel)
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_errors_that_have_grown_fail_though_they_pass(tmp_path, workers):
    (tmp_path / "test_own.py").write_text(GROWS.format(here=__file__.rpartition("/")[0]))

    def ran(extra, *flags):
        command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", *workers, *flags, "test_own.py"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "EXTRA": extra})

    saved = ran("0", "--assay-baseline=base.json", "--assay-update-baseline")
    assert saved.returncode == 0 and "base.json: the errors of 2 tests" in saved.stdout, saved.stdout
    rows = json.loads((tmp_path / "base.json").read_text())["rows"]
    assert {len(seeds) for tensors in rows.values() for seeds in tensors.values()} == {4}
    if not workers:
        same = ran("0", "--assay-baseline=base.json")
        assert same.returncode == 0 and "8 passed" in same.stdout and "base.json: 0 errors have grown" in same.stdout, same.stdout
        missing = ran("0", "--assay-baseline=none.json", "-k", "nothing")
        assert missing.returncode and "cannot be read: No such file or directory; --assay-update-baseline writes it" in missing.stdout, missing.stdout
    grown = ran("3e-7", "--assay-baseline=base.json")
    assert grown.returncode == 1 and "8 passed" in grown.stdout and "base.json: 2 errors have grown" in grown.stdout, grown.stdout
    assert "test_grows[deltanet-1x17x2x8-fp32-cotangents=False]: final_state: its error is " in grown.stdout


def test_bad_use_has_one_sentence(tmp_path):
    (tmp_path / "test_own.py").write_text("import pytest\n@pytest.mark.assay_cases('deltanet', (1, 2, 3, 4))\ndef test_x(): pass\n")
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert "test_own.py::test_x: a test marked assay_cases takes the argument assay_case" in ran.stdout + ran.stderr


ARGUMENTS = """
import assay, pytest

@pytest.mark.assay_cases("softmax_attention", (1, 24, 2, 16), "fp32", sink=True, cu_seqlens=(0, 5, 24), soft_cap=[2.0, 30.0])
def test_case(assay_case):
    assert assay_case["cu_seqlens"].tolist() == [0, 5, 24] and assay_case.inputs == ["cu_seqlens", "k", "q", "sink", "v"]
"""


def test_arguments_of_a_mark(tmp_path):
    (tmp_path / "test_own.py").write_text(ARGUMENTS)
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", tmp_path / "test_own.py"]
    assert "2 passed" in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout


SEES = """
import os, pathlib, pytest
from conftest import seen

@pytest.mark.parametrize("i", range(12))
def test_sees(i):
    pathlib.Path("seen", os.environ.get("PYTEST_XDIST_WORKER", "alone")).write_text(repr(seen))
"""


@pytest.mark.parametrize(
    "given, workers, expected",
    [("0,GPU-5", 3, ["0", "GPU-5", "0"]), ("", 2, ["", ""]), ("0,1", 0, ["0,1"])],
)
def test_each_worker_sees_a_gpu_of_its_own(tmp_path, given, workers, expected):
    (tmp_path / "test_own.py").write_text(SEES)
    # As a framework does that a conftest imports.
    (tmp_path / "conftest.py").write_text("import os\nseen = os.environ.get('CUDA_VISIBLE_DEVICES')\n")
    (tmp_path / "seen").mkdir()
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", f"-n{workers}", "--dist=each" if workers else "-q", "test_own.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": given})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    seen = {file.name: file.read_text() for file in (tmp_path / "seen").iterdir()}
    assert seen == {f"gw{i}" if workers else "alone": repr(name) for i, name in enumerate(expected)}


def test_gpus_are_counted_where_nobody_names_them(tmp_path, monkeypatch):
    from assay.pytest_plugin import gpus

    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus(tmp_path) == ["0", "1", "2"] and gpus(tmp_path / "nowhere") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 3")
    assert gpus(tmp_path) == ["1", "3"]
