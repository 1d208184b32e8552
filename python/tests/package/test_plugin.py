"""The pytest plugin, in processes of its own; python/tests/transcripts/package.md has what it prints."""
import os
import subprocess
import sys

import pytest


def ran(folder, *flags, **environment):
    """Exit code and output of pytest in that folder. Of xdist's variables it inherits none: it would take itself for a worker."""
    own = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_XDIST_")}
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", *flags, "test_own.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=own | environment)
    return done.returncode, done.stdout + done.stderr


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
