"""Adapters with arguments: torch's own attention, fla's naive functions, and textbook formulas behind published signatures."""
import functools
import math
import pathlib
import tempfile

import assay
import torch
from test_torch import A, Judged, fla, math_attention


def attend(q, k, v, *, scale, hidden, cap=0.0, bias=None, sink=None):
    """[B, T, H, d] as the formula is: o, lse [B, H, T]."""
    dtype, group = q.dtype, q.shape[2] // k.shape[2]
    q, k, v = (x.to(torch.float64).transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = scale * (q @ k.mT)
    if cap:
        s = cap * torch.tanh(s / cap)
    if bias is not None:
        s = s + bias
    s = s.masked_fill(hidden, -math.inf)
    if sink is not None:
        s = torch.cat([s, sink.to(s.dtype)[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse.isinf(), 0, lse)[..., None])[..., : k.shape[2]]
    return (p @ v).transpose(1, 2).to(dtype), lse.float()


def places(q, k):
    return torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1], torch.arange(k.shape[1])[None]


def beyond(q, k, left, right):
    """Whether a key is more than `left` before a query or `right` after it; None: all are seen there."""
    own, key = places(q, k)
    hidden = torch.zeros(q.shape[1], k.shape[1], dtype=bool)
    hidden |= key < own - left if left is not None else False
    hidden |= key > own + right if right is not None else False
    return hidden


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                    deterministic=False, return_attn_probs=False, *, off=0):  # fmt: skip
    """FlashAttention 2: pure causal ALiBi adds slope j, and rows that see nothing have lse = +inf."""
    own, key = places(q, k)
    left, right = (None if size < 0 else size for size in window_size)
    right, bias = 0 if causal else right, None
    hidden = beyond(q, k, None if left is None else left + off, right)
    if alibi_slopes is not None:
        distance = key.double() if left is None and right == 0 else -(own - key).abs().double()
        bias = alibi_slopes.double()[:, None, None] * distance
    o, lse = attend(q, k, v, scale=softmax_scale or q.shape[-1] ** -0.5, hidden=hidden, cap=softcap, bias=bias)
    return (o, torch.where(lse == -math.inf, math.inf, lse), None) if return_attn_probs else o


def cute_flash_attn_func(q, k, v, softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, return_lse=False):
    """FlashAttention 4."""
    hidden = beyond(q, k, window_size[0], 0 if causal else window_size[1])
    o, lse = attend(q, k, v, scale=softmax_scale or q.shape[-1] ** -0.5, hidden=hidden, cap=softcap, sink=learnable_sink)
    return (o, lse) if return_lse else o


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *, block_table=None, short=0, **settings):
    """Sequence by sequence; rows after the last are not written."""
    assert cu_seqlens_q.dtype == torch.int32 and max_seqlen_q == int(cu_seqlens_q.diff().max())
    rows, lse = torch.zeros_like(v[:0]).new_zeros(q.shape[0], q.shape[1], v.shape[-1]), []
    parts = []
    for n, (a, b) in enumerate(zip(cu_seqlens_q.tolist(), cu_seqlens_q.tolist()[1:])):
        c, d = cu_seqlens_k[n].item(), cu_seqlens_k[n + 1].item() - short
        if block_table is None:
            own_k, own_v = k[c:d], v[c:d]
        else:
            pages = block_table[n, : -(-(d - c) // k.shape[1])].long()
            own_k, own_v = (x[pages].reshape(-1, *x.shape[2:])[: d - c] for x in (k, v))
        found = flash_attn_func(q[None, a:b], own_k[None], own_v[None], **settings)
        o, l = (found[0], found[1]) if isinstance(found, tuple) else (found, None)
        parts.append(o[0])
        lse.append(l[0] if l is not None else None)
    o = torch.cat([*parts, rows[int(cu_seqlens_q[-1]) :]])
    if not settings.get("return_attn_probs"):
        return o
    return o, torch.nn.functional.pad(torch.cat(lse, -1), (0, q.shape[0] - int(cu_seqlens_q[-1]))), None


def flash_mla_sparse_fwd(q, kv, indices, sm_scale, d_v=512, attn_sink=None, topk_length=None, indexer_topk=0, *, bug=""):
    """FlashMLA: keys gathered by their numbers; lse without the sink, +inf of rows that see nothing."""
    assert indices.dtype == torch.int32 and kv.shape[1] == 1 and indices.shape[:2] == (len(q), 1)
    lists = indices[:, 0].long()
    seen = (lists >= 0) & (lists < len(kv))
    if topk_length is not None and bug != "behind the length":
        seen &= torch.arange(lists.shape[1])[None] < topk_length[:, None]
    if bug == "-1 is the last key":
        seen, lists = seen | (lists == -1), lists % len(kv)
    keys = torch.where(seen[..., None], kv[torch.where(seen, lists, 0), 0].double(), 0)
    s = sm_scale * torch.einsum("thd,tnd->thn", q.double(), keys)
    s = s.masked_fill(~seen[:, None], -math.inf)
    lse = torch.logsumexp(s, -1)
    whole = lse if attn_sink is None else torch.logaddexp(lse, attn_sink.double()[None])
    p = torch.exp(s - (whole if bug == "0 / 0 of no key" else torch.where(whole.isinf(), 0, whole))[..., None])
    o = torch.einsum("thn,tnd->thd", p, keys[..., :d_v])
    return o.to(q.dtype), s.amax(-1).float(), torch.where(lse == -math.inf, math.inf, lse).float()


def sparse_attention(q, kv, indices, attn_sink=None, softmax_scale=None, topk_length=None, *, d_v, bug=""):
    """cuDNN's sparse attention for training, forward by FlashMLA's formula."""
    o, _, lse = flash_mla_sparse_fwd(q, kv[:, None], indices[:, None], softmax_scale, d_v, attn_sink, topk_length, bug=bug)
    return {"out": o, "max_logits": None, "lse": lse}


def sparse_attention_backward_wrapper(q, kv, out, dout, lse, attn_sink, topk_idxs, softmax_scale=None, topk_length=None, *, bug=""):
    """cuDNN's backward pass of it: gradients of a forward pass in double."""
    assert topk_idxs.dtype == torch.int32 and kv.dim() == 2 and lse.shape == q.shape[:2]
    if topk_length is not None:  # what count names rows of kv
        counts = torch.arange(topk_idxs.shape[1])[None] < topk_length[:, None]
        assert bool((~counts | ((0 <= topk_idxs) & (topk_idxs < len(kv)))).all())
    sees = torch.isfinite(lse)
    with torch.enable_grad():
        q, kv, sink = (x.detach().double().requires_grad_() for x in (q, kv, attn_sink))
        given = torch.full_like(sink, -math.inf) if bug == "without the sink" else sink
        o = flash_mla_sparse_fwd(q, kv[:, None], topk_idxs[:, None], softmax_scale, out.shape[-1], given, topk_length)[0]
        dq, dkv, d_sink = torch.autograd.grad((o * dout.double()).sum(), (q, kv, sink), allow_unused=True)
    if bug == "0 / 0 of no key":
        dq = torch.where(sees[..., None], dq, math.nan)
    return {"dq": dq.to(out.dtype), "dkv": dkv.to(out.dtype), "d_sink": torch.zeros_like(attn_sink) if d_sink is None else d_sink.float()}


def parallel_nsa(q, k, v, g_cmp=None, g_slc=None, g_swa=None, block_indices=None, block_counts=16, block_size=64, window_size=0, scale=None,
                 cu_seqlens=None, *, bug=""):  # fmt: skip
    """Attention of fla's NSA to chosen blocks, sequence by sequence; block_indices [B, T, heads of k, S]."""
    assert block_indices.shape[:3] == (*q.shape[:2], k.shape[2]) and block_counts.shape == block_indices.shape[:3]
    if cu_seqlens is not None:
        o = torch.zeros(*q.shape[:3], v.shape[-1], dtype=v.dtype)
        for a, b in zip(cu_seqlens.tolist(), cu_seqlens.tolist()[1:]):
            part = [x[:, a:b] for x in (q, k, v)]
            if a < b:
                o[:, a:b] = parallel_nsa(*part, block_indices=block_indices[:, a:b], block_counts=block_counts[:, a:b], block_size=block_size, scale=scale)
        return o
    T, group = q.shape[1], q.shape[2] // k.shape[2]
    counts = torch.arange(block_indices.shape[-1]) < block_counts[..., None]
    counts = (torch.ones_like(counts) if bug == "behind the count" else counts) & (block_indices >= 0)
    block = torch.where(counts, block_indices, -1)[..., None]
    seen = (block == torch.arange(T) // block_size).any(-2) & (torch.arange(T) <= torch.arange(T)[:, None])[:, None]
    hidden = ~seen.transpose(1, 2).repeat_interleave(group, 1)
    k, v = (x.masked_fill(x.isnan(), 0) for x in (k, v))  # keys of blocks that it does not load
    return attend(q, k, v, scale=scale or k.shape[-1] ** -0.5, hidden=hidden)[0]


def naive_dsa(q, k, v, q_idx, k_idx, w_idx=None, indices=None, topk=2048, scale=None, cu_seqlens=None, return_indices=False):
    """fla's naive DSA with indices [B, T, n]."""
    assert q_idx is None and k_idx is None and indices.dim() == 3
    lists = indices[:, :, None].expand(-1, -1, k.shape[2], -1)
    return parallel_nsa(q, k, v, block_indices=lists, block_counts=torch.full(lists.shape[:3], lists.shape[-1]), block_size=1, scale=scale, cu_seqlens=cu_seqlens)


def trtllm_batch_decode_with_kv_cache_mla(query, kv_cache, workspace_buffer, qk_nope_head_dim, kv_lora_rank, qk_rope_head_dim, block_tables, seq_lens,
                                          max_seq_len, sparse_mla_top_k=0, bmm1_scale=1.0, sinks=None, return_lse=False, sparse_mla_top_k_lens=None,
                                          return_lse_base=None, *, bug=""):  # fmt: skip
    """FlashInfer's sparse latent attention: row t of T reads seq_len - T + t + 1 entries at most, and those that the lengths leave."""
    (batch, rows, heads, dim), width = query.shape, block_tables.shape[-1]
    assert block_tables.shape == (batch, rows, sparse_mla_top_k) and kv_cache.shape[1] == 1 and kv_lora_rank + qk_rope_head_dim == dim
    most = (seq_lens[:, None] - rows + 1 + torch.arange(rows)).clamp(0, width).reshape(-1)
    if sparse_mla_top_k_lens is not None and bug != "behind the length":
        most = torch.minimum(most, sparse_mla_top_k_lens)
    lists = block_tables.reshape(batch * rows, 1, width)
    o, _, lse = flash_mla_sparse_fwd(query.reshape(-1, heads, dim), kv_cache.reshape(-1, 1, dim), lists, bmm1_scale, kv_lora_rank, sinks, most)
    o = o.reshape(batch, rows, heads, -1)
    return (o, lse) if return_lse else o


def latent(shape=(1, "24/40", "4/1", 32, 16), **arguments):
    """A case of latent attention to chosen keys."""
    given = {"topk_indices": True, "value_dim": 16, "scale": 0.25, "causal": False, **arguments}
    return assay.case("softmax_attention", shape, "fp32", seed=3, **given)


def attention(shape=(1, 24, "4/2", 16), dtype="fp32", **arguments):
    return assay.case("softmax_attention", shape, dtype, seed=3, **arguments)


GRADIENTS = {"o", "d_q", "d_k", "d_v"}


class Torch(Judged):
    kernel = A.torch.scaled_dot_product_attention.using(math_attention)

    def test_masks_biases_alignment_and_windows(self):
        self.each_passes(self.kernel, attention, GRADIENTS, "masks_biases_alignment_and_windows")
        for dtype in ("fp64", "fp32", "bf16"):
            self.each_passes(self.kernel, functools.partial(attention, dtype=dtype), GRADIENTS, "precisions")

    def test_what_is_wrong_fails(self):
        top_left = self.kernel.using(lambda **x: math_attention(**{**x, "attn_mask": None, "is_causal": True}))
        self.fails(attention((1, "6/20", 2, 16)), top_left, "o")
        self.fails(attention((1, 20, 2, 16), mask=True), top_left, "o")
        detached = self.kernel.using(lambda attn_mask, **x: math_attention(attn_mask=2 * attn_mask - attn_mask.detach(), **x))
        self.fails(attention(bias=True), detached, "d_bias")

    def test_a_call_with_a_mask_is_a_case(self):
        def sdpa(query, key, value, attn_mask=None, is_causal=False):
            return math_attention(query, key, value, attn_mask=attn_mask, is_causal=is_causal)

        case, kernel = attention((2, 12, 2, 16)), self.kernel.using(sdpa)
        q, k, v = (case.array(n, "torch").transpose(1, 2) for n in "qkv")
        for mask in (torch.rand(12, 12) < 0.7, torch.rand(2, 1, 1, 12) < 0.7, torch.randn(2, 2, 12, 12)):
            posed = kernel.posed(q, k, v, attn_mask=mask)
            o = math_attention(q, k, v, attn_mask=mask).transpose(1, 2)
            self.assertTrue(assay.assert_close(posed, {}, {"o": o}, tensors="o", precision="fp32"))
        posed = kernel.posed(q[:, :, :5], k, v, is_causal=True)
        o = math_attention(q[:, :, :5], k, v, is_causal=True).transpose(1, 2)
        self.assertTrue(assay.assert_close(posed, {}, {"o": o}, tensors="o", precision="fp32"))


class Flash(Judged):
    def test_flash_attention_2(self):
        kernel = A.flash_attn.flash_attn_func.using(flash_attn_func)
        self.each_passes(kernel, attention, GRADIENTS, "flash_attention_2")
        self.fails(attention(soft_cap=2.0), kernel.using(lambda softcap, **x: flash_attn_func(softcap=softcap * x["softmax_scale"], **x)), "o")
        self.fails(attention(window_left=5), kernel.using(lambda **x: flash_attn_func(**x, off=1)), "o")

    def test_flash_attention_4(self):
        kernel = A.flash_attn.cute_flash_attn_func.using(cute_flash_attn_func)
        self.each_passes(kernel, attention, GRADIENTS, "flash_attention_4")
        twice = kernel.using(lambda learnable_sink, **x: cute_flash_attn_func(learnable_sink=learnable_sink + math.log(2), **x))
        self.fails(attention(sink=True), twice, "o")

    def test_packed_sequences(self):
        kernel = A.flash_attn.flash_attn_varlen_func.using(flash_attn_varlen_func)
        self.each_passes(kernel, attention, GRADIENTS, "packed_sequences")
        paged = attention((2, 20, 2, 16), page_table=8)
        self.assertEqual(self.passes(paged, kernel, gradients=False), {"o"})
        short = kernel.using(lambda **x: flash_attn_varlen_func(**x, short=1))
        self.fails(paged, short, "o", gradients=False)
        self.fails(attention(layout="thd", cu_seqlens=[0, 9, 24]), short, "o")


def recurrent(q, k, v, g, beta=None, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None,
              state_v_first=False, use_gate_in_kernel=False, A_log=None, dt_bias=None, lower_bound=None, use_beta_sigmoid_in_kernel=False,
              allow_neg_eigval=False, *, naive, eps=1e-6):  # fmt: skip
    """A naive function of fla with what its chunk kernels do besides."""
    rows_of_all, starts = q.shape[1], [0, q.shape[1]] if cu_seqlens is None else cu_seqlens.tolist()
    q, k, v, g, beta = (y if y is None else y[:, : starts[-1]] for y in (q, k, v, g, beta))  # padding is NaN, and 0 NaN is NaN
    x, heads = g.float(), g.shape[2]
    if use_gate_in_kernel:
        by_head = (heads, 1) if x.dim() == 4 else (heads,)
        if dt_bias is not None:
            x = x + dt_bias.reshape(x.shape[2:])
        rate = A_log.exp().reshape(by_head)
        x = lower_bound * torch.sigmoid(rate * x) if lower_bound is not None else -rate * torch.nn.functional.softplus(x)
    if use_qk_l2norm_in_kernel:
        q, k = (y.float() / (y.float().square().sum(-1, keepdim=True) + eps).sqrt() for y in (q, k))
    if use_beta_sigmoid_in_kernel:
        beta = (2 if allow_neg_eigval else 1) * beta.float().sigmoid()
    turn = (lambda s: s.mT) if state_v_first else (lambda s: s)
    rows, states = [], []
    for n, (a, b) in enumerate(zip(starts, starts[1:])):
        start = turn(initial_state if cu_seqlens is None else initial_state[n : n + 1])
        if a == b:
            states.append(turn(start))
            continue
        args = [y[:, a:b].float() for y in (q, k, v)]
        more = {} if beta is None else {"beta": beta[:, a:b].float()}
        o, state = naive(*args, g=x[:, a:b], **more, scale=scale, initial_state=start, output_final_state=True)
        rows.append(o.to(v.dtype))
        states.append(turn(state))
    o = torch.cat(rows, 1)
    padded = torch.nn.functional.pad(o, (0, 0, 0, 0, 0, rows_of_all - o.shape[1]))
    return padded, torch.cat(states)


def behind(adapter, module, name, **how):
    naive = getattr(fla(module), name)
    return adapter.using(lambda *args, **kwargs: recurrent(*args, **kwargs, naive=naive, **how))


class Fla(Judged):
    def test_the_gated_delta_rule(self):
        kernel = behind(A.fla.chunk_gated_delta_rule, "gated_delta_rule", "naive_recurrent_gated_delta_rule")
        norm = {"l2_norm": "root", "l2_eps": 1e-6}
        for dtype in ("fp32", "bf16"):
            for arguments, more in [
                (norm, set()), ({"gate": "softplus"}, {"d_a", "d_a_log", "d_dt_bias"}), ({"beta_gate": "sigmoid", "beta_scale": 2}, {"d_b"}),
                ({"layout": "thd", "cu_seqlens": [0, 5, 5, 20], "state_layout": "v_first"}, {"d_initial_state"}),
                ({"gate": "softplus", "beta_gate": "sigmoid", **norm, "layout": "thd", "cu_seqlens": True}, {"d_a_log", "d_b"}),
                ({"style": "saturated_gates"}, {"d_a", "d_b"}), ({"style": "tiny_norms"}, set()), ({"scale": 0.5, "layout": "bhtd"}, set()),
            ]:  # fmt: skip
                with self.subTest(dtype, **arguments):
                    case = assay.case("gated_deltanet", (1, 24, 2, 16), dtype, seed=2, **arguments)
                    self.assertLessEqual({"o", "final_state", "d_q", "d_k", "d_v"} | more, self.passes(case, kernel))

    def test_what_is_wrong_fails(self):
        naive = ("gated_delta_rule", "naive_recurrent_gated_delta_rule")
        case = assay.case("gated_deltanet", (1, 24, 2, 16), "fp32", seed=2, style="tiny_norms")
        self.fails(case, behind(A.fla.chunk_gated_delta_rule, *naive, eps=1e-4), "o")
        case = assay.case("gated_deltanet", (1, 24, 2, 16), "fp32", seed=2, state_layout="v_first", l2_norm="root", l2_eps=1e-6)
        kernel = A.fla.chunk_gated_delta_rule.using(lambda state_v_first, **x: recurrent(**x, naive=getattr(fla(naive[0]), naive[1])))
        self.fails(case, kernel, "final_state")

    def test_kda(self):
        kernel = behind(A.fla.chunk_kda, "kda", "naive_recurrent_kda")
        for arguments in [
            {"gate": "softplus", "l2_norm": "root", "l2_eps": 1e-6}, {"gate": "bounded", "lower_bound": -5.0}, {"gate": "bounded", "layout": "thd", "cu_seqlens": True},
        ]:  # fmt: skip
            with self.subTest(**arguments):
                case = assay.case("kda", (1, 24, "4/2", 16), "fp32", seed=2, **arguments)
                self.assertLessEqual({"o", "final_state", "d_a", "d_a_log", "d_dt_bias", "d_k"}, self.passes(case, kernel))

    def test_the_others(self):
        case = assay.case("mamba2", (1, 24, "4/2", 16), "fp32", seed=2, layout="thd", cu_seqlens=[0, 7, 24], state_layout="v_first")
        self.passes(case, behind(A.fla.chunk_simple_gla, "simple_gla", "naive_recurrent_simple_gla"))

    def test_a_live_call_with_arguments_is_captured(self):
        def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, cu_seqlens=None, **kwargs):
            return recurrent(q, k, v, g, beta, q.shape[-1] ** -0.5, initial_state, True, use_qk_l2norm_in_kernel, cu_seqlens, **kwargs,
                             naive=fla("gated_delta_rule").naive_recurrent_gated_delta_rule)  # fmt: skip

        case = assay.case("gated_deltanet", (1, 24, 2, 16), "fp32", seed=6, gate="softplus", cu_seqlens=[0, 7, 24])
        x = {n: case.array(n, "torch") for n in case.inputs}
        with tempfile.TemporaryDirectory() as folder:
            live = assay.capture(chunk_gated_delta_rule, adapter=A.fla.chunk_gated_delta_rule, folder=folder)
            live(x["q"], x["k"], x["v"], x["a"], x["beta"], initial_state=x["initial_state"], output_final_state=True, cu_seqlens=x["cu_seqlens"],
                 use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=x["a_log"], dt_bias=x["dt_bias"])  # fmt: skip
            (saved,) = pathlib.Path(folder).iterdir()
            seen = assay.load(saved / "case.safetensors")
            self.assertEqual(seen.params, {"l2_norm": "root", "l2_eps": "1e-06", "gate": "softplus"})
            answer, _ = assay._native.parse((saved / "answer.safetensors").read_bytes(), "answer")
            self.assertTrue(assay.judge(seen, answer, precision="fp32").passed)


class Inference(Judged):
    def test_flashinfer(self):
        def chunk_gated_delta_rule(q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens):
            o, state = recurrent(q[None], k[None], v[None], g.log()[None], beta[None], scale, initial_state, cu_seqlens=cu_seqlens, state_v_first=True,
                                 naive=fla("gated_delta_rule").naive_recurrent_gated_delta_rule)  # fmt: skip
            return o[0], state

        kernel = A.flashinfer.chunk_gated_delta_rule.using(chunk_gated_delta_rule)
        for arguments in [{}, {"layout": "thd", "cu_seqlens": [0, 5, 5, 20]}, {"layout": "thd", "cu_seqlens": True, "state_layout": "v_first"}]:
            case = assay.case("gated_deltanet", (1 if arguments else 2, 24, 2, 16), "fp32", seed=6, **arguments)
            self.assertEqual(self.passes(case, kernel), {"o", "final_state"})

        def single_prefill_with_kv_cache(q, k, v, causal=False, sm_scale=None, window_left=-1, custom_mask=None, logits_soft_cap=None,
                                         pos_encoding_mode="NONE", return_lse=False, k_scale=None, v_scale=None):  # fmt: skip
            q, k, v = q[None], k[None] * (k_scale or 1), v[None] * (v_scale or 1)
            hidden = beyond(q, k, window_left if window_left >= 0 else None, 0 if causal and custom_mask is None else None)
            hidden = hidden | ~custom_mask if custom_mask is not None else hidden
            slopes = 2.0 ** (-8.0 * torch.arange(1, q.shape[2] + 1) / q.shape[2])
            bias = slopes[:, None, None] * (places(q, k)[1] - torch.arange(q.shape[1])[:, None]) if pos_encoding_mode == "ALIBI" else None
            o, lse = attend(q, k, v, scale=sm_scale or q.shape[-1] ** -0.5, hidden=hidden, cap=logits_soft_cap or 0.0, bias=bias)
            return (o[0], lse[0].T / math.log(2)) if return_lse else o[0]

        kernel = A.flashinfer.single_prefill_with_kv_cache.using(single_prefill_with_kv_cache)
        self.each_passes(kernel, attention, {"o"}, "flashinfer")

    def test_sageattention(self):
        def sageattn(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, return_lse=False, *, more=0, **kwargs):
            turn = (lambda x: x.transpose(1, 2)) if tensor_layout == "HND" else (lambda x: x)
            q, k, v = turn(q), turn(k), turn(v)
            o, lse = attend(q, k, v, scale=sm_scale or q.shape[-1] ** -0.5, hidden=beyond(q, k, None, more if is_causal else None))
            return (turn(o), lse) if return_lse else turn(o)

        kernel = A.sageattention.sageattn.using(sageattn)
        self.each_passes(kernel.using(smooth_k=False), attention, {"o"}, "sageattention")
        self.fails(attention(), kernel.using(functools.partial(sageattn, more=1)), "o")
        case = attention((2, 12, 2, 16), causal=False)
        q, k, v = (case.array(n, "torch").transpose(1, 2) for n in "qkv")
        posed = kernel.posed(q, k, v, is_causal=True)
        self.assertTrue(assay.assert_close(posed, {}, {"o": sageattn(q, k, v, is_causal=True)}, tensors="o", precision="fp32"))

    def test_flash_mla(self):
        kernel = A.flash_mla.flash_mla_sparse_fwd.using(flash_mla_sparse_fwd)
        self.each_passes(kernel, latent, {"o"}, "flash_mla")
        for bug, arguments in [
            ("behind the length", {"style": "choice_lengths"}), ("-1 is the last key", {}), ("0 / 0 of no key", {"style": "empty_choices"}),
        ]:  # fmt: skip
            with self.subTest(bug):
                self.fails(latent(**arguments), kernel.using(lambda bug=bug, **x: flash_mla_sparse_fwd(**x, bug=bug)), "o")
        q, kv, lists = torch.randn(6, 4, 32), torch.randn(9, 1, 32), torch.tensor([[[0, 8, 9, -1]]] * 6, dtype=torch.int32)
        posed = kernel.posed(q, kv, lists, 0.25, 16, topk_length=torch.full((6,), 4, dtype=torch.int32))
        self.assertEqual(posed["topk_indices"].tolist(), [[[0, 8, -1, -1]]] * 6)
        self.passes(posed, kernel)

    def test_cudnn(self):
        forward = A.cudnn.sparse_attention.using(functools.partial(sparse_attention, d_v=16))
        backward = A.cudnn.sparse_attention_backward_wrapper.using(sparse_attention_backward_wrapper)
        for kernel in (forward, backward):  # torch adds rows up in any order
            self.each_passes(kernel, latent, {"o", "d_q", "d_k"}, "cudnn", same_bits=False)
        for bug, tensor in [("without the sink", "d_sink"), ("0 / 0 of no key", "d_q")]:
            with self.subTest(bug):
                kernel = backward.using(functools.partial(sparse_attention_backward_wrapper, bug=bug))
                self.fails(latent(sink=True, style="empty_choices"), kernel, tensor)
        q, kv, lists = torch.randn(6, 4, 32), torch.randn(9, 32), torch.tensor([[0, 8, 9, -1]] * 6, dtype=torch.int32)
        posed = forward.posed(q, kv, lists, softmax_scale=0.25)
        self.assertEqual(posed["topk_indices"].tolist(), [[[0, 8, -1, -1]]] * 6)

    def test_sparse_attention_of_fla(self):
        blocks, keys = A.fla.parallel_nsa.using(parallel_nsa), A.fla.naive_dsa.using(naive_dsa)

        def case(shape=(1, 24, "4/2", 16), **arguments):
            return assay.case("softmax_attention", shape, "fp32", seed=3, topk_indices=True, **arguments)

        for kernel, arguments in [
            (blocks, {"topk_block_size": 4}), (blocks, {"topk_block_size": 4, "topk_length": True}), (blocks, {"topk_block_size": 4, "layout": "bhtd"}),
            (blocks, {"topk_block_size": 4, "layout": "thd", "cu_seqlens": [0, 5, 5, 24]}), (blocks, {"topk_block_size": 5, "shape": (2, 12, "4/2", 16)}),
            (keys, {"shape": (1, 24, "4/1", 16)}), (keys, {"shape": (2, 12, "4/1", 16), "topk_length": True}),
            (keys, {"shape": (1, 24, "4/1", 16), "layout": "thd", "cu_seqlens": [0, 5, 5, 24], "scale": 0.5}),
        ]:  # fmt: skip
            with self.subTest(kernel.name, **arguments):
                self.assertEqual(self.passes(case(**arguments), kernel), {"o", "d_q", "d_k", "d_v"})
        late = blocks.using(functools.partial(parallel_nsa, bug="behind the count"))
        self.fails(case(topk_block_size=4, style="choice_lengths"), late, "o")
        q, k, lists = torch.randn(1, 8, 4, 16), torch.randn(1, 8, 2, 16), torch.zeros(1, 8, 2, 1, dtype=torch.long)
        posed = blocks.posed(q, k, k, block_indices=lists, block_counts=1, block_size=4)
        self.assertEqual(posed["topk_length"].tolist(), [[[1, 1]] * 8])

    def test_sparse_attention_of_flashinfer(self):
        kernel = A.flashinfer.trtllm_batch_decode_with_kv_cache_mla.using(trtllm_batch_decode_with_kv_cache_mla)
        self.each_passes(kernel, functools.partial(latent, causal=True), {"o"}, "sparse_attention_of_flashinfer")
        late = kernel.using(functools.partial(trtllm_batch_decode_with_kv_cache_mla, bug="behind the length"))
        self.fails(latent(causal=True, style="choice_lengths"), late, "o")

    def test_mamba(self):
        def mamba_chunk_scan_combined(x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None, initial_states=None, dt_softplus=False,
                                      dt_limit=(0.0, math.inf), return_final_states=False, *, first=True):  # fmt: skip
            dtype, u = x.dtype, dt.float() if dt_bias is None else dt.float() + dt_bias
            step = (torch.nn.functional.softplus(u) if dt_softplus else u).clamp(*dt_limit)
            group = x.shape[2] // B.shape[2]
            x, B, C = x.float(), *(y.float().repeat_interleave(group, 2) for y in (B, C))
            S, rows = initial_states, []
            for t in range(x.shape[1]):
                S = (step[:, t] * A).exp()[..., None, None] * S + torch.einsum("bhp,bhn->bhpn", step[:, t, :, None] * x[:, t], B[:, t])
                rows.append(torch.einsum("bhpn,bhn->bhp", S, C[:, t]))
            o = torch.stack(rows, 1)
            gate = 1 if z is None else torch.nn.functional.silu(z.float())
            skipped = 0 if D is None else D[:, None] * x
            o = (o + skipped) * gate if first else o * gate + skipped
            return (o.to(dtype), S) if return_final_states else o.to(dtype)

        kernel = A.mamba_ssm.mamba_chunk_scan_combined.using(mamba_chunk_scan_combined)
        for arguments, more in [
            ({}, {"d_rate"}), ({"skip": True, "z": True}, {"d_skip", "d_z"}), ({"with_": ["dt_bias", "a_log"], "dt_min": 0.01, "dt_max": 0.5}, {"d_a_log", "d_dt_bias"}),
            ({"state_layout": "v_first", "layout": "bhtd"}, {"d_rate"}),
        ]:  # fmt: skip
            for dtype in ("fp32", "bf16"):
                with self.subTest(dtype, **arguments):
                    case = assay.case("mamba2", (1, 24, "4/2", 16, 8), dtype, seed=2, dt=True, **arguments)
                    self.assertLessEqual({"o", "final_state", "d_dt", "d_v", "d_q", "d_k"} | more, self.passes(case, kernel))
        case = assay.case("mamba2", (1, 24, "4/2", 16, 8), "fp32", seed=2, dt=True, skip=True, z=True)
        self.fails(case, kernel.using(lambda **x: mamba_chunk_scan_combined(**x, first=False)), "o")
