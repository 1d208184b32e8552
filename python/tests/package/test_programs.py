"""Mechanisms of one's own: what a kernel is told of them, and what it returns."""
import pathlib

import assay
import numpy as np
import pytest
from assay._cases import said
from kernels import delta_rule

MINE = str(pathlib.Path(__file__).with_name("mine.py"))


def kernel(q, k, v, beta, initial_state, scale, gain, twice):
    """Has no defaults: who calls it must say everything."""
    o, state = delta_rule(q, k, v, beta, initial_state, scale)
    return o, state, (2 if twice else 1) * np.float32(gain) * o


def test_outputs_come_in_the_order_of_its_return_and_defaults_are_told():
    case = assay.case(MINE, (2, 20, 2, 16, 8), "fp32", cotangents=False)
    assert case.asked().outputs == ["o", "final_state", "again"]
    assert assay.check(case, kernel)
    told = {}
    assay.check(case, lambda q, k, v, beta, initial_state, scale, gain, twice: told.update(scale=scale, gain=gain, twice=twice)
                or kernel(q, k, v, beta, initial_state, scale, gain, twice))  # fmt: skip
    assert told == {"scale": 0.25, "gain": 0.75, "twice": True}
    own = assay.case(MINE, (1, 20, 2, 16, 8), "fp32", cotangents=False, gain=0.5)
    assert assay.check(own, lambda by, **x: kernel(**x, gain=by), rename={"gain": "by"})
    assert assay.check(case, lambda q, k, v, beta, initial_state, by, **x: kernel(q, k, v, beta, initial_state, 0.25, by, True), rename={"gain": "by"})


def test_a_program_in_json_has_no_order(tmp_path):
    path = str(tmp_path / "mine.json")
    said("mechanism", "export", MINE, "-o", path)
    case = assay.case(path, (1, 20, 2, 16, 8), "fp32", cotangents=False)
    whole = lambda **x: kernel(**x, scale=0.25, gain=0.75, twice=True)  # a program in JSON tells no defaults
    with pytest.raises(assay.InputError, match="^the kernel returned 3 values, and a program in JSON names its outputs in no order: return a dict"):
        assay.check(case, whole, arrays="numpy")
    assert assay.check(case, whole, arrays="numpy", outputs=("o", "final_state", "again"))
    assert assay.check(case, lambda **x: dict(zip(("o", "final_state", "again"), whole(**x))), arrays="numpy")


@pytest.mark.parametrize("ending", ["py", "json"])
def test_a_file_that_has_changed_is_read_again(tmp_path, ending):
    path, source = tmp_path / f"mine.{ending}", tmp_path / "source.py"
    found = []
    for text in (pathlib.Path(MINE).read_text(), pathlib.Path(MINE).read_text().replace("scale * (q @ S)", "4 * scale * (q @ S)")):
        source.write_text(text)
        path.write_bytes(text.encode() if ending == "py" else said("mechanism", "export", str(source), "-o", "-"))
        found.append(assay.oracle(assay.case(str(path), (1, 5, 2, 8), "fp32", cotangents=False))["o"].hi)
    assert (found[1] == 4 * found[0]).all() and found[0].any()


def test_heads_may_share_keys():
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal((2, 20, 2 if name in "qk" else 4, 16)).astype(np.float32) / 4 for name in "qkv"}
    inputs |= {"beta": np.full((2, 20, 4), 0.5, np.float32), "initial_state": np.zeros((2, 4, 16, 16), np.float32)}
    outputs = dict(zip(("o", "final_state", "again"), kernel(**inputs, scale=0.25, gain=0.75, twice=True)))
    assert assay.assert_close(MINE, inputs, outputs)
    with pytest.raises(assay.Mismatch, match="FAIL"):
        assay.assert_close(MINE, {**inputs, "k": np.ascontiguousarray(inputs["k"][:, :, ::-1])}, outputs, why=0.1)


def test_a_case_whose_heads_share_keys():
    case = assay.case(MINE, (2, 20, 4, 16, 8), "fp32", cotangents=False)
    shared = case.sharing(2, "q", "k")
    assert shared["k"].shape == (2, 20, 2, 16) and (shared["k"] == case["k"][:, :, ::2]).all()
    assert assay.check(shared, kernel) and shared.origin == f"{case.origin}.sharing(2, 'q', 'k')"
    assert not assay.check(shared, lambda k, **x: kernel(k=k[:, :, ::-1], **x), raises=False, why=0.1)
    # The gradient of what is shared is the sum of what it would be for each.
    case = assay.case(MINE, (1, 5, 4, 8), "fp32").sharing(2, "k")
    own = assay.Case({**case.tensors, "k": ("F32", (1, 5, 4, 8), np.repeat(case["k"], 2, 2).tobytes())}, case.metadata)
    sums = assay.oracle(own)["d_k"].hi.reshape(1, 5, 2, 2, 8).sum(3)
    assert np.allclose(assay.oracle(case)["d_k"].hi, sums, rtol=1e-12, atol=0)


def test_a_shape_says_how_many_heads_are_shared():
    case = assay.case(MINE, (2, 20, "4/2", 16, 8), "fp32", cotangents=False)
    shared = assay.case(MINE, (2, 20, 4, 16, 8), "fp32", cotangents=False).sharing(2, "k", "v")
    assert case.tensors == shared.tensors and "'4/2'" in case.origin and "sharing" not in case.origin

    def grouped(k, v, **x):
        return kernel(k=np.repeat(k, 2, 2), v=np.repeat(v, 2, 2), **x)

    assert assay.check(case, grouped)
    assert not assay.check(case, lambda k, **x: grouped(k=k[:, :, ::-1], **x), raises=False, why=0.1)


def test_a_file_that_nobody_has_named_is_not_run(tmp_path, monkeypatch):
    case, path = assay.case(MINE, (1, 5, 2, 8), "fp32", cotangents=False), tmp_path / "case.safetensors"
    other = tmp_path / "other.py"
    other.write_text(pathlib.Path(MINE).read_text() + f"\nopen({str(tmp_path / 'run')!r}, 'w')\n")
    case.metadata["mechanism"] = case.metadata["mechanism"].replace(MINE, str(other))
    case.save(path)
    with pytest.raises(assay.InputError, match="other.py: a file of Python, and the command does not name it"):
        assay.check(assay.load(path), kernel)
    assert not (tmp_path / "run").exists()
