"""FlashInfer: tokens of all sequences in one axis, [total, H, d]. Its functions have no backward."""
import math

from .._native import InputError
from .adapter import Adapter, in_layout, in_layout_of, starts_of
from .attention import Attention, Chosen, answered, answers_lse, behind
from .torch import visible


def packed(x, case):
    return in_layout(x.detach(), case.layout, "thd").contiguous()


class GatedDeltaRule(Adapter):
    """Decays are linear, and states have values first."""

    mechanism = "gated_deltanet"
    has_backward = False
    # It takes use_qk_l2norm_in_kernel and never reads it.
    refused = {
        "use_qk_l2norm_in_kernel": False, "state_checkpoints": None, "checkpoint_every_n_tokens": 0, "checkpoint_cu_starts": None,
        "state_indices": None, "output": None, "output_state": None,
    }  # fmt: skip
    posed_as = {"cu_seqlens": 'layout="thd", cu_seqlens=True', "scale": "scale=0.125"}
    tensors = ("q", "k", "v", "log_decay", "beta", "initial_state", "cu_seqlens")
    settings = ("scale", "state_layout")

    def give(self, given, params, case):
        kwargs = {name: packed(given[name], case) for name in ("q", "k", "v")}
        if kwargs["q"].shape[1] > kwargs["v"].shape[1]:
            raise InputError(f"{self.name}: assay does not judge more heads of q than of v yet")
        starts = starts_of(given, case, "cu_seqlens", given["q"]).long()
        kwargs.update(g=packed(given["log_decay"], case).exp(), beta=packed(given["beta"], case), scale=params.get("scale"), cu_seqlens=starts)
        if "initial_state" in given:
            kwargs["initial_state"] = self.turned(given["initial_state"].detach(), case).contiguous()
        return {**kwargs, "output_final_state": True}

    def take(self, result, case):
        o, state = result
        return {"o": in_layout_of(case, o, "thd"), "final_state": self.turned(state, case)}

    def pose(self, bound):
        inputs = {name: bound[name] for name in ("q", "k", "v")}
        for ours, theirs in (("log_decay", "g"), ("beta", "beta")):
            if bound.get(theirs) is None:
                raise InputError(f"{theirs}: assay does not judge a call without it yet")
        inputs["log_decay"], inputs["beta"] = bound["g"].log(), bound["beta"]
        inputs["initial_state"], inputs["cu_seqlens"] = bound.get("initial_state"), bound.get("cu_seqlens")
        params = {"layout": "thd", "state_layout": "v_first"}
        return inputs, {**params, "scale": bound["scale"]} if bound.get("scale") else params


class SinglePrefill(Attention):
    """One sequence; its window is one-sided, and its lse has base 2."""

    has_backward = False
    refused = {"packed_custom_mask": None, "rope_scale": None, "rope_theta": None, "kv_layout": "NHD"}
    posed_as = {
        "custom_mask": "mask=True", "logits_soft_cap": "soft_cap=30.0", "pos_encoding_mode": 'alibi_slopes=True, alibi_form="signed"',
        "return_lse": "lse=True", "causal": "causal=False", "window_left": "window_left=15", "sm_scale": "scale=0.125",
        **{name: f"{name}=True" for name in ("k_scale", "v_scale")},
        **{"scale_" + name: f"{name}_scale=True" for name in "qkv"},
    }  # fmt: skip
    harmless = ("use_fp16_qk_reduction", "backend", "o_dtype")
    tensors = ("q", "k", "v", "mask", "alibi_slopes", "k_scale", "v_scale")
    settings = (*Attention.settings, "soft_cap", "alibi_form", "bias_place", "lse_base")

    def give(self, given, params, case):
        if case.layout != "thd" and case.tensors["q"][1][0] != 1:
            raise InputError(f"{self.name}: takes one sequence, and this case has {case.tensors['q'][1][0]}")
        kwargs = {name: packed(given[name], case) for name in "qkv"}
        queries, keys = kwargs["q"].shape[0], kwargs["k"].shape[0]
        self.require_end(params, queries, keys)
        left, right = self.window(params)
        if right not in (None, 0):
            raise InputError(f"window_right={right}: {self.name}'s window has one side")
        kwargs.update(causal=right == 0, sm_scale=self.scale(params), window_left=-1 if left is None else left, logits_soft_cap=params.get("soft_cap"))
        if "mask" in given:  # causal is not looked at beside it
            seen = visible(given, queries, keys, keys - queries, None, right, given["mask"].device)
            if seen.dim() != 2:
                raise InputError(f"mask: {self.name} has one for all heads")
            kwargs.update(custom_mask=seen, causal=False)
        if "alibi_slopes" in given:
            kwargs["pos_encoding_mode"] = self.alibi(given["alibi_slopes"], params)
        kwargs.update({name: one_number(given, name) for name in ("k_scale", "v_scale")})
        return {**kwargs, "return_lse": True if answers_lse(case) else None}

    def alibi(self, slopes, params):
        heads = slopes.shape[0]
        usual = [2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)]
        if any(not math.isclose(x, y, rel_tol=1e-6) for x, y in zip(slopes.tolist(), usual)):
            raise InputError(f"alibi_slopes: {self.name} has those that follow from the number of heads, 2^(-8 h / H), and no others")
        if "soft_cap" in params:
            raise InputError(f"alibi_slopes: beside soft_cap {self.name} scales twice, which is no attention that assay knows")
        if params.get("alibi_form") != "signed" and not params.get("causal", True):
            raise InputError(f"alibi_form=distance: {self.name} has the signed form, slope (j - i)")
        return "ALIBI"

    def take(self, result, case):
        o, lse = answered(result, case)
        base = 1.0 if case.params.get("lse_base") in (2, "2") else math.log(2)
        lse = None if lse is None else lse * base
        if lse is not None and "alibi_slopes" in case:  # it counts from the first key
            rows = (case.tensors[name][1][2 if case.layout == "bhtd" else 1 if case.layout == "bthd" else 0] for name in "kq")
            lse = lse - (next(rows) - next(rows)) * case.array("alibi_slopes", "torch", lse.device) * base / math.log(2)
        return {"o": in_layout(o, "thd", case.layout), "lse": in_layout(lse, "thd", case.layout)}

    def pose(self, bound):
        left = bound.get("window_left", -1)
        mask = bound.get("custom_mask")
        causal, left = bound.get("causal", False) and mask is None, None if left in (-1, None) else left
        params = self.posed_settings(bound.get("sm_scale"), bound["q"].shape[-1], causal, left)
        if bound.get("logits_soft_cap"):
            params["soft_cap"] = bound["logits_soft_cap"]
        if bound.get("pos_encoding_mode", "NONE") != "NONE":
            raise InputError(f"pos_encoding_mode={bound['pos_encoding_mode']}: assay captures calls without it")
        for name in ("scale_q", "scale_k", "scale_v", "k_scale", "v_scale"):
            if bound.get(name) is not None:
                raise InputError(f"{name}: assay captures calls without it")
        return {**{name: bound[name] for name in "qkv"}, "mask": mask}, {**params, "layout": "thd"}


def one_number(given, name):
    """A scale of the whole tensor, as a number."""
    if name not in given:
        return None
    scale = given[name].detach()
    if scale.numel() > 1 and not bool((scale == scale.reshape(-1)[0]).all()):
        raise InputError(f"{name}: single_prefill_with_kv_cache has one number for all heads")
    return float(scale.reshape(-1)[0])


PAGE = 64  # tokens


class SparseLatent(Chosen):
    """[B, T, H, d], latent keys in pages; lists number the tokens of all pages. Row t of T reads as many entries as keys are before it.

    So the entries that count and that a causal mask leaves stand first; without a length -1 is behind them.
    """

    has_backward = False
    refused = {
        "out": None, "lse": None, "bmm2_scale": 1.0, "skip_softmax_threshold_scale_factor": None, "uses_shared_paged_kv_idx": True,
        "cum_seq_lens_q": None, "max_q_len": None,
    }  # fmt: skip
    posed_as = {
        "block_tables": "topk_indices=True", "sparse_mla_top_k_lens": "topk_length=True", "seq_lens": "page_table=64", "sinks": "sink=True",
        "kv_lora_rank": "value_dim=512", "bmm1_scale": "scale=0.125", "return_lse": "lse=True",
    }  # fmt: skip
    harmless = ("backend", "enable_pdl", "qk_nope_head_dim", "is_var_seq", "cute_dsl_impl", "multi_ctas_kv_counter_buffer", "workspace_buffer")
    tensors = ("q", "k", "sink", "topk_indices", "topk_length", "page_table", "lengths_k")
    settings = (*Attention.settings, "value_dim", "lse_base")

    def give(self, given, params, case):
        import torch

        self.refuse_other(params, "causal", True)
        self.refuse_other(params, "lse_base", "e")
        if self.window(params) != (None, 0) or params.get("causal_align", "end") != "end":
            raise InputError(f"{self.name}: its causal mask ends at the last key, and it has no window")
        if case.layout == "thd":
            raise InputError(f'{self.name}: takes sequences in pages: layout="bthd", page_table={PAGE}')
        if "sink" in given and answers_lse(case):
            raise InputError(f"lse: {self.name} does not say whether its lse has the sink")
        q = in_layout(given["q"].detach(), case.layout, "bthd").contiguous()
        pages, table, keys = self.pages(given, case, q.shape[0])
        lists, lengths = self.tokens(given, case, q.shape, keys, table, pages.shape[2])
        dim = params.get("value_dim", q.shape[-1])
        return {
            "query": q, "kv_cache": pages, "workspace_buffer": torch.zeros(128 << 20, dtype=torch.uint8, device=q.device),
            "qk_nope_head_dim": 128, "kv_lora_rank": dim, "qk_rope_head_dim": q.shape[-1] - dim, "block_tables": lists, "seq_lens": keys.int(),
            "max_seq_len": int(keys.max()), "sparse_mla_top_k": lists.shape[-1], "sparse_mla_top_k_lens": lengths, "sinks": given.get("sink"),
            "bmm1_scale": q.shape[-1] ** -0.5 if self.scale(params) is None else self.scale(params),
            "return_lse": True if answers_lse(case) else None, "return_lse_base": "basee" if answers_lse(case) else None,
        }  # fmt: skip

    def pages(self, given, case, batch):
        """Pages [pages, 1, tokens, d], which of them each sequence has, and how many keys; whole pages of NaN behind rows without a table."""
        import torch

        k = given["k"].detach()
        if k.shape[1 if case.layout == "bhtd" else 2] != 1:
            raise InputError(f"k: {self.name} has one head of keys")
        if "page_table" in given:
            return (k if case.layout == "bhtd" else k.transpose(1, 2)).contiguous(), given["page_table"], given["lengths_k"]
        k = in_layout(k, case.layout, "bthd")[:, :, 0]
        keys, each = k.shape[1], -(-k.shape[1] // PAGE)
        k = torch.nn.functional.pad(k, (0, 0, 0, each * PAGE - keys), value=float("nan"))
        table = torch.arange(batch * each, device=k.device).reshape(batch, each)
        return k.reshape(batch * each, 1, PAGE, k.shape[-1]).contiguous(), table, torch.full((batch,), keys, device=k.device)

    def tokens(self, given, case, shape, keys, table, size):
        """Lists as tokens of all pages [B, T, n], and how many entries count [B T]; None without topk_length."""
        import torch

        batch, rows = shape[:2]
        lists, lengths = self.lists(given, case, 1)[:, 0].reshape(batch, rows, -1).long(), self.lengths(given, case)
        last = keys[:, None] - rows + torch.arange(rows, device=keys.device)
        counts = (lists >= 0) & (lists <= last[..., None])
        if lengths is not None:
            late = behind(lists.reshape(batch * rows, 1, -1), lengths)[:, 0].reshape(lists.shape)
            counts &= ~late
        order = torch.argsort((~counts).int(), dim=-1, stable=True)
        lists, counts = lists.gather(-1, order), counts.gather(-1, order)
        if lengths is not None:
            lengths = counts.sum(-1).reshape(-1).int()
        inside = lists.clamp(torch.zeros_like(keys)[:, None, None], keys[:, None, None] - 1)
        page = table.long()[torch.arange(batch, device=keys.device)[:, None, None], inside // size]
        found = page * size + inside % size
        return torch.where(counts if lengths is None else counts | (lists >= 0), found, -1).int(), lengths

    def take(self, result, case):
        import torch

        o, lse = answered(result, case)
        if lse is not None:
            lse = torch.where(lse == float("inf"), -float("inf"), lse).reshape(o.shape[:3])  # of rows that see nothing
        return {"o": in_layout(o, "bthd", case.layout), "lse": in_layout(lse, "bthd", case.layout)}

    def posed(self, *args, **kwargs):
        raise InputError(f"{self.name}: assay captures no calls of it: its lists are shorter than they say where rows are early")


chunk_gated_delta_rule = GatedDeltaRule("flashinfer.gdn_prefill", "chunk_gated_delta_rule")
single_prefill_with_kv_cache = SinglePrefill("flashinfer", "single_prefill_with_kv_cache")
trtllm_batch_decode_with_kv_cache_mla = SparseLatent("flashinfer.mla", "trtllm_batch_decode_with_kv_cache_mla")
