"""docs/questions-2026.md: its rows, the files that hold them, and what it says of threads whose error is planted; tests that docs/findings.md names."""
import os
import pathlib
import re
import subprocess

import assay
import ml_dtypes
import numpy as np
from kernels import attended

ROOT = pathlib.Path(__file__).parents[3]
PAGE = (ROOT / "docs/questions-2026.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split(" | ")] for line in PAGE.splitlines() if line.startswith("| T")]


def test_every_row_has_a_verdict_and_what_holds_it():
    assert [row[0].strip("| ") for row in ROWS] == [f"T{n + 1}" for n in range(25)]
    said = [re.match("yes|part|no", row[2])[0] for row in ROWS]
    assert f"{said.count('yes')} yes, {said.count('part')} in part, {said.count('no')} not." in PAGE
    for row in ROWS:
        held = re.findall(r"`((?:python|proptests)/[\w./-]+)`", row[-1])
        assert held or "the same" in row[-1] or "judge.md" in row[-1] or row[2].startswith("no"), row
        assert all((ROOT / file).is_file() for file in held), held


def test_every_finding_has_a_test():
    rows = [line for line in (ROOT / "docs/findings.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    for row in rows:
        held = re.findall(r"`((?:proptests|python|tools)/[\w./-]+):([^`]+)`", row.split(" | ")[-1])
        assert held, row
        assert all(name in (ROOT / file).read_text(encoding="utf-8") for file, name in held), held


def test_planted_threads_are_found():
    named = re.findall(r"--published ([^`]+)`", PAGE)
    threads = " ".join(named).split()
    ran = subprocess.run([os.environ["ASSAY_LAB"], "mutants", "--published", *threads], capture_output=True, text=True)
    assert ran.returncode == 0 and f"{len(threads)} planted: {len(threads)} found, and the healthy kernels pass" in ran.stdout, ran.stdout


def test_a_gradient_of_a_sink_that_is_summed_in_bf16():
    """jax#40128: terms of both signs, one after the other."""
    case = assay.case("softmax_attention", "1,48,2,8", "bf16", with_=["sink"])
    right = {name: x.hi.astype(np.float32) for name, x in assay.oracle(case).items()}
    assert assay.judge(case, right, "bf16", tensors=["d_sink"], quick=True).passed
    wrong = {**right, "d_sink": np.array([in_bf16(terms_of_sink(case, head)) for head in (0, 1)], np.float32)}
    assert assay.judge(case, wrong, "bf16", tensors=["d_sink"], quick=True).verdict == "FAIL"


def terms_of_sink(case, head):
    """d_sink is the sum over queries of minus the sink's weight times o . d_o."""
    q, k, v, do = (np.asarray(case[name], float)[0, :, head] for name in ("q", "k", "v", "d_o"))
    sink = float(case["sink"][head])
    o, lse, _ = attended(q @ k.T / np.sqrt(q.shape[1]), v, sink=sink)
    return -np.exp(sink - lse) * (o * do).sum(1)


def in_bf16(terms):
    total = ml_dtypes.bfloat16(0)
    for x in terms:
        total = ml_dtypes.bfloat16(float(total) + x)
    return float(total)
