"""The mechanisms on torch's arrays beside their authors' plain code (flash-linear-attention), outputs and gradients, in doubles.

Runs with the packages of `tools/setup --foreign`. That code computes in fp32 wherever it casts: here such casts keep doubles.
"""
import decimal
import functools
import importlib.util
import pathlib
import random
import re
import unittest

import numpy as np
import support
import torch
from evaluate import evaluate
from fields import decimals
from test_gradients import drawn

torch.set_default_dtype(torch.float64)
LENGTHS = {"T": 9, "S": 9, "K": 4, "V": 3, "D": 4, "M": 5, "N": 3}

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
    # Lengths of keys and queries are the caller's.
    for x in ("q", "k"):
        source = source.replace(f"F.normalize({x}, p=2, dim=-1)", x).replace(f"_rmsnorm_forward({x}, {x}_norm_weight, {x}_norm_eps)", x)
    # A readout in frequencies is the caller's; what they take from a file that wants Triton checks shapes.
    source = re.sub(r"from \.utils import CyFAState.*", CYCLIC, source)
    # Imports that only their tests of sparse attention need.
    source = source.replace("from fla.ops.utils import prepare_chunk_offsets", "").replace("from fla.ops.utils.pooling import mean_pooling", "")
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


def preconditioned(rule, *names):
    """o, the state and the running squares of one of their preconditioned rules, whose gates are `names`."""

    def f(x):
        o, S, A = theirs(f"precond_{rule}/naive", f"naive_recurrent_precond_{rule}")(
            *map(bthd, (x["q"], x["k"], x["v"], *(x[k] for k in names))),
            initial_state=of(x["initial_state"]), initial_A_state=of(x["initial_squares"]), output_final_state=True)  # fmt: skip
        return {**outputs(o, S), "final_squares": A[0, 0]}

    return f


def lightnet(x):
    """As their layer does it: a softmax of every channel over the tokens so far is a decay."""
    z = torch.logcumsumexp(x["k"], 0)
    run = naive("gla", "naive_recurrent_gla", "q k v log_decay")
    return run({**x, "k": torch.exp(x["k"] - z), "log_decay": torch.cat([z[:1], z[:-1]]) - z})


def rodimus(x):
    """As their layer does it, with keys whose length is the caller's."""
    g, tau = torch.nn.functional.softplus(x["select"]), torch.sigmoid(x["temper"])
    return recurrent("gla", "naive_recurrent_gla", "q k v log_decay")({**x, "k": x["k"] * g**tau, "v": x["v"] * x["beta"], "log_decay": -g * tau})


def exchanged(x):
    """Oja's rule is their delta rule with keys and values exchanged: its state is theirs after every token, transposed."""
    step, first = recurrent("kda", "naive_recurrent_kda", "v v k log_decay beta"), x["initial_state"].T
    states = [step({**{name: y[: t + 1] for name, y in x.items()}, "initial_state": first})["final_state"].T for t in range(len(x["q"]))]
    return {"o": torch.stack([q @ S for q, S in zip(x["q"], states)]) / 2, "final_state": states[-1]}


def closed_form(x):
    """The delta rule by their code, its write strength solved for."""
    n = (x["k"] * x["k"]).sum(-1)
    return by_heads("delta_rule", "delta_rule_recurrence", "q k v beta", state=True)({**x, "beta": -torch.expm1(-x["beta"] * n) / n})


def memories(x):
    """Their linear attention of every memory, over the tokens that it is sent."""
    chosen = torch.tensor(ROUTED > 0, dtype=torch.float64)
    weight = x["router"].exp() * chosen
    weight = weight / weight.sum(-1, keepdim=True)
    run = recurrent("linear_attn", "naive_recurrent_linear_attn", "q k v")
    attend = lambda k, v, state: run({"q": x["q"], "k": k, "v": v, "initial_state": state})
    shared = attend(x["shared_k"], x["shared_v"], x["initial_shared"])
    each = [attend(x["k"][:, m] * chosen[:, m : m + 1], x["v"][:, m], x["initial_state"][m]) for m in range(chosen.shape[1])]
    o = shared["o"] + sum(weight[:, m : m + 1] * one["o"] for m, one in enumerate(each))
    return {"o": o, "final_state": torch.stack([one["final_state"] for one in each]), "final_shared": shared["final_state"]}


def slots(x):
    """Raven as their layer has it: gated slot attention with the decays of chosen slots alone."""
    g = torch.sigmoid(x["router"]) * torch.tensor(ROUTED > 0, dtype=torch.float64)
    f = x["log_decay"][:, None] * g / g.sum(-1, keepdim=True)
    o, (A, B) = theirs("gsa/naive", "naive_recurrent_gsa")(
        *map(bthd, (x["q"], x["k"], x["v"], 1 - torch.exp(f), f)), scale=1.0,
        initial_state=(of(x["initial_keys"].T), of(x["initial_values"])), output_final_state=True)  # fmt: skip
    return {"o": o[0, :, 0], "final_keys": A[0, 0].T, "final_values": B[0, 0]}


# Blocks that a query reads, of three blocks of three tokens: its own and an earlier one.
CHOSEN = np.array([[1.0 if n == t // 3 or n == (t // 3 + 1) % 3 else -1.0 for n in range(3)] for t in range(9)])


def chosen_and_window(x):
    """Their attention over chosen blocks, and that over a window; the third is not in their sum."""
    indices = torch.tensor([[n if CHOSEN[t][n] > 0 else -1 for n in range(3)] for t in range(9)])[None, :, None]
    picked = theirs("nsa/naive", "naive_nsa_selection")(*map(bthd, (x["q"], x["k"], x["v"])), indices, block_size=3)
    near = theirs("attn/naive", "naive_parallel_attn")(*map(bthd, (x["q"], x["k"], x["v"])), window_size=4)[0]
    g = x["gates"].detach()
    return outputs(g[None, :, None, 1:2] * picked + g[None, :, None, 2:3] * near)


# Keys that an indexer chose, three at most of nine; memories or slots that a router chose, two at most of five.
TOP = np.array([[1.0 if s in (t, t // 2, (t * t) % 5) else -1.0 for s in range(9)] for t in range(9)])
ROUTED = np.array([[1.0 if m in (t % 5, t * t % 5) else -1.0 for m in range(5)] for t in range(9)])
DECAYS = -np.random.default_rng(2).uniform(0.05, 1, size=(9, 4))


def attended(x):
    """Their attention over the chosen keys."""
    indices = torch.tensor([[s if TOP[t][s] > 0 else -1 for s in range(9)] for t in range(9)])[None]
    return outputs(theirs("dsa/naive", "naive_dsa")(*map(bthd, (x["q"], x["k"], x["v"])), None, None, indices=indices))


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
    ("kda", {}, recurrent("kda", "naive_recurrent_kda", "q k v log_decay beta")),
    ("gla", {}, recurrent("gla", "naive_recurrent_gla", "q k v log_decay")),
    ("mamba2", {}, naive("simple_gla", "naive_recurrent_simple_gla", "q k v log_decay", state=True)),
    ("deltanet", {}, by_heads("delta_rule", "delta_rule_recurrence", "q k v beta", state=True)),
    ("gated_deltanet", {}, recurrent("gated_delta_rule", "naive_recurrent_gated_delta_rule", "q k v beta log_decay")),
    ("linear_attention", {}, recurrent("linear_attn", "naive_recurrent_linear_attn", "q k v")),
    ("retnet", {"initial_state": None, "head": 0}, by_heads("retention", "naive_retention", "q k v")),
    ("mdn", {}, lambda x: outputs(*theirs("momentum_delta_rule/naive", "recurrent_momentum_delta_rule_ref")(
        *map(bthd, (x["q"], x["k"], x["v"], x["log_alpha"], x["log_mu"], x["p"], x["beta"], x["eta"])),
        initial_S=of(x["initial_state"]), initial_M=of(x["initial_momentum"]))[:1])),
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
    ("parallax", {"V": 4, "bandwidth": 2.0, "window": 4}, naive("parallax", "naive_parallax", "q rho k v", window_size=4)),
    ("softmax_attention", {"bandwidth": 2.0, "window": 4}, naive("attn", "naive_parallel_attn", "q k v", window_size=4)),
    ("sink_attention", {"bandwidth": 2.0, "window": 4}, lambda x: naive("attn", "naive_parallel_attn", "q k v", window_size=4, sink_bias=x["sink"][None])(x)),
    ("mesanet", {"V": 4, "ridge": "", "lambda_scaling": "sum"}, lambda x: outputs(theirs("mesa_net/naive", "naive_mesa_net_exact")(
        *map(bthd, (x["q"], x["k"], x["v"])), torch.zeros(1, 9, 1), x["lambda"].expand(1, 4), torch.ones(1, 9, 1))[0])),
    ("ttt_linear", {"residual": "read"}, lambda x: outputs(theirs("ttt/naive", "chunk_ttt_linear_ref")(
        *map(bthd, (x["q"] * 1, x["k"], x["v"])), x["gain"], x["bias"], bthd(x["eta"])[..., None], scale=1.0, mini_batch_size=1,
        initial_state=of(x["initial_state"]), initial_state_bias=x["initial_offset"][None, None, None])[0])),
    ("path_attention", {"V": 4}, lambda x: naive("path_attn", "naive_path_attn", "q k v w beta none", scale=0.5, chunk_size=4)(
        {**x, "none": 0 * x["beta"]})),
    ("based", {"eps": 1e-6}, by_heads("based", "naive_parallel_based", "q k v")),
    ("power_attention", {"log_decay": None, "eps": 1e-6}, by_heads("rebased", "naive_parallel_rebased", "q k v")),
    ("stick_breaking_attention", {}, lambda x: dict(zip(("o", "rest"), (y[0, :, 0] for y in theirs(
        "stickbreaking_attn/naive", "naive_stickbreaking_attn")(*map(bthd, (x["q"], x["k"], x["v"]))))))),
    ("hgrn", {}, lambda x: dict(zip(("o", "final_state"), (y[0] for y in theirs("hgrn/naive", "naive_recurrent_hgrn")(
        x["x"][None], x["log_decay"][None], x["initial_state"][None], True))))),
    ("preconditioned_kda", {}, preconditioned("kda", "log_decay", "log_forget", "gain", "beta")),
    ("preconditioned_gated_deltanet", {}, preconditioned("gated_delta_rule", "log_forget", "log_decay", "gain", "beta")),
    ("generalized_delta_rule", {"log_decay": DECAYS}, by_heads("generalized_delta_rule/dplr", "dplr_recurrence", "q k v a b log_decay", state=True)),
    ("generalized_delta_rule", {}, by_heads("generalized_delta_rule/iplr", "iplr_recurrence", "q k v a b", state=True)),
    ("gated_oja_rule", {}, exchanged),
    ("efla", {}, closed_form),
    ("q_delta", {}, lambda x: recurrent("comba", "naive_recurrent_comba", "q k v p beta log_decay")(
        {**x, "p": x["k"] + x["feedback"][:, None] * x["q"]})),
    ("bounded_memory_attention", {"initial_keys": None, "initial_values": None, "initial_normalizer": None},
     lambda x: heads_first(theirs("abc/naive", "naive_cumsum_abc")(*map(bhtd, (x["q"], x["k"], x["v"], x["control"])))[0])),
    ("lightnet", {"initial_state": None, "initial_normalizer": None}, lightnet),
    ("rodimus", {}, rodimus),
    ("mom", {"chosen": ROUTED}, memories),
    ("raven", {"chosen": ROUTED}, slots),
    ("deepseek_sparse_attention", {"V": 4, "chosen": TOP}, attended),
    ("cyclic_attention", {"cosine": np.cos(ANGLES), "sine": np.sin(ANGLES)}, ring),
    ("attention_residuals", {}, lambda x: {"o": theirs("attnres/naive", "naive_attnres")(x["w"], list(x["x"].unbind(1)), x["gain"])}),
    ("native_sparse_attention", {"V": 4, "block": 3, "window": 4, "chosen": CHOSEN}, chosen_and_window),
    ("wall_attention", {"window": 4}, naive("wall_attn", "naive_wall_attn", "q k v log_decay", scale=0.5, window_size=4)),
]  # fmt: skip


def evaluated(program, given, lengths):
    with decimal.localcontext(prec=30, traps=[]):
        return {name: np.asarray(x, dtype=float) for name, x in evaluate(program, given, decimals(), lengths).items()}


class Published(unittest.TestCase):
    def test_outputs_and_gradients(self):
        for name, fixed, call in PUBLISHED:
            with self.subTest(name):
                self.judge(name, dict(fixed), call)

    def test_an_indexer_takes_the_largest_scores(self):
        """Their top-3 of every query are the largest of the scores that our program gives out."""
        p, lengths = support.program("deepseek_sparse_attention"), {**LENGTHS, "M": 2}
        given = {k: np.asarray(x, dtype=float) for k, x in drawn(p, random.Random("index"), lengths).items()}
        index = evaluated(p, given, lengths)["index"]
        q, k, w = (torch.tensor(given[n])[None] for n in ("index_q", "index_k", "index_weight"))
        taken = theirs("dsa/naive", "naive_dsa_indexer")(q, k, w, topk=3, scale=1.0, activation="relu")[0].numpy()
        for t, row in enumerate(index):
            seen = row[: t + 1]
            chosen = seen[[s for s in taken[t] if s >= 0]]
            self.assertEqual(len(chosen), min(3, t + 1))
            np.testing.assert_array_equal(np.sort(chosen), np.sort(seen)[-3:])

    def judge(self, name, fixed, call):
        """Ours on torch, theirs, and ours as a program: outputs, and gradients of a random linear function of them."""
        m, lengths = support.library()[name], {**LENGTHS, **({"V": fixed.pop("V")} if "V" in fixed else {})}
        settings = tuple((k, fixed.pop(k)) for k in list(fixed) if k in m.settings)
        p, rng = support.program(name, settings), random.Random(name)
        given = {k: np.asarray(x, dtype=float) for k, x in drawn(p, rng, lengths).items()} | fixed
        if name == "native_sparse_attention":
            given["gates"][:, 0] = 0
        given = {k: x for k, x in given.items() if x is not None and (fixed or k != "window")}
        x = {k: torch.tensor(v, requires_grad=True) if isinstance(v, np.ndarray) or k in ("bandwidth",) else v for k, v in given.items()}
        y = {k: v.detach().clone().requires_grad_() if torch.is_tensor(v) else v for k, v in x.items()}
        mine = m(**{"lam" if k == "lambda" else k: v for k, v in x.items()}, **dict(settings))
        other = call(y)
        weights = {o: torch.tensor(np.random.default_rng(1).normal(size=v.shape)) for o, v in other.items()}
        for out, values in ((mine, x), (other, y)):
            sum((out[o] * w).sum() for o, w in weights.items()).backward()
        found = evaluated(support.program(name, settings, True), {**given, **self.cotangents(p, weights, lengths)}, lengths)
        for o in weights:
            self.near(mine[o].detach(), other[o].detach(), o)
            self.near(found[o], other[o].detach(), o)
        for k, v in y.items():
            if torch.is_tensor(v) and v.grad is not None and "d_" + k in found:
                self.near(x[k].grad, v.grad, "d_" + k)
                self.near(found["d_" + k], v.grad, "d_" + k)

    def cotangents(self, p, weights, lengths):
        zero = {"d_" + o: np.zeros([lengths.get(a, a) for a in t.shape]) for o, t in p.output_types().items()}
        return zero | {"d_" + o: w.numpy() for o, w in weights.items()}

    def near(self, a, b, name):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1.0, np.abs(b).max()), err_msg=name)


class Torch(unittest.TestCase):
    def test_every_mechanism_runs_on_torch(self):
        for name, settings in support.variants():
            with self.subTest(name, **dict(settings)):
                given = drawn(support.program(name, settings), random.Random(name), support.LENGTHS)
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
