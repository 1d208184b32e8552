"""assay.pair: of two kernels that disagree it says who is wrong, from which token on, and by how much; or that neither is."""
import json

import assay
import ml_dtypes
import numpy as np
import pytest
from kernels import after
from kernels import delta_rule as rollout

PROBLEM = ("deltanet", (1, 96, 2, 8), "fp32")


def trainer(**x):
    """The same in fp64: other bits, and right."""
    return rollout(**x, work=np.float64)


def late(q, k, v, beta, initial_state, scale):
    """Wrong from token 40 on: there the state is rounded to bf16, as at the end of a chunk."""
    o, S = np.empty_like(v), initial_state.copy()
    for t in range(v.shape[1]):
        part = [x[:, t : t + 1] for x in (q, k, v, beta)]
        o[:, t : t + 1], S = rollout(*part, S, scale)
        S = S.astype(ml_dtypes.bfloat16).astype(np.float32) if t >= 39 else S
    return o, S


def case():
    return assay.case(*PROBLEM, seed=3, cotangents=False)


def test_neither_is_wrong():
    found = assay.pair(case(), trainer, rollout)
    assert found.passed and bool(found) and found.wrong == [] and found.first is None
    (o,) = [one for one in found.rows if one.name == "o"]
    assert not o.same and 0 < o.most < 1 and found.verdict.startswith(f"neither is wrong; they are {max(x.most for x in found.rows):.3g} apart")
    assert max(found.off["o"]) < 1 and found.off["o"][0] != found.off["o"][1]
    assert assay.pair(case(), rollout, rollout).verdict == "neither is wrong; they have the same bits"


def test_who_is_wrong_and_from_which_token_on():
    with pytest.raises(AssertionError, match=r"FAIL  A \(late\) is wrong; first o, from token 4\d on") as raised:
        assay.pair(case(), late, rollout)
    found = raised.value.report
    (o,) = [one for one in found.rows if one.name == "o"]
    assert found.wrong == ["A"] and found.first == ("o", o.wrong_from) and 40 <= o.wrong_from < 50 and not o.by_token[:40].any()
    assert found.off["o"][0] > 1 > found.off["o"][1]
    page = json.loads(json.dumps(found.page))
    assert page["format"] == "assay-pair" and page["wrong"] == ["A"] and page["rows"][0].keys() >= {"tensor", "apart", "off", "wrong_from_token", "grows"}


def test_both_are_wrong_and_contracts_of_each():
    found = assay.pair(case(), lambda **x: rollout(**{**x, "scale": 1}), late, raises=False)
    assert found.wrong == ["A", "B"] and "A (<lambda>) is wrong and B (late) is wrong; first o, from token 0 on" in found.verdict
    narrow = assay.case("deltanet", (1, 96, 2, 8), "bf16", seed=3, cotangents=False)
    found = assay.pair(narrow, lambda **x: rollout(**x), trainer, ("fla", "bf16"), form=("chunkwise", None), raises=False)
    assert [report.page["contract"] for report in found.reports] == ["fla", "bf16"]


def test_a_distance_that_grows():
    forgets = after(lambda x, o, S: (o * (1 + np.float32(1e-6) * np.arange(96, dtype=np.float32)[None, :, None, None]), S))
    found = assay.pair(case(), rollout, forgets, raises=False)
    (o,) = [one for one in found.rows if one.name == "o"]
    assert 0.5 < o.growth < 1.5 and f"growing as t^{o.growth:.1f}" in str(found)


def test_log_probabilities_that_follow():
    head = np.random.default_rng(0).standard_normal((16, 11))
    found = assay.pair(case(), rollout, late, logits="o", head=head, raises=False)
    truth = assay.oracle(case())["o"].hi.reshape(1, 96, 16) @ head
    own = found.reports[1].answer["o"]
    logits = np.frombuffer(own[2], np.float32).reshape(1, 96, 16).astype(float) @ head
    p, q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (truth, logits))
    assert found.logits["kl_from_truth"]["B"] == pytest.approx((np.exp(p) * (p - q)).sum(-1).mean(), rel=1e-6)
    assert found.logits["kl_from_truth"]["B"] > 100 * abs(found.logits["kl_from_truth"]["A"]) and found.logits["largest_difference"] > 0
    assert "log-probabilities:" in str(found) and assay.pair(case(), rollout, trainer, logits="o").logits["kl"] < 1e-6


def test_answers_in_place_of_kernels():
    one = case()
    given = {name: one[name] for name in one.inputs}
    answers = [dict(zip(("o", "final_state"), function(**given, scale=float(one.params["scale"])))) for function in (trainer, rollout)]
    assert assay.pair(one, *answers).passed
