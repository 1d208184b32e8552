"""Mechanisms on torch's arrays beside their authors' plain code (flash-linear-attention), outputs and gradients, in doubles: those
that are no rooms and have no definition in definitions.py, and those of 2026 of which flash-linear-attention has such code.

Runs with the packages of `tools/setup --foreign`. That code computes in fp32 wherever it casts: here such casts keep doubles.
"""
import functools
import importlib.util
import pathlib
import random
import re
import unittest

import numpy as np
import support
import torch

torch.set_default_dtype(torch.float64)
LENGTHS = {"T": 9, "S": 9, "K": 4, "V": 3, "D": 4, "M": 5, "N": 3}
# What their cyclic attention imports: checks of shapes, and a table of frequencies, which is the caller's.
CYCLIC = """CyFAState = tuple
build_readout_table = lambda readout: readout
validate_cyfa_inputs = lambda *given: given[-1].shape[-1]
prepare_cu_seqlens = validate_initial_state = lambda x, **shapes: x
"""


@functools.cache
def theirs(module, function):
    """A function of fla/ops/MODULE.py, read without importing the package, which wants a GPU; its casts to fp32 keep doubles."""
    folder = pathlib.Path(next(iter(importlib.util.find_spec("fla").submodule_search_locations)))
    source = (folder / "ops" / f"{module}.py").read_text()
    source = source.replace("torch.float32", "torch.float64").replace("torch.float)", "torch.float64)").replace("torch.float,", "torch.float64,")
    source = source.replace(".float()", ".double()")
    # Their imports from their own package: logarithms to the base 2, and running sums over tokens.
    source = source.replace("from fla.ops.utils.constant import RCP_LN2", "RCP_LN2 = 1 / torch.log(torch.tensor(2.0, dtype=torch.float64))")
    source = source.replace("from fla.ops.utils.cumsum import chunk_global_cumsum", "chunk_global_cumsum = lambda g, cu_seqlens, scale: g.cumsum(1) * scale")
    source = re.sub(r"from \.utils import CyFAState.*", CYCLIC, source)
    # Lengths of keys and queries are the caller's.
    for x in ("q", "k"):
        source = source.replace(f"F.normalize({x}, p=2, dim=-1)", x).replace(f"_rmsnorm_forward({x}, {x}_norm_weight, {x}_norm_eps)", x)
    names = {"__name__": "theirs"}
    exec(compile(source, f"fla/ops/{module}.py", "exec"), names)
    return names[function]


def bthd(x):
    """[T, ...] as [B, T, H, ...] of one batch entry and head."""
    return x[None, :, None]


def bhtd(x):
    """[T, ...] as [B, H, T, ...]."""
    return x[None, None]


def of(x):
    return x[None, None]


def outputs(o, state=None):
    """Their answer as ours: o [B, T, H, V] and the state [B, H, K, V]."""
    return {"o": o[0, :, 0], **({"final_state": state[0, 0]} if state is not None else {})}


def heads_first(o, state=None):
    return {"o": o[0, 0], **({"final_state": state[0, 0]} if state is not None else {})}


def householders(x, steps):
    """[T, steps, ...] as [B, T steps, H, ...]."""
    return x.reshape(-1, *x.shape[2:])[None, :, None]


# Keys that an indexer chose, three at most of nine.
TOP = np.array([[1.0 if s in (t, t // 2, (t * t) % 5) else -1.0 for s in range(9)] for t in range(9)])


def attended(x):
    """Their attention over the chosen keys, by lists."""
    indices = torch.tensor([[s if TOP[t][s] > 0 else -1 for s in range(9)] for t in range(9)])[None]
    return outputs(theirs("dsa/naive", "naive_dsa")(*map(bthd, (x["q"], x["k"], x["v"])), None, None, indices=indices))


def preconditioned(x):
    o, S, A = theirs("precond_gated_delta_rule/naive", "naive_recurrent_precond_gated_delta_rule")(
        *map(bthd, (x["q"], x["k"], x["v"], x["log_forget"], x["log_decay"], x["gain"], x["beta"])),
        initial_state=of(x["initial_state"]), initial_A_state=of(x["initial_squares"]), output_final_state=True)  # fmt: skip
    return {**outputs(o, S), "final_squares": A[0, 0]}


CLOCK = np.random.default_rng(3).uniform(0, 1, size=9)  # how far a ring of five slots goes on at each token
ANGLES = 2 * np.pi / 5 * np.arange(3) * CLOCK[:, None]


def ring(x):
    """Their ring, whose frequencies are even and odd by turns; a constant has no odd part."""
    by_turns = lambda parts: of(torch.stack([*parts], 1).flatten(0, 1))
    table = torch.stack([x["even"], x["odd"]], -1).flatten(1)
    keys, values = by_turns(x["initial_keys"]), by_turns(x["initial_values"])
    return outputs(theirs("cyfa/naive", "naive_recurrent_cyfa")(
        *map(bthd, (x["q"], x["k"], x["v"], x["log_decay"], torch.tensor(CLOCK), x["beta"])), table[None], None, None, 0, 0,
        initial_state=(keys.mT, values, torch.zeros(1, 1)))[0])  # fmt: skip


def naive(module, function, names, layout=bthd, state=False, **more):
    """Their function of inputs by their names in one layout: o, and of one that starts from a state its last state."""

    def f(x):
        begins = {"initial_state": of(x["initial_state"])} if state else {}
        found = theirs(f"{module}/naive", function)(*(layout(x[name]) for name in names.split()), **begins, **more)
        found = found[: 1 + state] if isinstance(found, tuple) else (found,)
        return outputs(*found) if layout is bthd else heads_first(*found)

    return f


recurrent = functools.partial(naive, state=True, output_final_state=True)
by_heads = functools.partial(naive, layout=bhtd)

# Mechanism, settings, inputs left out; and their function on our inputs.
PUBLISHED = [
    ("gdn2", {}, recurrent("gdn2", "naive_recurrent_gdn2", "q k v log_decay erase write")),
    ("gated_delta_product", {}, lambda x: outputs(*theirs("gated_delta_product/naive", "naive_recurrent_gated_delta_product")(
        bthd(x["q"]), householders(x["k"], 2), householders(x["v"], 2), bthd(x["log_decay"]), householders(x["beta"], 2), 4**-0.5,
        initial_state=of(x["initial_state"]), output_final_state=True, num_householder=2))),
    ("rwkv6", {}, lambda x: heads_first(*theirs("rwkv6/recurrent_naive", "naive_recurrent_rwkv6")(
        *map(bhtd, (x["r"], x["k"], x["v"], x["log_decay"])), x["u"][None], scale=1.0,
        initial_state=of(x["initial_state"]), output_final_state=True))),
    ("rwkv7", {"scale": 0.5}, by_heads("generalized_delta_rule/dplr", "dplr_recurrence", "r k v a b log_decay", state=True)),
    ("gsa", {"initial_keys": None, "initial_values": None}, lambda x: outputs(theirs("gsa/naive", "naive_recurrent_gsa")(
        *map(bthd, (x["q"], x["k"], x["v"], 1 - torch.exp(x["log_forget"]), x["log_forget"])))[0])),
    ("forgetting_attention", {}, naive("forgetting_attn", "naive_forgetting_attn", "q k v log_decay")),
    ("log_linear_attention", {}, naive("log_linear_attn", "naive_log_linear_attn", "q k v log_decay level", scale=None)),
    ("sink_attention", {"bandwidth": 2.0, "window": 4}, lambda x: naive("attn", "naive_parallel_attn", "q k v", window_size=4, sink_bias=x["sink"][None])(x)),
    ("ttt_linear", {"residual": "read"}, lambda x: outputs(theirs("ttt/naive", "chunk_ttt_linear_ref")(
        *map(bthd, (x["q"] * 1, x["k"], x["v"])), x["gain"], x["bias"], bthd(x["eta"])[..., None], scale=1.0, mini_batch_size=1,
        initial_state=of(x["initial_state"]), initial_state_bias=x["initial_offset"][None, None, None])[0])),
    ("deepseek_sparse_attention", {"V": 4, "chosen": TOP}, attended),
    ("generalized_delta_rule", {"log_decay": -np.linspace(0.05, 1, 36).reshape(9, 4)}, by_heads(
        "generalized_delta_rule/dplr", "dplr_recurrence", "q k v a b log_decay", state=True)),
    ("generalized_delta_rule", {}, by_heads("generalized_delta_rule/iplr", "iplr_recurrence", "q k v a b", state=True)),
    ("preconditioned_gated_deltanet", {}, preconditioned),
    ("bounded_memory_attention", {"initial_keys": None, "initial_values": None, "initial_normalizer": None},
     lambda x: heads_first(theirs("abc/naive", "naive_cumsum_abc")(*map(bhtd, (x["q"], x["k"], x["v"], x["control"])))[0])),
    ("attention_residuals", {}, lambda x: {"o": theirs("attnres/naive", "naive_attnres")(x["w"], list(x["x"].unbind(1)), x["gain"])}),
    ("cyclic_attention", {"cosine": np.cos(ANGLES), "sine": np.sin(ANGLES)}, ring),
]  # fmt: skip


class Published(unittest.TestCase):
    def test_outputs_and_gradients(self):
        for name, fixed, call in PUBLISHED:
            with self.subTest(name):
                self.judge(name, dict(fixed), call)

    def judge(self, name, fixed, call):
        """Ours on torch, theirs, and ours as a program: outputs, and gradients of a random linear function of them."""
        m, lengths = support.library()[name], {**LENGTHS, "V": fixed.pop("V", LENGTHS["V"])}
        settings = tuple((k, fixed.pop(k)) for k in list(fixed) if k in m.settings)
        p, rng = support.program(name, settings), random.Random(name)
        given = {k: np.asarray(x, dtype=float) for k, x in support.drawn(p, rng, lengths).items()} | fixed
        given = {k: x for k, x in given.items() if x is not None and (fixed or k != "window")}
        x = {k: torch.tensor(v, requires_grad=True) if isinstance(v, np.ndarray) or k in ("bandwidth",) else v for k, v in given.items()}
        y = {k: v.detach().clone().requires_grad_() if torch.is_tensor(v) else v for k, v in x.items()}
        mine = m(**x, **dict(settings))
        other = call(y)
        weights = {o: torch.tensor(np.random.default_rng(1).normal(size=v.shape)) for o, v in other.items()}
        for out, values in ((mine, x), (other, y)):
            sum((out[o] * w).sum() for o, w in weights.items()).backward()
        (found,) = support.answers([(p, given, {o: w.numpy() for o, w in weights.items()})])
        for o in weights:
            self.near(mine[o].detach(), other[o].detach(), o)
            self.near(found[o], other[o].detach(), o)
        for k, v in y.items():
            if torch.is_tensor(v) and v.grad is not None and "d_" + k in found:
                self.near(x[k].grad, v.grad, "d_" + k)
                self.near(found["d_" + k], v.grad, "d_" + k)

    def near(self, a, b, name):
        a, b = np.asarray(a, float), np.asarray(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1.0, np.abs(b).max()), err_msg=name)


class Torch(unittest.TestCase):
    def test_every_mechanism_runs_on_torch(self):
        for name, settings in support.variants():
            with self.subTest(name, **dict(settings)):
                given = support.drawn(support.program(name, settings), random.Random(name))
                numbers = {k: x if k in ("window", "head", "block") else np.array(x, dtype=float) for k, x in given.items()}
                numbers = {"lam" if k == "lambda" else k: x for k, x in numbers.items()}
                m = support.library()[name]
                on_numpy = m(lengths=support.LENGTHS, **numbers, **dict(settings))
                tensors = {k: torch.tensor(x) if isinstance(x, np.ndarray) else x for k, x in numbers.items()}
                on_torch = m(lengths=support.LENGTHS, **tensors, **dict(settings))
                for o, x in on_numpy.items():
                    np.testing.assert_allclose(np.asarray(on_torch[o]), x, rtol=1e-12, atol=1e-13)

    def test_torch_on_traced_arrays(self):
        from test_messages import MechanismError, stepping, trace

        with self.assertRaisesRegex(MechanismError, "a torch function was called on a traced array"):
            trace(stepping(lambda S, q, k, v: (S + torch.exp(S), q @ S)))
