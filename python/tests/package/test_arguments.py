"""Cases with the arguments of real kernels, in NumPy: what is healthy passes, what drops an argument does not, and refusals name it."""
import functools

import assay
import numpy as np
import pytest
from kernels import attended, delta_rule

SHAPE = (1, 24, "4/2", 4)


def attention(q, k, v, scale, soft_cap=0.0, sink=None, cu_seqlens=None, bias=None):
    """o and lse, every sequence by itself; rows outside are what memory had."""
    o, lse = np.full(q.shape[:3] + v.shape[3:], 7, v.dtype), np.full(q.shape[:3], 7, np.float32)
    starts = [0, q.shape[1]] if cu_seqlens is None else cu_seqlens
    group = q.shape[2] // k.shape[2]
    for b, h in np.ndindex(q.shape[0], q.shape[2]):
        for first, end in zip(starts, starts[1:]):
            one, keys, values = (x[b, first:end, h if x is q else h // group].astype(np.float64) for x in (q, k, v))
            s = scale * one @ keys.T
            s = soft_cap * np.tanh(s / soft_cap) if soft_cap else s
            s = s if bias is None else s + bias[h].astype(np.float64)
            o[b, first:end, h], lse[b, first:end, h], _ = attended(s, values, sink=None if sink is None else np.float64(sink[h]))
    return o, lse


def changed(**values):
    """The kernel with these arguments, whatever it is told."""

    @functools.wraps(attention)
    def kernel(*args, **given):
        return attention(*args, **{**given, **values})

    return kernel


def case(**arguments):
    return assay.case("softmax_attention", SHAPE, "fp32", seed=3, cotangents=arguments.pop("cotangents", False), **arguments)


@pytest.mark.parametrize("arguments", [{"soft_cap": 2.0}, {"sink": -1.5}, {"cu_seqlens": [0, 5, 5, 20]}, {"bias": True}])
def test_a_kernel_that_takes_them_passes(arguments):
    one = case(**arguments)
    assert one.has_arguments and one.asked().outputs == ["o", "lse"]
    report = assay.check(one, attention)
    assert report.passed and {row["tensor"] for row in report.rows} == {"o", "lse"}


@pytest.mark.parametrize("arguments,wrong,cause", [
    ({"soft_cap": 2.0}, {"soft_cap": lambda c: 0.0}, "soft_cap ignored"),
    ({"sink": True}, {"sink": lambda x: None}, "sink ignored"),
    ({"sink": True}, {"sink": lambda x: np.roll(x, -1)}, "sink of the next head"),
    ({"bias": True}, {"bias": lambda x: x * np.log(2)}, "bias in base 2"),
    ({"bias": True}, {"bias": lambda x: x.swapaxes(1, 2)}, "bias transposed"),
    ({"cu_seqlens": [0, 5, 5, 20]}, {"cu_seqlens": lambda x: [0, 20]}, "sequences not told apart"),
    ({"cu_seqlens": [0, 5, 9, 20]}, {"cu_seqlens": lambda x: [0, 6, 10, 20]}, "sequences begin one row late"),
    ({"sink": True}, {"scale": lambda x: 2.7 * x}, None),
])  # fmt: skip
def test_causes_have_names(arguments, wrong, cause):
    @functools.wraps(attention)
    def kernel(q, k, v, scale, **given):
        given = {name: wrong.get(name, lambda x: x)(x) for name, x in {"scale": scale, **given}.items()}
        return attention(q, k, v, **given)

    report = assay.check(case(**arguments), kernel, raises=False)
    found = report.page["looks_like"]
    assert report["o"]["verdict"] == "FAIL" and [one["what"].split(" (")[0].split(": ")[-1] for one in found][:1] == ([cause] if cause else [])


TWO = (2, 12, "4/2", 4)


@pytest.mark.parametrize("cause,wrong,shape", [
    ("log_decay taken as log2", {"base": np.log(2)}, SHAPE),
    ("max(x, 0) for softplus(x) of the gate", {"softplus": lambda x: np.maximum(x, 0)}, TWO),
    ("dt_bias ignored", {"bias": 0}, TWO),
    ("k not normalised", {"norms": "q"}, SHAPE),
    ("l2_norm ignored", {"norms": ""}, TWO),
    ("the error correction missing", {"bug": {"predicts": lambda *_: 0}}, SHAPE),
])  # fmt: skip
def test_causes_behind_gates_and_norms(cause, wrong, shape):
    def kernel(q, k, v, beta, a, a_log, dt_bias, initial_state, *, scale=0.5, base=1, bias=1, norms="qk", softplus=lambda x: np.logaddexp(0, x), bug={}, **told):
        q, k = (x.astype(np.float64) / (np.linalg.norm(x.astype(np.float64), axis=-1, keepdims=True) if n in norms else 1) for n, x in zip("qk", (q, k)))
        decay = -np.exp(a_log.astype(np.float64)) * softplus(a.astype(np.float64) + bias * dt_bias) * base
        return delta_rule(q, k, v, beta, initial_state, scale, decay, to=v.dtype, work=np.float64, **bug)

    one = assay.case("gated_deltanet", shape, "bf16", gate="softplus", l2_norm="root", l2_eps=1e-6, cotangents=False)
    assert assay.check(one, kernel).passed
    found = assay.check(one, functools.partial(kernel, **wrong), raises=False).page["looks_like"]
    assert found[0]["what"].startswith(cause)


def test_an_lse_that_is_asked_for_is_judged():
    """With cotangents or without, and whatever the kernel says of gradients."""
    def zeros(*args, **given):
        o, lse = attention(*args, **given)
        return o, 0 * lse

    for one, how in [(case(with_=["lse"]), {}), (case(with_=["lse"], cotangents=True), {"gradients": False})]:
        assert one.asked().outputs == ["o", "lse"] and not one.asked().optional
        assert {row["tensor"] for row in assay.check(one, attention, **how).rows} == {"o", "lse"}
        with pytest.raises(assay.Mismatch, match="lse"):
            assay.check(one, zeros, **how, why=0.1)
        with pytest.raises(assay.InputError, match="^lse: the case asks for it, and the kernel does not answer it"):
            assay.check(one, lambda q, k, v, scale: attention(q, k, v, scale)[0], **how)
    with pytest.raises(assay.InputError, match="^lse: the case does not ask for it"):
        assay.check(case(), lambda q, k, v, scale: dict(zip(("o", "lse"), attention(q, k, v, scale))))


def test_what_a_case_hides_is_said():
    def hidden(one):
        return [line for line in str(assay.check(one, attention)).splitlines() if line.startswith("cannot see") and "soft_cap left out" in line]

    assert hidden(case(soft_cap=1e6, sink=True)) and not hidden(case(soft_cap=2.0))


def test_rows_outside_of_every_sequence_are_nan_and_not_judged():
    one = case(cu_seqlens=[0, 5, 5, 20])
    assert np.isnan(one["q"][:, 20:]).all() and not np.isnan(one["q"][:, :20]).any()
    assert one["cu_seqlens"].tolist() == [0, 5, 5, 20] and one["cu_seqlens"].dtype == np.int32
    truth = assay.oracle(one)["o"]
    assert np.isnan(truth.hi[:, 20:]).all() and truth.bound[:, :20].max() < 1e-20
    expected = assay.expect(one)["o"]
    o, lse = attention(one["q"], one["k"], one["v"], scale=0.5, cu_seqlens=one["cu_seqlens"])
    assert (abs(o - expected.value) <= expected.limit)[:, :20].all() and (expected.sigma[:, 6:20] > 0).all()  # token 5 sees one key

    runs = []

    def leaves(q, k, v, scale, cu_seqlens, *, row=20):
        """Never writes rows outside, and other bits in each run from that row on."""
        found = attention(q, k, v, scale, cu_seqlens=cu_seqlens)
        runs.append(0)
        for x in found:
            x[:, row:20] *= np.float32(1 + 2e-7 * len(runs))
            x[:, 20:] = len(runs)
        return found

    assert assay.check(one, leaves).passed
    with pytest.raises(assay.Mismatch, match=r"(?s)^o: other bits .*:\s+o\[0\]\[19\]\[0\]\[0\] is "):
        assay.check(one, lambda q, k, v, scale, cu_seqlens: leaves(q, k, v, scale, cu_seqlens, row=19))
    with pytest.raises(assay.Mismatch, match=r"o: \S+ is -?nan"):
        assay.check(one, changed(cu_seqlens=[0, 24]), why=0.1)


def test_ones_own_tensors():
    one = case(sink=True, soft_cap=2.0)
    inputs = {name: one[name] for name in one.inputs}
    params = {"scale": 0.5, "soft_cap": 2.0}
    o, lse = attention(**inputs, **params)
    assert assay.assert_close("softmax_attention", inputs, {"o": o}, params=params).passed
    turned = {name: x if name == "sink" else x.transpose(0, 2, 1, 3).copy() for name, x in inputs.items()}
    assert assay.assert_close("softmax_attention", turned, {"o": o.transpose(0, 2, 1, 3).copy()}, params=params, layout="bhtd").passed
    truth = assay.oracle("softmax_attention", inputs, params=params)["o"]
    assert (truth.hi == assay.oracle(one)["o"].hi).all()
    mask = np.tril(np.ones((24, 24), bool))
    assert assay.oracle("softmax_attention", {**{n: inputs[n] for n in "qkv"}, "mask": mask}, params={"scale": 0.5})["o"].hi.shape == (1, 24, 4, 4)


def test_gates_states_and_layouts_of_recurrences():
    one = assay.case("gated_deltanet", SHAPE, "bf16", gate="softplus", beta_gate="sigmoid", l2_norm="root", l2_eps=1e-6, layout="thd",
                     cu_seqlens=[0, 5, 5, 20], state_layout="v_first", state_every=4, with_=["chunk_states"], arrays="torch")  # fmt: skip
    assert one.layout == "thd" and one.asked().outputs == ["o", "final_state", "chunk_states"]
    assert {"a", "b", "a_log", "dt_bias"} <= one.asked().differentiable and not {"beta", "log_decay"} & set(one)
    shapes = {name: x.hi.shape for name, x in assay.oracle(one).items()}
    assert shapes["final_state"] == (3, 4, 4, 4) and shapes["chunk_states"] == (6, 4, 4, 4) and shapes["d_a"] == (24, 4)


def test_a_live_call_is_captured(tmp_path):
    one = case(sink=True, soft_cap=2.0)
    live = assay.capture(attention, mechanism="softmax_attention", outputs=("o", "lse"), folder=tmp_path)
    live(one["q"], one["k"], one["v"], 0.5, soft_cap=2.0, sink=one["sink"])
    seen = assay.load(tmp_path / "attention-000000" / "case.safetensors")
    assert set(seen) == {"q", "k", "v", "sink"} and float(seen.params["soft_cap"]) == 2.0
    assert (assay.oracle(seen)["o"].hi == assay.oracle(one)["o"].hi).all()


def test_values_are_what_assay_case_makes_of_them():
    for one, words in [
        (case(sink=[1, 2, 3, 4]), [1, 2, 3, 4]),
        (case(sink=-float("inf")), [-np.inf] * 4),
        (case(sink=np.array([1.0, 2, 3, 4])), [1, 2, 3, 4]),
        (case(with_={"sink": 2}), [2] * 4),
    ]:
        assert one["sink"].tolist() == words
    assert case(mask=np.eye(24, dtype=bool))["mask"].tolist() == np.eye(24, dtype=bool).tolist()
    again = eval(case(sink=[1, 2, 3, 4], with_=["lse"], cotangents=True).origin)
    assert {n: bytes(x[2]) for n, x in again.tensors.items()} == {
        n: bytes(x[2]) for n, x in case(sink=[1, 2, 3, 4], with_="lse", cotangents=True).tensors.items()
    }
    assert not case(sink=False).has_arguments and not case(sink=None).has_arguments
    assert (case(sink=True, fill={"sink": 0.5})["sink"] == 0.5).all()


def test_contracts_where_a_tile_program_of_ours_takes_the_arguments():
    one = case(soft_cap=2.0)
    assert assay.check(one, attention, "fp32").passed and assay.expect(one, "fp32")["o"].limit.max() > 0
    gated = assay.case("gated_deltanet", SHAPE, gate="softplus")
    assert set(assay.expect(gated)) == set(assay.expect(gated, "bf16")) == set(assay.oracle(gated))
