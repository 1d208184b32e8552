"""The pytest plugin, in processes of its own."""
import json
import os
import subprocess
import sys

import pytest

# Two kernels that are right, one of which errs more where the environment says so, one that is wrong, and a case with arguments.
TESTS = """
import assay, os, pytest, sys
import numpy as np
sys.path.insert(0, {here!r})
from kernels import delta_rule

@pytest.mark.assay_cases("deltanet", shape=[(1, 17, 2, 8), (1, 70, "4/2", 8)], dtype=["bf16"], seed=range(2), cotangents=False)
def test_right(assay_case):
    assay.check(assay_case, lambda **x: delta_rule(**x))

@pytest.mark.assay_cases("deltanet", (1, 17, 2, 8), dtype=["bf16", "fp32"], seed=range(4), cotangents=False)
def test_grows(assay_case):
    def kernel(**x):
        o, state = delta_rule(**x, to=x["q"].dtype)
        noise = np.random.default_rng(int(x["q"].astype(np.float32).sum() * 1e6) % 2**32).standard_normal(state.shape)
        return o, (state * (1 + float(os.environ.get("EXTRA", "0")) * noise)).astype(np.float32)
    assay.check(assay_case, kernel)

@pytest.mark.assay_cases("deltanet", (1, 17, 2, 8), cotangents=False)
def test_wrong(assay_case):
    assay.check(assay_case, lambda **x: delta_rule(**{{**x, "scale": 1}}))

@pytest.mark.assay_cases("softmax_attention", (1, 24, 2, 16), "fp32", sink=True, cu_seqlens=(0, 5, 24), soft_cap=[2.0, 30.0])
def test_case(assay_case):
    assert assay_case["cu_seqlens"].tolist() == [0, 5, 24] and assay_case.inputs == ["cu_seqlens", "k", "q", "sink", "v"]
"""


def ran(folder, *flags, **environment):
    """Exit code and output of pytest in that folder. Of xdist's variables it inherits none: it would take itself for a worker."""
    own = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", *flags, "test_own.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own | environment)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def own(tmp_path):
    (tmp_path / "test_own.py").write_text(TESTS.format(here=__file__.rpartition("/")[0]))
    return tmp_path


def test_cases_and_reports(own):
    code, said = ran(own, "-rA", "--assay-report=failed", "--assay-baseline=none.json")
    assert code == 1 and "14 passed" in said and "1 failed" in said, said
    assert "test_right[deltanet-1x70x4_2x8-bf16-seed=1-cotangents=False]" in said
    assert "looks like the scale missing" in said and "_checks.py" not in said
    assert "cannot be read: No such file or directory; --assay-update-baseline writes it" in said
    (folder,) = (own / "failed").iterdir()
    assert folder.name.startswith("test_own.py_test_wrong")
    assert sorted(p.name for p in folder.iterdir()) == ["answer.safetensors", "case.safetensors", "report.html", "report.txt"]
    command = f"assay check failed/{folder.name}/case.safetensors failed/{folder.name}/answer.safetensors"
    assert f"reproduce: {command}" in said.replace("'", "") and command in (folder / "report.txt").read_text().replace("'", "")
    code, said = ran(own, "-n", "2", "-k", "wrong", "--assay-report=again")
    assert code == 1 and "looks like the scale missing" in said and "_checks.py" not in said, said
    assert [path.name for path in (own / "again").iterdir()] == [folder.name]


def test_errors_that_have_grown_fail_though_they_pass(own):
    """Of two workers, compared by one process."""
    code, said = ran(own, "-n", "2", "-k", "not wrong", "--assay-baseline=base.json", "--assay-update-baseline")
    assert code == 0 and "base.json: the errors of 4 tests" in said, said
    rows = json.loads((own / "base.json").read_text())["rows"]
    assert {len(seeds) for place, tensors in rows.items() if "grows" in place for seeds in tensors.values()} == {4}
    code, said = ran(own, "-k", "not wrong", "--assay-baseline=base.json")
    assert code == 0 and "14 passed" in said and "base.json: 0 errors have grown" in said, said
    code, said = ran(own, "-k", "grows", "--assay-baseline=base.json", EXTRA="3e-7")
    assert code == 1 and "8 passed" in said and "base.json: 2 errors have grown" in said, said
    assert "test_grows[deltanet-1x17x2x8-fp32-cotangents=False]: final_state: its error is " in said


def test_bad_use_has_one_sentence(tmp_path):
    (tmp_path / "test_own.py").write_text("import pytest\n@pytest.mark.assay_cases('deltanet', (1, 2, 3, 4))\ndef test_x(): pass\n")
    assert "test_own.py::test_x: a test marked assay_cases takes the argument assay_case" in ran(tmp_path)[1]


DAMAGED = """
import assay, os, pytest, zlib
import numpy as np

def right(answer, name):
    return answer

def zeroed(answer, name):
    return {**answer, name: 0 * answer[name]}

def missing(answer, name):
    return {n: x for n, x in answer.items() if n != name}

def misnamed(answer, name):
    return {n + "x" * (n == name): x for n, x in answer.items()}

def exchanged(answer, name):
    other = next((n for n in answer if n != name and answer[n].shape == answer[name].shape), None)
    return {**answer, name: answer[other], other: answer[name]} if other else zeroed(answer, name)

def detached(answer, name):
    return {n: x for n, x in answer.items() if not n.startswith("d_")}

@pytest.mark.parametrize("damage", [right, zeroed, missing, misnamed, exchanged, detached])
@pytest.mark.assay_cases("gated_deltanet", (1, 7, 1, 4), "fp32", gate=[None, "softplus"])
def test_damaged(assay_case, damage):
    truth = assay.oracle(assay_case)
    answer = {n: np.asarray(truth[n].hi, np.float32) for n in truth}
    name = sorted(answer)[zlib.crc32(os.environ.get("ASSAY_SEED", "0").encode()) % len(answer)]
    assay.check(assay_case, lambda **x: damage(answer, name), arrays="numpy", quick=True)
"""


def test_no_damaged_answer_passes(tmp_path):
    """As proptests/tools/asked.cpp has it of a command, a library and GoogleTest; of each damage another tensor in every commit."""
    (tmp_path / "test_own.py").write_text(DAMAGED)
    _, said = ran(tmp_path, "--tb=line")
    assert "10 failed, 2 passed" in said and "-right]" not in said, said


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
    code, said = ran(tmp_path, f"-n{workers}", *(["--dist=each"] if workers else []), CUDA_VISIBLE_DEVICES=given)
    assert code == 0, said
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
