"""JAX' arrays: kernels that are traced, compiled and differentiated by JAX, in every format that it has."""
import unittest

import assay
import jax
import jax.numpy as jnp
import numpy as np


def delta_rule(q, k, v, beta, initial_state, scale):
    """Token by token in fp32; outputs in v's type."""
    group = v.shape[2] // k.shape[2]
    q, k = (jnp.repeat(x.astype(jnp.float32), group, 2) for x in (q, k))

    def step(S, token):
        q, k, v, beta = token
        error = beta[..., None] * (v - jnp.einsum("bhk,bhkv->bhv", k, S))
        S = S + jnp.einsum("bhk,bhv->bhkv", k, error)
        return S, scale * jnp.einsum("bhk,bhkv->bhv", q, S)

    tokens = tuple(jnp.moveaxis(x.astype(jnp.float32), 1, 0) for x in (q, k, v, beta))
    S, o = jax.lax.scan(step, initial_state.astype(jnp.float32), tokens)
    return jnp.moveaxis(o, 0, 1).astype(v.dtype), S


def attention(q, k, v, scale):
    group = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, group, 2) for x in (k, v))
    s = scale * jnp.einsum("bihd,bjhd->bhij", q, k, preferred_element_type=jnp.float32)
    p = jax.nn.softmax(jnp.where(jnp.tri(q.shape[1], k.shape[1], dtype=bool), s, -jnp.inf), -1)
    return jnp.einsum("bhij,bjhd->bihd", p, v.astype(jnp.float32)).astype(q.dtype)


class Jax(unittest.TestCase):
    def passes(self, report):
        self.assertTrue(report, str(report))
        return {row["tensor"] for row in report.rows}

    def test_gradients_are_those_of_jax(self):
        every = {"o", "final_state", "d_q", "d_k", "d_v", "d_beta", "d_initial_state"}
        for dtype in ("fp32", "bf16", "fp16"):
            for kernel in (delta_rule, jax.jit(delta_rule)):
                with self.subTest(dtype=dtype, kernel=kernel):
                    case = assay.case("deltanet", (2, 40, "4/2", 16), dtype, seed=1)
                    self.assertEqual(self.passes(assay.check(case, kernel, arrays="jax", raises=False)), every)

    def test_what_is_wrong_is_named(self):
        case = assay.case("softmax_attention", (1, 40, "4/2", 16), "bf16", seed=1, arrays="jax")
        self.assertEqual(self.passes(assay.check(case, attention, raises=False)), {"o", "d_q", "d_k", "d_v"})

        def stopped(q, k, v, scale):
            return attention(q, jax.lax.stop_gradient(k), v, scale)

        with self.assertRaisesRegex(assay.Mismatch, "FAIL  d_k is wrong"):
            assay.check(case, stopped)
        with self.assertRaisesRegex(assay.Mismatch, "looks like the scale"):
            assay.check(case, lambda q, k, v, scale: attention(q, k, v, 1.0), gradients=False)

    def test_arrays_are_jax_own_and_come_back(self):
        for dtype, theirs in (("bf16", jnp.bfloat16), ("fp16", jnp.float16), ("fp32", jnp.float32), ("e4m3", jnp.float8_e4m3fn)):
            case = assay.case("softmax_attention", (1, 9, 2, 16), dtype, arrays="jax")
            self.assertIsInstance(case["q"], jax.Array)
            self.assertEqual(case["q"].dtype, theirs)
            bits = np.asarray(case["q"]).view(np.uint8).tobytes()
            self.assertEqual(bits, bytes(memoryview(case.tensors["q"][2]).cast("B")))

    def test_ones_own_tensors(self):
        keys = jax.random.split(jax.random.key(0), 3)
        inputs = {name: jax.random.normal(key, (1, 24, 2, 16), jnp.bfloat16) for name, key in zip("qkv", keys)}
        o = attention(**inputs, scale=0.25)
        self.assertTrue(assay.assert_close("softmax_attention", inputs, {"o": o}, params={"scale": 0.25}))
        with self.assertRaises(assay.Mismatch):
            assay.assert_close("softmax_attention", inputs, {"o": o * jnp.bfloat16(1.125)}, params={"scale": 0.25})
        truth = assay.oracle("softmax_attention", inputs, params={"scale": 0.25})["o"]
        self.assertLess(np.abs(np.asarray(o, np.float64) - np.asarray(truth.hi, np.float64)).max(), 0.05)

    def test_doubles_need_a_switch_of_jax(self):
        case = assay.case("softmax_attention", (1, 9, 2, 16), "fp64", cotangents=False)
        with self.assertRaisesRegex(assay.InputError, "[qkv]: JAX keeps 64 bits only where jax_enable_x64 is set"):
            assay.check(case, attention, arrays="jax")
        with jax.enable_x64(True):
            self.passes(assay.check(case, lambda **x: attention(**x), "fp32", arrays="jax", raises=False))

    def test_a_device(self):
        case = assay.case("softmax_attention", (1, 9, 2, 16), "fp32", arrays="jax")
        self.assertEqual(case.array("q", "jax", jax.devices()[0]).devices(), {jax.devices()[0]})
