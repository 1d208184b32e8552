"""Mechanisms on torch's arrays: outputs and, by autograd, gradients are those of the core. Runs with the packages of `tools/setup --foreign`."""
import random
import unittest

import numpy as np
import support
import torch
from test_core import PYTHON_NAME, Problem, arrays_of
from test_messages import MechanismError, stepping, trace

torch.set_default_dtype(torch.float64)
# Where a selection leaves out what is not finite, torch multiplies it by 0 on the way back.
OTHER_GRADIENTS = {"compressed_sparse_attention", "falcon1", "falcon2", "falcon2_lite", "falcon2a", "falcon3", "falcon3a",
                   "heavily_compressed_attention", "raven"}  # fmt: skip


def near(x, wanted):
    return np.allclose(x.detach().reshape(wanted.shape), wanted.astype(float), rtol=1e-12, atol=1e-13)


class Torch(unittest.TestCase):
    def test_every_mechanism_runs_on_torch(self):
        problems = [Problem(support.program(*v), support.library()[v[0]], random.Random(f"{v}")) for v in support.variants()]
        found = support.answers([(p.program, p.given, p.cotangents) for p in problems])
        others = set()
        for p, wanted in zip(problems, found, strict=True):
            given = {k: x if isinstance(x, int) else torch.tensor(x, requires_grad=True) for k, x in arrays_of(p.given).items()}
            out = p.function(lengths=p.lengths, **given, **p.program.settings)
            for o, x in out.items():
                self.assertTrue(near(x, wanted[o]), f"{p.program.name} {p.program.settings}: {o}")
            sum((out[o] * torch.tensor(x.astype(float))).sum() for o, x in p.cotangents.items()).backward()
            slopes = {k: given[PYTHON_NAME.get(k, k)] for k in p.along}
            slopes = {k: torch.zeros_like(x) if x.grad is None else x.grad for k, x in slopes.items()}  # None: it does not matter
            others |= set() if all(near(x, wanted["d_" + k]) for k, x in slopes.items()) else {p.program.name}
        self.assertEqual(others, OTHER_GRADIENTS)

    def test_torch_on_traced_arrays(self):
        with self.assertRaisesRegex(MechanismError, "a torch function was called on a traced array"):
            trace(stepping(lambda S, q, k, v: (S + torch.exp(S), q @ S)))
