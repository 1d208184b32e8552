"""Stages of chunk algorithms: put together they are the recurrence, and its gradients."""
import unittest

import numpy as np
import support
from assay.language.load import load

CHUNK = 4


def stage(name, **given):
    (m,) = load(str(support.LIBRARY / "stages" / f"{name}.py")).values()
    return m(chunk=CHUNK, **given)


class Stages(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        draw = lambda *shape: rng.standard_normal(shape) / 2
        self.x = {
            "q": draw(12, 4), "k": draw(12, 4), "v": draw(12, 3), "beta": rng.uniform(0, 1, 12), "initial_state": draw(4, 3)
        }  # fmt: skip
        self.gates = {"": -rng.uniform(0, 1, 12), "K": -rng.uniform(0, 1, (12, 4))}
        self.cotangents = {"d_o": draw(12, 3), "d_final_state": draw(4, 3)}

    def stages(self, gate):
        """Keys, queries and values in chunks, and what the stages make of them."""
        x = {name: a.reshape(3, CHUNK, *a.shape[1:]) for name, a in self.x.items() if name != "initial_state"}
        x["log_decay"] = self.gates[gate].reshape(3, CHUNK, *self.gates[gate].shape[1:])
        pick = lambda *names: {name: x[name] for name in names}
        x["A"] = stage("chunk_products", **pick("k", "beta", "log_decay"), gate=gate)["A"]
        x["inverse"] = stage("chunk_inverse", A=x["A"])["inverse"]
        x |= stage("chunk_wy", **pick("k", "v", "beta", "log_decay", "inverse"), gate=gate)
        x |= stage("chunk_states", **pick("k", "w", "u", "log_decay"), initial_state=self.x["initial_state"], gate=gate)
        x |= stage("state_map", **pick("k", "w", "u", "log_decay"), gate=gate)
        return x, pick

    def recurrence(self, gate):
        """Outputs and gradients of the mechanism, token by token."""
        cotangents = {name.removeprefix("d_"): x for name, x in self.cotangents.items()}
        return support.answers([(support.program("kda" if gate else "gated_deltanet"), {**self.x, "log_decay": self.gates[gate]}, cotangents)])[0]

    def reads(self, x, gate):
        """The weights of what is written in each chunk, [3 C C], and the queries with their decays."""
        c = np.cumsum(x["log_decay"], 1).reshape(3, CHUNK, -1)
        weights = np.exp(np.minimum(c[:, :, None] - c[:, None], 0))
        return np.tril((x["q"][:, :, None] * weights * x["k"][:, None]).sum(-1)) / 2, np.exp(c) * x["q"]

    def test_together_they_are_the_recurrence(self):
        for gate in self.gates:
            with self.subTest(gate):
                x, _ = self.stages(gate)
                P, up = self.reads(x, gate)
                wanted = self.recurrence(gate)
                near(up @ x["h"] / 2 + P @ x["written"], wanted["o"].reshape(3, CHUNK, -1))
                near(x["final_state"], wanted["final_state"])
                near(x["h"][0], self.x["initial_state"])
                near(x["transition"] @ self.x["initial_state"] + x["bias"], wanted["final_state"])

    def test_backward_is_the_gradient(self):
        """dh is the gradient of the state behind every chunk, of which that before the first is d_initial_state; du gives d_v."""
        for gate in self.gates:
            with self.subTest(gate):
                x, pick = self.stages(gate)
                P, _ = self.reads(x, gate)
                do, dht = self.cotangents["d_o"].reshape(3, CHUNK, -1), self.cotangents["d_final_state"]
                found = stage("chunk_states_backward", **pick("q", "k", "w", "log_decay"), do=do, dv=np.swapaxes(P, 1, 2) @ do, dht=dht, scale=0.5, gate=gate)
                wanted = self.recurrence(gate)
                near(found["dh0"], wanted["d_initial_state"])
                near(found["dh"][-1], dht)
                d_v = x["beta"][..., None] * (np.swapaxes(x["inverse"], 1, 2) @ found["du"])
                near(d_v, wanted["d_v"].reshape(3, CHUNK, -1))

    def test_the_solve_is_that_of_local_linear_attention(self):
        """Its weights are p_j (1 - (k_j - kbar) y)."""
        q, k, v, lam = self.x["q"], self.x["k"], self.x["v"], np.linspace(0.5, 1, 12)
        (m,) = load(str(support.LIBRARY / "stages/local_solve.py")).values()
        y = m(q=q, k=k, lam=lam, bandwidth=2.0)["y"]
        wanted = support.library()["lla"](q=q, k=k, v=v, lam=lam, bandwidth=2.0, ridge="T")["o"]
        for i in range(12):
            keys = k[: i + 1]
            p = np.exp(keys @ q[i] / 2)
            p /= p.sum()
            near((p * (1 - (keys - p @ keys) @ y[i])) @ v[: i + 1], wanted[i])


def near(a, b):
    np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=0, atol=1e-12)
