"""check(graph=True) and the ways of invariance that need CUDA, on a torch of NumPy that records launches as graphs of CUDA do."""
import contextlib
import re
import sys
import types

import assay
import ml_dtypes
import numpy as np
import pytest
from kernels import delta_rule


class Tensor(np.ndarray):
    """The attributes that assay asks of a tensor."""

    is_cuda, is_quantized, requires_grad, layout, device = True, False, False, "strided", "cuda"
    requires_grad_ = detach = cpu = contiguous = to = lambda self, *_: self

    def is_floating_point(self):
        return self.dtype.kind != "i"

    def numpy(self):
        return np.array(self)

    def fill_(self, x):
        self[...] = x

    copy_ = fill_


class Device:
    """Streams that work at once, but for the one that is captured: there work is recorded, and done when the graph is replayed."""

    def __init__(self):
        self.default = self.current = self.Stream()
        self.recorded = self.captured = None

    class Stream:
        def wait_stream(self, other):
            pass

    class CUDAGraph(list):
        def replay(self):
            for work in self:
                work()

    def is_available(self):
        return True

    def synchronize(self, *_):
        pass

    def current_stream(self):
        return self.current

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextlib.contextmanager
    def graph(self, graph, stream):
        with self.stream(stream):
            self.recorded, self.captured = graph, stream
            yield
        self.recorded = self.captured = None

    def launch(self, work, stream=None):
        if (stream or self.current) is self.captured:
            self.recorded.append(work)
        else:
            work()


@pytest.fixture
def torch(monkeypatch):
    names = ("float64", "float32", "float16", "int64", "int32", "int16", "uint8", "bool")
    module = types.ModuleType("torch")
    module.__dict__.update({name: np.dtype(name) for name in names}, Tensor=Tensor, cuda=Device(), strided="strided")
    module.__dict__.update({name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")})
    module.frombuffer = lambda data, dtype: np.frombuffer(data, dtype).view(Tensor)
    module.full = lambda shape, x, dtype, device: np.full(shape, x, dtype)
    module.no_grad = module.enable_grad = contextlib.nullcontext
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def kernel_on(device, *, stream=lambda: None, plan=lambda q: 1, adds=False, captures=True):
    """The delta rule as one launch into new memory; `plan` is what the host computes of the inputs when it is called."""
    total = np.zeros((), np.float32)

    def kernel(q, k, v, beta, initial_state, scale):
        if device.captured is not None and not captures:
            raise RuntimeError("operation not permitted when stream is capturing\nand more")
        o, state, planned = np.zeros_like(v), np.zeros_like(initial_state), plan(q)

        def work():
            answer = delta_rule(q, k, v, beta, initial_state, scale)
            o[...], state[...] = answer[0] * np.float32(planned), answer[1]
            if adds:
                total[...] += 1
                o[...] *= 1 + (total > 4) * np.float32(1e-7)

        device.launch(work, stream())
        return o, state

    return kernel


def case():
    return assay.case("deltanet", (2, 20, 2, 8), "fp32", seed=3, cotangents=False, device="cuda")


def test_a_replay_with_other_inputs_is_judged(torch):
    report = assay.check(case(), kernel_on(torch.cuda), graph=True)
    assert report.passed and report.faults == []


@pytest.mark.parametrize("how, said", [
    (lambda device: {"stream": lambda: device.default}, "o: wrong when its graph is replayed .*: nothing is written, so its launches have escaped the capture"),
    (lambda device: {"plan": lambda q: float(np.asarray(q).any())}, "o: wrong when its graph is replayed with other inputs than it was captured with: "),
    (lambda device: {"adds": True}, r"o: other bits when its graph is replayed again: o\[0\]\[0\]\[0\]\[0\] is"),
    (lambda device: {"captures": False}, "cannot be captured as a graph of CUDA: operation not permitted when stream is capturing"),
])  # fmt: skip
def test_what_only_a_replay_shows(torch, how, said):
    """SageAttention#392: a plan that stays what it was; DeepGEMM#451: launches on the default stream."""
    kernel = kernel_on(torch.cuda, **how(torch.cuda))
    assert assay.check(case(), kernel, same_bits=False).passed
    with pytest.raises(assay.Mismatch) as raised:
        assay.check(case(), kernel_on(torch.cuda, **how(torch.cuda)), graph=True)
    assert re.search(said, " ".join(str(raised.value).split()))
    assert not raised.value.report.passed and raised.value.report.verdict == "FAIL"


def test_gradients_are_not_replayed_and_a_device_is_needed(torch):
    report = assay.check(case(), kernel_on(torch.cuda), graph=True, inplace=(), gradients=False)
    assert report.notes == []
    with pytest.raises(assay.InputError, match='^graph: needs a device of CUDA: device="cuda"'):
        assay.check(assay.case("deltanet", (2, 20, 2, 8), "fp32", cotangents=False), kernel_on(torch.cuda), graph=True, arrays="torch")


def test_lengths_are_others_when_a_graph_is_captured():
    from assay._graphs import other_inputs

    one = assay.case("softmax_attention", (2, "4/40", 1, 16), "fp32", lengths_k=[30, 40], cotangents=False)
    other = other_inputs(one)
    assert other["lengths_k"].tolist() == [40, 30] and not other["q"].any() and one["q"].any()
    paged = assay.case("softmax_attention", (2, "4/40", 1, 16), "fp32", page_table=8, cotangents=False)
    table = other_inputs(paged)["page_table"]
    assert table.shape == paged["page_table"].shape and table.max() < paged["k"].shape[0]


def test_ways_that_need_a_device(torch):
    found = assay.invariance(case(), kernel_on(torch.cuda), ways=("another stream", "graph replay"), require="bits")
    assert [row.verdict for row in found.rows] == ["same bits"] * 2
    where = lambda: torch.cuda.current is torch.cuda.default  # noqa: E731
    found = assay.invariance(case(), kernel_on(torch.cuda, plan=lambda q: 1 if where() else 2), ways=("another stream", "graph replay"), raises=False)
    assert [row.verdict for row in found.rows] == ["FAIL"] * 2
    found = assay.invariance(case(), kernel_on(torch.cuda, captures=False), ways=("graph replay",))
    assert found["graph replay"].why == "cannot be captured: operation not permitted when stream is capturing"
