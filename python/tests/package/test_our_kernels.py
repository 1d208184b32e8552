"""assay.kernels without a GPU: how tensors reach the core and come back. torch is a stand-in of NumPy's arrays; on a GPU
tools/gpu/python_check.py judges the kernels themselves."""
import sys
import types

import assay
import numpy as np
import pytest
from assay import _native
from kernels import delta_rule


class Tensor:
    """What assay.kernels asks of torch's tensors, on NumPy's."""

    requires_grad = False

    def __init__(self, array, dtype, where=("cuda", 0)):
        self.array, self.dtype, self.device = array, dtype, types.SimpleNamespace(type=where[0], index=where[1])

    shape = property(lambda self: self.array.shape)
    ndim = property(lambda self: self.array.ndim)

    def to(self, dtype):
        return Tensor(self.array, dtype)

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.array), self.dtype)

    def data_ptr(self):
        MEMORY[id(self.array)] = self.array
        return id(self.array)


MEMORY = {}


@pytest.fixture
def torch(monkeypatch):
    stand_in = types.ModuleType("torch")
    stand_in.bfloat16, stand_in.float16, stand_in.float32 = "bf16", "fp16", "fp32"
    stand_in.is_grad_enabled = lambda: True
    stand_in.empty = lambda shape, dtype, device: Tensor(np.full(shape, np.nan), dtype)
    stand_in.cuda = types.SimpleNamespace(current_stream=lambda: types.SimpleNamespace(cuda_stream=7))
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


def head_of(tensor, head):
    """A head as the core finds it, a view: `beside` of them share each row of memory."""
    where, _, (heads, rows, *rest), beside = tensor
    return MEMORY[where].reshape(heads // beside, rows, beside, *rest)[head // beside, :, head % beside]


def launch(mechanism, form, precision, params, inputs, cotangents, found, stream, forward):
    """A delta rule in place of the core's, one head after the other."""
    assert (mechanism, form, precision, stream, cotangents, forward) == ("deltanet", "", "bf16", 7, {}, None)
    assert [found[name][1] for name in ("o", "final_state")] == ["bf16", "fp32"] and inputs["beta"][1] == "fp32"
    heads, shared = inputs["v"][2][0], inputs["q"][2][0]
    for h in range(heads):
        s = h // (heads // shared)
        one = [head_of(inputs[name], at)[None, :, None] for name, at in (("q", s), ("k", s), ("v", h), ("beta", h))]
        o, state = delta_rule(*one, head_of(inputs["initial_state"], h)[None, None], float(params["scale"]))
        head_of(found["o"], h)[:], head_of(found["final_state"], h)[:] = o[0, :, 0], state[0, 0]


def test_heads_and_batches_reach_the_core_and_come_back(torch, monkeypatch):
    monkeypatch.setattr(_native, "gpu_kernel", launch)
    case = assay.case("deltanet", (2, 5, "4/2", 8), "fp32", cotangents=False)
    given = {name: case[name] for name in case.inputs}
    tensors = {name: Tensor(np.asarray(x, dtype=np.float64), "bf16" if name in "qkv" else "fp32") for name, x in given.items()}
    o, state = assay.kernels.deltanet(**tensors, scale=case.params.get("scale", 0.5))
    right = delta_rule(*(np.asarray(given[name], dtype=np.float64) for name in ("q", "k", "v", "beta", "initial_state")), float(case.params.get("scale", 0.5)))
    np.testing.assert_allclose(o.array, right[0], atol=1e-12)
    np.testing.assert_allclose(state.array, right[1], atol=1e-12)


def test_what_does_not_fit_is_refused(torch):
    q = Tensor(np.zeros((1, 3, 2, 64)), "bf16")
    for tensors, said in [
        ({"q": q, "k": q, "v": q}, "deltanet: expected the tensor beta"),
        ({"q": q.to("fp32"), "k": q, "v": q, "beta": q}, "expected [B, T, H, K] in bf16 or fp16"),
        ({"q": q, "k": Tensor(q.array, "bf16", ("cpu", None)), "v": q, "beta": q}, "k: expected a tensor on the first GPU"),
        ({"q": q, "k": q, "v": q, "beta": Tensor(np.zeros((2, 3, 2)), "fp32")}, "beta: expected a batch of 1, got 2"),
    ]:
        with pytest.raises(assay.InputError) as refusal:
            assay.kernels.deltanet(**tensors)
        assert said in str(refusal.value)
    with pytest.raises(assay.InputError, match="deltanet: does not take log_decay; it takes q, k, v, beta, "):
        assay.kernels.deltanet(q, q, q, beta=q, log_decay=q)
    with pytest.raises(AttributeError, match="there are comba, deltanet"):
        assay.kernels.nobodys


def test_no_gpu_is_said_with_what_brings_one():
    for name in assay.kernels.__all__:
        assert getattr(assay.kernels, name).__doc__
    with pytest.raises(assay.InputError, match="assay.kernels: there is no"):
        _native.gpu_kernel("deltanet", "", "bf16", {}, {}, {}, {}, 0, None)
