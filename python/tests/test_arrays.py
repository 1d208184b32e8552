"""Mechanisms on arrays of NumPy: what is refused, and mechanisms that are one in a limit; test_core holds each beside its program."""
import random
import unittest

import numpy as np
import support
from assay.language import MechanismError, const, mechanism, outer, scan, size
from test_core import arrays_of
from test_messages import stepping, trace


class Library(unittest.TestCase):
    def test_no_tokens(self):
        lengths = {**support.LENGTHS, "T": 0, "S": 0}
        for name in ("gated_deltanet", "mdn", "softmax_attention", "kda"):
            given = arrays_of(support.drawn(support.program(name), random.Random(1), lengths))
            self.assertEqual(support.library()[name](**given)["o"].shape, (0, 2))

    def test_what_is_missing(self):
        m = support.library()["gated_deltanet"]
        with self.assertRaisesRegex(MechanismError, "gated_deltanet: no array is given"):
            m()
        with self.assertRaisesRegex(MechanismError, "gated_deltanet: k is missing"):
            m(q=np.ones((2, 3)))
        with self.assertRaisesRegex(MechanismError, "has no setting 'qq'"):
            m(qq=1)
        halved = mechanism(x="T")(lambda x: {"y": "0.5" * x + "0.5"})
        with self.assertRaisesRegex(MechanismError, r'a number is a bare text: write const\("0.1"\) where arrays run, too \(test_arrays.py'):
            halved(x=np.ones(3))
        with self.assertRaisesRegex(MechanismError, "size: an axis has a length only inside of a mechanism"):
            size("T")

    def test_a_step_by_itself(self):
        S, rows = scan(lambda S, k, v: (S + outer(k, v) * const("1/2"), (k @ S, v)), np.zeros((2, 3)), np.eye(2), np.ones((2, 3)), reverse=True)
        np.testing.assert_array_equal(S, np.full((2, 3), 0.5))
        np.testing.assert_array_equal(rows[1], np.ones((2, 3)))
        np.testing.assert_array_equal(rows[0], np.zeros((2, 3)))

    def test_numpy_on_traced_arrays(self):
        for step in (
            lambda S, q, k, v: (S + np.exp(S), q @ S),
            lambda S, q, k, v: (np.ones(3) * S, q @ S),
            lambda S, q, k, v: (S, np.sum(q)),
            lambda S, q, k, v: (S, np.float32(3) * q),
            lambda S, q, k, v: (S * np.float64(2), q @ S),
            lambda S, q, k, v: (S, np.asarray(q)),
        ):
            said = r"(a numpy function was called on a traced array|is a binary number|is no number).*\(test_arrays.py:\d+: "
            with self.assertRaisesRegex(MechanismError, said):
                trace(stepping(step))


@mechanism(x="T", rate="param = 1/3")
def decay(x, rate):
    return {"y": x * rate}


class Defaults(unittest.TestCase):
    def test_a_default_is_the_nearest_double(self):
        np.testing.assert_array_equal(decay(x=np.array([3.0, 1.0]))["y"], [1.0, 1 / 3])


def without(x, *names):
    return {k: v for k, v in x.items() if k not in names}


STATE = ("o", "final_state")
# Of what inputs are drawn; both sides of an identity between mechanisms m, in its limit; the outputs that are the same.
IDENTITIES = [
    ("mesanet_recurrence", lambda m, x: (m["mesanet"](ridge="", **x), m["mesanet_recurrence"](**x)), STATE),
    ("titans", lambda m, x: (m["titans"](**x), m["mdn"](
        q=x["q"], k=x["k"], v=x["v"], p=x["k"], log_alpha=np.log(1 - x["alpha"]), log_mu=np.log(x["eta"]), eta=2 * x["theta"], beta=np.ones(5),
        initial_state=x["initial_state"], initial_momentum=-x["initial_momentum"], scale=1.0)), STATE),
    ("kda", lambda m, x: (m["kda"](**x), m["gdn2"](  # with one gate
        **without(x, "beta"), erase=np.outer(x["beta"], np.ones(3)), write=np.outer(x["beta"], np.ones(2)))), STATE),
    ("deltanet", lambda m, x: (m["deltanet"](**without(x, "k_carry")), m["delta_product"](
        steps=1, initial_state=x["initial_state"], **{name: x[name][:, None] for name in ("k", "v", "beta")}, q=x["q"])), STATE),
    ("lightning_attention", lambda m, x: (m["lightning_attention"](scale=1.0, **x), m["mamba2"](
        log_decay=np.full(5, -x["slope"]), scale=1.0, **without(x, "slope"))), STATE),
    # With u = 1 it is linear attention's read of the state before its decay.
    ("rwkv6", lambda m, x: (m["rwkv6"](**{**x, "u": np.ones(3), "log_decay": 0 * x["log_decay"]}), m["linear_attention"](
        scale=1.0, q=x["r"], k=x["k"], v=x["v"], initial_state=x["initial_state"])), STATE),
    ("softmax_attention", lambda m, x: (m["alibi_attention"](slope=0.0, **x), m["softmax_attention"](**x)), ("o",)),
    ("softmax_attention", lambda m, x: (m["sink_attention"](sink=-1e3, **x), m["softmax_attention"](**x)), ("o",)),
    ("softmax_attention", lambda m, x: (m["forgetting_attention"](log_decay=np.zeros(5), scale=1 / x["bandwidth"], **without(x, "window", "bandwidth")),
                                        m["softmax_attention"](**without(x, "window"))), ("o",)),
    ("mamba2", lambda m, x: (m["log_linear_attention"](level=np.ones((5, 8)), **without(x, "initial_state")),  # of equal levels
                             m["mamba2"](**{**x, "initial_state": 0 * x["initial_state"]})), ("o",)),
]  # fmt: skip


class Identities(unittest.TestCase):
    def draw(self, name):
        return arrays_of(support.drawn(support.program(name), random.Random(name)))

    def test_both_sides_are_the_same_in_doubles(self):
        for name, sides, outputs in IDENTITIES:
            a, b = sides(support.library(), self.draw(name))
            for o in outputs:
                np.testing.assert_allclose(a[o], b[o], rtol=1e-12, atol=1e-13, err_msg=name)

    def test_a_cap_far_beyond_the_scores(self):
        m, x = support.library(), self.draw("softmax_attention")
        np.testing.assert_allclose(m["capped_attention"](cap=1e6, **x)["o"], m["softmax_attention"](**x)["o"], rtol=1e-10)
