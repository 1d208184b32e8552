"""The package with torch: kernels of others end to end, autograd, adapters. `make foreign` runs it."""
import json
import math
import pathlib
import sys
import tempfile
import unittest

import assay
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "proptests" / "foreign")]

from kernels import fla  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

A = assay.adapters
ADAPTERS = json.loads(pathlib.Path(__file__).with_name("adapters.json").read_text())


def gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state=True, *, work=torch.float64, keep=lambda x: x):
    """The rule token by token, by autograd."""
    group = v.shape[2] // k.shape[2]
    S, rows, dtype = initial_state.to(work), [], v.dtype
    q, k = (x.to(work).repeat_interleave(group, 2) for x in (q, k))
    v, g, beta = v.to(work), g.to(work), beta.to(work)
    for t in range(v.shape[1]):
        S = S * g[:, t, :, None, None].exp()
        error = v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], keep(S))
        S = S + torch.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * error)
        rows.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, t], S))
    return torch.stack(rows, 1).to(dtype), S.to(dtype)


def math_attention(*args, **kwargs):
    with sdpa_kernel([SDPBackend.MATH]):
        return torch.nn.functional.scaled_dot_product_attention(*args, **kwargs)


class Judged(unittest.TestCase):
    def passes(self, case, kernel, *args, **how):
        report = assay.check(case, kernel, *args, arrays="torch", **how)
        self.assertTrue(report.passed, str(report))
        return {row["tensor"] for row in report.rows}

    def each_passes(self, kernel, case, wanted, name, **how):
        """The kernel passes the case of every row of arguments that adapters.json has under a name, in these tensors and those that an
        argument brings with it."""
        for arguments in ADAPTERS[name]:
            with self.subTest(getattr(kernel, "name", ""), **arguments):
                brought = {"lse"} & arguments.keys() | {f"d_{x}" for x in {"bias", "sink", "alibi_slopes"} & arguments.keys() if "d_q" in wanted}
                self.assertEqual(self.passes(case(**arguments), kernel, **how), wanted | brought)

    def fails(self, case, kernel, tensor, **how):
        with self.assertRaises(assay.Mismatch) as raised:
            assay.check(case, kernel, arrays="torch", **how)
        self.assertEqual(raised.exception.report[tensor]["verdict"], "FAIL", str(raised.exception))


class Healthy(Judged):
    def test_autograd_in_every_precision(self):
        for dtype in ("fp64", "fp32", "bf16", "fp16"):
            with self.subTest(dtype):
                case = assay.case("gated_deltanet", (2, 33, "4/2", 16), dtype, seed=1)
                tensors = self.passes(case, gated_delta_rule, rename={"log_decay": "g"}, gradients=True)
                self.assertEqual(len(tensors), 8)

    def test_the_naive_functions_of_fla(self):
        adapters = [
            (A.fla.chunk_gated_delta_rule, "gated_delta_rule", "naive_recurrent_gated_delta_rule", "2"),
            (A.fla.chunk_gated_delta_rule, "gated_delta_rule", "naive_chunk_gated_delta_rule", "2"),
            (A.fla.chunk_kda, "kda", "naive_recurrent_kda", "4/2"),
            (A.fla.chunk_simple_gla, "simple_gla", "naive_recurrent_simple_gla", "4/2"),
            (A.fla.chunk_simple_gla, "simple_gla", "naive_chunk_simple_gla", "2"),
        ]
        for adapter, module, name, heads in adapters:
            for dtype in ("fp32", "bf16"):
                with self.subTest(name, dtype=dtype):
                    case = assay.case(adapter.mechanism, (1, 70, heads, 16), dtype, seed=2)
                    self.passes(case, adapter.using(getattr(fla(module), name)), tensors=["o", "final_state", "d_q", "d_k", "d_v"])
        case = assay.case("gla", (1, 40, 2, 16), "fp32", seed=2)
        self.passes(case, fla("gla").naive_recurrent_gla, rename={"log_decay": "gk"})

    def test_eight_bits(self):
        for dtype in ("e4m3", "e5m2"):
            case = assay.case("softmax_attention", (1, 40, 2, 16), dtype, seed=4, cotangents=False)
            self.assertEqual(case.array("q", "torch").dtype, {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[dtype])
            again = assay.oracle("softmax_attention", {n: case.array(n, "torch") for n in case.inputs}, params=case.params)
            self.assertTrue((again["o"].hi == assay.oracle(case)["o"].hi).all())

            def kernel(q, k, v, scale):
                q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
                return math_attention(q, k, v, scale=scale, is_causal=True).transpose(1, 2).bfloat16()

            self.passes(case, kernel)

    def test_numpy_and_torch_say_the_same(self):
        case = assay.case("deltanet", (1, 9, 2, 8), "bf16", seed=4)
        inputs = {n: case.array(n, "torch") for n in case.inputs}
        for name, x in inputs.items():
            self.assertEqual(x.double().numpy().tolist(), case.array(name, "numpy").astype(float).tolist())


class Faults(unittest.TestCase):
    def test_rows_that_nobody_wrote(self):
        def stale(**x):
            o, state = gated_delta_rule(**x)
            found = torch.empty_like(o)
            found[:, :-1] = o[:, :-1]
            return found, state

        case = assay.case("gated_deltanet", (1, 40, "4/2", 16), seed=1, device="cpu")
        with self.assertRaisesRegex(assay.Mismatch, r"o: other bits when the kernel is run again|o: \[0\]\[39\]\[0\]\[0\] is nan"):
            assay.check(case, stale, rename={"log_decay": "g"})


class Adapters(unittest.TestCase):
    def test_a_live_call_is_captured(self):
        def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, cp_context=None):
            return fla("gla").naive_recurrent_gla(q, k, v, g, initial_state, output_final_state)

        case = assay.case("gla", (1, 20, 2, 16), "bf16", seed=6)
        q, k, v, g = (case.array(n, "torch") for n in ("q", "k", "v", "log_decay"))
        with tempfile.TemporaryDirectory() as folder:
            live = assay.capture(chunk_gla, every=2, adapter=A.fla.chunk_gla, folder=folder)
            for _ in range(3):
                live(q, k, v, g)
            with self.assertWarnsRegex(RuntimeWarning, "nothing saved: cp_context=...: assay does not judge"):
                for _ in range(2):
                    live(q, k, v, g, cp_context=q)
            self.assertEqual(sorted(p.name for p in pathlib.Path(folder).iterdir()), ["chunk_gla-000000", "chunk_gla-000002"])
            saved = assay.load(pathlib.Path(folder, "chunk_gla-000002", "case.safetensors"))
            self.assertEqual(saved.inputs, ["k", "log_decay", "q", "v"])
            o = assay.oracle(saved)["o"]
            self.assertTrue(math.isfinite(abs(o.hi).max()))


TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, Q, K, V):
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)
batch_size = 2
num_heads = 2
sequence_length = 40
embedding_dimension = 16
"""
CANDIDATES = """
import torch
class ModelNew(torch.nn.Module):
    keep = lambda self, x: x
    def forward(self, Q, K, V):
        Q, K, V = (self.keep(x) for x in (Q, K, V))
        return self.keep(torch.softmax(Q.shape[-1] ** -0.5 * Q @ K.transpose(-1, -2), -1) @ V)
class Half(ModelNew):
    keep = lambda self, x: x.half().float()
class Lazy(ModelNew):
    class Tensor(torch.Tensor):
        pass
    keep = lambda self, x: x.as_subclass(Lazy.Tensor)
class Cached(ModelNew):
    def forward(self, Q, K, V):
        if not hasattr(self, "kept") or self.kept[0] != Q.data_ptr():
            self.kept = Q.data_ptr(), super().forward(Q, K, V)
        return self.kept[1]
class Patched(ModelNew):
    def forward(self, Q, K, V):
        torch.allclose = lambda *a, **k: True
        return super().forward(Q, K, V)
"""
OF_TWO_KINDS = """
import numpy, torch

def of_torch(q, k, v, scale):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = (scale * q @ k.transpose(-1, -2)).masked_fill(torch.ones(q.shape[2], q.shape[2]).triu(1).bool(), -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2)

def of_numpy(q, k, v, scale):
    q, k, v = (x.astype(numpy.float64).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = numpy.where(numpy.tri(q.shape[2], dtype=bool), scale * q @ k.swapaxes(-1, -2), -numpy.inf)
    p = numpy.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).astype(numpy.float32)

def tries_torch(q, k, v, scale):
    if isinstance(q, torch.Tensor):
        raise RuntimeError("arrays of numpy, please")
    return of_numpy(q, k, v, scale)
"""


class Audits(unittest.TestCase):
    def test_a_task_of_kernelbench(self):
        with tempfile.TemporaryDirectory() as folder:
            task, candidates = pathlib.Path(folder, "97_ScaledDotProductAttention.py"), pathlib.Path(folder, "candidates.py")
            task.write_text(TASK), candidates.write_text(CANDIDATES)
            found = assay.audit(task, candidates, again=1, raises=False)
            self.assertTrue(found.passed, str(found))
            for name, said in [("Half", "computed in tf32 or fp16"), ("Lazy", "Lazy.Tensor and no torch.Tensor"), ("Cached", "a stored result"),
                               ("Patched", "has replaced torch.allclose")]:  # fmt: skip
                found = assay.audit(task, f"{candidates}:{name}", again=1, raises=False)
                self.assertIn(said, str(found))
                self.assertFalse(found.passed)

    def test_a_candidate_gets_the_arrays_that_its_code_names(self):
        with tempfile.TemporaryDirectory() as folder:
            candidates = pathlib.Path(folder, "candidates.py")
            candidates.write_text(OF_TWO_KINDS)
            for name, arrays in [("of_torch", "torch"), ("tries_torch", "numpy")]:
                found = assay.audit(("softmax_attention", (1, 24, 2, 16), "fp32"), f"{candidates}:{name}", again=1, raises=False)
                self.assertTrue(found.passed, f"{name}: {found}")
                self.assertEqual(found.arrays, arrays)
