"""assay.invariance: what varies is found and named, what does not passes, and what a case cannot show is asked of a larger one."""
import functools

import assay
import ml_dtypes
import numpy as np
import pytest
from kernels import after
from kernels import delta_rule as rule  # which answers the same bits however it is asked

RECURRENCE = ("deltanet", (2, 128, 2, 8), "fp32")
ALWAYS = {"again", "batch size", "batch over 256 tokens", "place in the batch", "beside copies", "split in two", "split off the last",
          "token by token", "prefix reuse", "rejected drafts"}  # fmt: skip


def streamed(q, k, v, scale, block):
    """One query of attention, its keys in blocks that begin at the first: a block's sums, put together in fp32."""
    top, total, o = np.float32(-np.inf), np.float32(0), np.zeros(v.shape[1], np.float32)
    for at in range(0, len(k), block):
        s = np.float32(scale) * (q * k[at : at + block]).sum(1)
        new = max(top, s.max())
        with np.errstate(invalid="ignore"):  # of rows that are NaN
            p, keep = np.exp(s - new), np.exp(top - new)
        total, o, top = total * keep + p.sum(), o * keep + (p[:, None] * v[at : at + block]).sum(0), new
    return o / total


def attention(q, k, v, scale, lengths_k=None, *, block=lambda lengths, keys: 32):
    """Causal attention, the last query at the last key; `block` is how many keys are summed at a time, of all lengths and the query's own."""
    o = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    lengths = [k.shape[1]] * len(q) if lengths_k is None else [int(n) for n in lengths_k]
    for b, t, h in np.ndindex(q.shape[:3]):
        seen = lengths[b] - q.shape[1] + t + 1
        if seen > 0:
            o[b, t, h] = streamed(q[b, t, h], k[b, :seen, h], v[b, :seen, h], scale, block(lengths, q.shape[:2]))
    return o


def asked(case, kernel, **how):
    return assay.invariance(case, kernel, raises=False, arrays="numpy", **how)


def case_of(problem, **how):
    return assay.case(*problem, seed=3, cotangents=False, **how)


def test_a_kernel_that_never_varies():
    found = assay.invariance(case_of(RECURRENCE), rule, require="bits")
    assert {row.way for row in found.rows if row.asked} == ALWAYS and all(row.same and row.right for row in found.rows if row.asked)
    assert found["split in two"].note == "64 + 64" and found["split off the last"].note == "127 + 1"
    reasons = {row.way: row.why for row in found.rows if not row.asked}
    assert reasons["page size"] == reasons["order of pages"] == "the case has no pages" and reasons["packing"] == "the kernel takes no cu_seqlens"
    assert reasons["padding"] == "the case has no padding" and "CUDA" in reasons["another stream"] and "CUDA" in reasons["graph replay"]


def test_split_counts_that_follow_other_sequences():
    """vllm#58131: keys are split into as many parts as suit the longest sequence of the batch."""
    by_longest = functools.partial(attention, block=lambda lengths, _: 16 * max(1, max(lengths) // 24))
    case = case_of(("softmax_attention", (3, "4/90", 1, 16), "fp32"), lengths_k=[30, 90, 50])
    ways = ("batch size", "beside copies", "place in the batch")
    found, steady = (asked(case, kernel, require="bits", ways=ways) for kernel in (by_longest, attention))
    assert not found.passed and asked(case, by_longest, ways=ways).passed  # it is right each time
    for way in ("batch size", "beside copies"):
        assert found[way].verdict == "right" and found[way].apart[0].at.startswith("o[0]") and steady[way].same
        assert 0 < found[way].apart[0].most < 1
    assert found["place in the batch"].same and steady.passed


def test_keys_that_are_split_where_one_query_is_alone():
    def decodes(lengths, queries):
        return 32 if queries[1] > 1 or queries[0] > 1 else 256  # few queries do not fill a device

    found = asked(case_of(("softmax_attention", (1, 16, 1, 16), "fp32")), functools.partial(attention, block=decodes), require="bits", ways=["splits of keys"])
    row = found["splits of keys"]
    assert row.note == "16 keys are never split" and row.verdict == "right" and not found.passed
    assert found.reports[row.case - 1].case.origin == "assay.case('softmax_attention', '2,1/1024,1,16,16', 'fp32', seed=3, cotangents=False)"


def test_a_state_in_bf16_drifts_by_position():
    """vllm#55524: the state is kept in bf16 between calls, so decoding drifts away from the prefill."""
    rounds = after(lambda x, o, state: (o, state.astype(ml_dtypes.bfloat16).astype(np.float32) if x["q"].shape[1] < 128 else state))
    found = asked(case_of(RECURRENCE), rounds, ways=["again", "batch size", "token by token"])
    row = found["token by token"]
    (o,) = [one for one in row.apart if one.name == "o"]
    assert row.verdict == "FAIL" and not found.passed and o.growth > 0 and "growing as t^" in str(found)
    assert o.at.startswith("o[0][1]") and o.by_token[0] == 0 and found["again"].same and found["batch size"].same


def test_what_padding_holds_and_where_sequences_lie():
    def peeks(q, k, v, scale, lengths_k):  # at what is behind a sequence
        o = attention(q, k, v, scale, lengths_k)
        behind = k[0, lengths_k[0] :].ravel()
        return o * np.float32(1 + 1e-6 * np.isfinite(behind).any())

    case = case_of(("softmax_attention", (2, "4/40", 1, 16), "fp32"), lengths_k=[30, 40])
    assert asked(case, peeks, ways=["padding"])["padding"].verdict == "right" and asked(case, attention, ways=["padding"]).rows[0].same

    def packed(q, k, v, scale, cu_seqlens=None, *, block=16):
        starts = np.arange(len(q) + 1) * q.shape[1] if cu_seqlens is None else cu_seqlens
        flat = [x.reshape(1, -1, *x.shape[2:]) for x in (q, k, v)]
        size = (lambda *_: 16) if cu_seqlens is None else (lambda *_: block)
        parts = [attention(*(x[:, a:b] for x in flat), scale, block=size) for a, b in zip(starts, starts[1:])]
        return np.concatenate(parts, 1).reshape(q.shape)

    dense = case_of(("softmax_attention", (2, 40, 1, 16), "fp32"))
    one = {"ways": ["packing"], "outputs": ("o",)}
    assert asked(dense, packed, **one).rows[0].same and asked(dense, functools.partial(packed, block=8), **one).rows[0].verdict == "right"
    rows = case_of(("softmax_attention", (1, 60, 1, 16), "fp32"), cu_seqlens=[0, 20, 20, 60])  # one of them empty
    assert asked(rows, packed, **one).rows[0].same and asked(rows, functools.partial(packed, block=8), **one).rows[0].verdict == "right"
    assert asked(rows, packed, ways=["beside copies"], outputs=("o",)).rows[0].same


def test_pages_in_another_order_and_of_another_size():
    def paged(q, k, v, scale, page_table, lengths_k, *, by_page=False, sorts=False):
        o = np.zeros_like(q)
        for b in range(len(q)):
            rows = -(-int(lengths_k[b]) // k.shape[1])
            table = np.sort(page_table[b][:rows]) if sorts else page_table[b][:rows]
            keys, values = (x[table].reshape(1, -1, *x.shape[2:]) for x in (k, v))
            o[b : b + 1] = attention(q[b : b + 1], keys, values, scale, lengths_k[b : b + 1], block=lambda *_: k.shape[1] if by_page else 8)
        return o

    case = case_of(("softmax_attention", (2, "4/40", 1, 16), "fp32"), page_table=8)
    found = asked(case, paged, outputs=("o",))
    assert found["page size"].same and found["order of pages"].same and found["batch size"].same and found["padding"].same
    assert asked(case, functools.partial(paged, by_page=True), outputs=("o",), ways=["page size"]).rows[0].verdict == "right"
    in_order = assay.Case({**case.tensors, **renumbered(case)}, case.metadata)
    found = asked(in_order, functools.partial(paged, sorts=True), outputs=("o",))
    assert found["again"].same and found["order of pages"].verdict == "FAIL"


def renumbered(case):
    """The case's pages in the order of the sequences."""
    from assay._sequences import Sequences

    s = Sequences(case)
    return {name: s.posed(s.all()).tensors[name] for name in ("k", "v", "page_table")}


def of_lists(q, k, v, scale, topk_indices, topk_length=None, topk_block_size=1, *, row=lambda b, t: (b, t)):
    """Causal attention to the keys of lists, one for all heads; `row` says whose list is read."""
    o, size = np.zeros_like(q), topk_block_size
    for b, t, h in np.ndindex(q.shape[:3]):
        entries = topk_indices[row(b, t)][0, : None if topk_length is None else topk_length[row(b, t)]]
        keys = np.ravel(np.sort(entries[entries >= 0])[:, None] * size + np.arange(size))
        keys = keys[keys <= k.shape[1] - q.shape[1] + t]
        if len(keys):
            o[b, t, h] = streamed(q[b, t, h], k[b, keys, h], v[b, keys, h], scale, 32)
    return o


def test_lists_of_keys_go_with_their_rows():
    ways = ("batch size", "place in the batch", "split in two", "token by token", "prefix reuse")
    for more in ({"topk_length": True}, {"topk_block_size": 4}):
        case = case_of(("softmax_attention", (2, 128, 1, 8), "fp32"), topk_indices=True, **more)
        found = asked(case, of_lists, ways=ways, require="bits")
        assert found.passed and all(row.asked for row in found.rows), str(found)
    first = asked(case, functools.partial(of_lists, row=lambda b, t: (0, t)), ways=ways[:2])
    assert first.reports[0].verdict == "FAIL" and not first["batch size"].same and not first["place in the batch"].right


def test_ways_that_a_kernel_or_a_mechanism_does_not_take():
    def whole(q, k, v, beta, initial_state, scale):
        if q.shape[1] != 128:
            raise ValueError("this kernel is for 128 tokens\nand no others")
        return rule(q, k, v, beta, initial_state, scale)

    found = asked(case_of(RECURRENCE), whole)
    assert found.passed and found["token by token"].why == "the kernel refuses it: this kernel is for 128 tokens" and found["batch size"].same
    stateless = asked(case_of(RECURRENCE), lambda **x: rule(**x)[0], outputs=("o",), ways=["split in two"])
    assert stateless.rows[0].why == "final_state: the kernel does not answer it"
    masked = asked(case_of(("softmax_attention", (2, 8, 1, 16), "fp32"), mask=np.tri(8, dtype=bool)), lambda q, k, v, mask, scale: attention(q, k, v, scale))
    assert masked["batch size"].why == "the case has mask, which is of all sequences together" and masked["again"].same


def test_an_answer_of_another_dtype_and_a_kernel_that_is_wrong_anyway():
    narrow = after(lambda x, o, state: (o.astype(ml_dtypes.bfloat16) if len(o) == 1 else o, state))
    found = asked(case_of(RECURRENCE), narrow, ways=["batch size"])
    assert found["batch size"].verdict == "FAIL" and found["batch size"].note == "o is BF16 [128, 2, 8], and was F32 [128, 2, 8]"
    wrong = asked(case_of(RECURRENCE), lambda **x: rule(**{**x, "scale": 1}), require="bits", ways=["again", "batch size"])
    assert all(row.same for row in wrong.rows if row.asked) and not wrong.passed and wrong.reports[0].verdict == "FAIL"


def test_what_is_not_as_required_is_raised():
    counter = iter(range(100))
    varies = after(lambda x, o, state: (o * np.float32(1 + next(counter) * 1e-7), state))
    with pytest.raises(AssertionError, match="FAIL  bits required; of .* ways asked") as raised:
        assay.invariance(case_of(("deltanet", (1, 2, 1, 8), "fp32")), varies, require="bits", arrays="numpy", ways=["again", "batch size"])
    assert raised.value.report["again"].verdict == "right"
    with pytest.raises(assay.InputError, match="^padding: was not among the ways; there are again"):
        asked(case_of(RECURRENCE), rule, ways=["again"])["padding"]


def states_at_tokens(q, k, v, beta, initial_state, scale, state_at=None, *, end=lambda row: row + 1):
    """The rule, with the states right after tokens."""
    found = dict(zip(("o", "final_state"), rule(q, k, v, beta, initial_state, scale)))
    if state_at is not None:
        found["states_at"] = np.stack([rule(*(x[:1, : end(row)] for x in (q, k, v, beta)), initial_state[:1], scale)[1][0] for row in state_at])
    return found


def test_a_draft_that_is_rejected():
    """Rejected tokens that stay in the state (tpu-inference#3178) are found where a kernel says its states, and where it keeps them."""
    case = case_of(RECURRENCE)
    found = asked(case, states_at_tokens, ways=["rejected drafts"], require="bits")
    assert found.passed and found["rejected drafts"].note == "1 and 2 of 4 accepted"
    found = asked(case, functools.partial(states_at_tokens, end=lambda row: 4), ways=["token by token", "rejected drafts"])
    assert found["token by token"].same and found["rejected drafts"].verdict == "FAIL"
    assert [one.at for one in found["rejected drafts"].apart] == ["o[0][65][0][0]", "final_state[0][0][0][0]"]
    assert asked(case, rule, ways=["rejected drafts"], require="bits")["rejected drafts"].note == "no token accepted"


def test_a_window_that_is_not_rolled_back():
    """mlx-swift-lm#218: a convolution whose last inputs lie in a cache of its own goes on after the draft, not before it."""
    case = assay.case("short_conv", (1, 128, 1, 8, 4), "fp32", seed=3, cotangents=False)
    begins, cache = case["initial_state"], {}

    def convolution(x, weight, bias, initial_state):
        rows = np.concatenate([initial_state.swapaxes(1, 2), x], 1)
        y = sum(rows[:, i : i + x.shape[1]] * weight[:, i] for i in range(weight.shape[1])) + bias
        return (y / (1 + np.exp(-y))).astype(x.dtype), rows[:, 1 - weight.shape[1] :].swapaxes(1, 2).copy()

    def cached(x, weight, bias, initial_state):
        o, cache["window"] = convolution(x, weight, bias, initial_state if np.array_equal(initial_state, begins) else cache["window"])
        return o, cache["window"]

    ways = ["split in two", "token by token", "rejected drafts"]
    healthy = asked(case, convolution, ways=ways, require="bits")
    assert healthy.passed and {row["tensor"] for row in healthy.reports[0].rows} == {"o", "final_state"}
    found = asked(case, cached, ways=ways)
    assert [row.verdict for row in found.rows] == ["same bits", "same bits", "FAIL"]
