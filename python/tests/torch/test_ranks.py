"""assay.check(ranks=...) on two ranks of gloo: kernels that are right together pass, and of a wrong one the rank is named."""
import pathlib
import tempfile
import unittest

import assay
import torch
import torch.distributed as dist
import torch.multiprocessing

WORLD = 2


class Gathered(torch.autograd.Function):
    """The pieces of all ranks, one after the other; their gradients go back to whoever has them."""

    @staticmethod
    def forward(context, x):
        pieces = [torch.empty_like(x) for _ in range(WORLD)]
        dist.all_gather(pieces, x.contiguous())
        return torch.cat(pieces, 1)

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(WORLD, 1)[dist.get_rank()]


class GatheredOnce(Gathered):
    """A ring's backward that has the first step's keys and values at every step: gradients of the others' are lost (diffusers#14265)."""

    @staticmethod
    def backward(context, gradient):
        return gradient.chunk(WORLD, 1)[dist.get_rank()].contiguous()


def places(tokens, split):
    """The tokens of all ranks, in their order."""
    piece = torch.arange(tokens).chunk(WORLD if split == "contiguous" else 2 * WORLD)
    mine = [[r] if split == "contiguous" else [r, 2 * WORLD - 1 - r] for r in range(WORLD)]
    return torch.cat([piece[p] for rank in mine for p in rank])


def attention(q, k, v, scale, *, split, gather=Gathered.apply, lies=None):
    """Causal attention of this rank's queries on the keys of all."""
    at = places(WORLD * q.shape[1], lies or split)
    here = at.chunk(WORLD)[dist.get_rank()]
    k, v = gather(k), gather(v)
    s = scale * torch.einsum("bthd,bshd->bhts", q.double(), k.double())
    p = s.masked_fill(at[None] > here[:, None], -torch.inf).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", p, v.double()).to(q.dtype)


class Handed(torch.autograd.Function):
    """A state from the rank before, which gets its gradient back; the first has its own."""

    @staticmethod
    def forward(context, own, step, returns):
        context.returns, context.first = returns, dist.get_rank() == 0
        got = own.clone()
        if not context.first:
            dist.recv(got, dist.get_rank() - 1)
        return got

    @staticmethod
    def backward(context, gradient):
        if context.first:
            return gradient, None, None
        if context.returns:
            dist.send(gradient.contiguous(), dist.get_rank() - 1)
        return torch.zeros_like(gradient), None, None


class Passed(torch.autograd.Function):
    """The state as it goes on to the next rank, whose gradient for it is added."""

    @staticmethod
    def forward(context, state, returns):
        context.last, context.returns = dist.get_rank() == WORLD - 1, returns
        if not context.last:
            dist.send(state.contiguous(), dist.get_rank() + 1)
        return state.clone()

    @staticmethod
    def backward(context, gradient):
        if context.last or not context.returns:
            return gradient, None
        more = torch.empty_like(gradient)
        dist.recv(more, dist.get_rank() + 1)
        return gradient + more, None


def delta_rule(q, k, v, beta, initial_state, scale, *, returns=True, doubled=None):
    """The rule in fp64, rank after rank. Without `returns` no gradient of a state goes back (fla#1115): all ranks but the last are wrong."""
    S, rows = Handed.apply(initial_state.double(), None, returns), []
    for t in range(q.shape[1]):
        key = k[:, t].double()
        error = v[:, t].double() - torch.einsum("bhk,bhkv->bhv", key, S)
        S = S + torch.einsum("bhk,bhv->bhkv", key, beta[:, t, :, None].double() * error)
        rows.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, t].double(), S))
    o = torch.stack(rows, 1) * (2 if doubled == dist.get_rank() else 1)
    return o.to(q.dtype), Passed.apply(S, returns).to(initial_state.dtype)


def raises_on_one(**inputs):
    if dist.get_rank() == 1:
        raise RuntimeError("no memory")
    return inputs["v"]


ATTENTION, RULE = ("softmax_attention", (2, 32, 2, 8), "fp32"), ("deltanet", (1, 32, 2, 8), "fp32")
KERNELS = {
    "attention": (ATTENTION, attention, {}),
    "reuses": (ATTENTION, attention, {"gather": GatheredOnce.apply}),
    "misplaced": (ATTENTION, attention, {"lies": "contiguous"}),
    "rule": (RULE, delta_rule, {}),
    "keeps": (RULE, delta_rule, {"returns": False}),
    "doubled": (RULE, delta_rule, {"doubled": 1}),
    "raises": (RULE, raises_on_one, {}),
    "another case": (RULE, delta_rule, {}),
}


def on_rank(rank, folder, name, split):
    """The report of check on a rank, as a file."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    problem, kernel, settings = KERNELS[name]
    case = assay.case(*problem, seed=rank if name == "another case" else 3)
    settings = {**settings, "split": split} if kernel is attention else settings
    try:
        report = assay.check(case, lambda **inputs: kernel(**inputs, **settings), ranks=split)
        said = f"passed {report.verdict if report is not None else 'elsewhere'}"
    except Exception as error:
        said = f"{type(error).__name__} {getattr(getattr(error, 'report', None), 'ranks', None)} {error}"
    pathlib.Path(folder, str(rank)).write_text(said)
    dist.destroy_process_group()


def said_by(name, split="contiguous"):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(on_rank, (folder, name, split), nprocs=WORLD)
        return [pathlib.Path(folder, str(rank)).read_text() for rank in range(WORLD)]


class Ranks(unittest.TestCase):
    def test_right_together(self):
        for name, split in (("attention", "contiguous"), ("attention", "zigzag"), ("rule", "contiguous")):
            with self.subTest(name, split=split):
                self.assertEqual(said_by(name, split), ["passed PASS", "passed elsewhere"])

    def test_the_wrong_rank_is_named(self):
        for name, split, ranks in (
            ("reuses", "contiguous", {0: ["d_k", "d_v"]}),  # nobody before the last rank's own tokens reads its keys
            ("keeps", "contiguous", {0: ["d_beta", "d_k", "d_v"]}),
            ("doubled", "contiguous", {1: ["o"]}),  # whose gradients are wrong on both
            ("misplaced", "zigzag", {0: ["o"], 1: ["o"]}),
        ):
            with self.subTest(name):
                first, second = said_by(name, split)
                self.assertTrue(second.startswith("AssertionError None"), second)
                self.assertTrue(first.startswith(f"Mismatch {ranks}"), first)
                for rank, names in ranks.items():
                    self.assertIn(f"note: rank {rank} of 2 is wrong in {', '.join(names)}", second)

    def test_what_goes_wrong_is_said_everywhere(self):
        self.assertEqual(said_by("raises")[1], "RuntimeError None no memory")
        self.assertIn("InputError None ranks: rank 1 raises RuntimeError: no memory", said_by("raises")[0])
        self.assertEqual(said_by("another case"), ["InputError None ranks: rank 1 has another case"] * 2)
