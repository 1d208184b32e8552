"""The pytest plugin, in a process of its own."""
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


def test_bad_use_has_one_sentence(tmp_path):
    (tmp_path / "test_own.py").write_text("import pytest\n@pytest.mark.assay_cases('deltanet', (1, 2, 3, 4))\ndef test_x(): pass\n")
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert "test_own.py::test_x: a test marked assay_cases takes the argument assay_case" in ran.stdout + ran.stderr
