"""FlashAttention: flash_attn_func and flash_attn_varlen_func of FlashAttention 2, and of FlashAttention 4 (flash_attn.cute) the former."""
from .._native import InputError
from .adapter import in_layout, in_layout_of, starts_of
from .attention import Attention, answered, answers_lse


class FlashAttention(Attention):
    """[B, T, H, d]; causal is False by default, a window of -1 none, and the gradient of lse is dropped."""

    refused = {"dropout_p": 0.0}
    posed_as = {
        "softcap": "soft_cap=30.0", "alibi_slopes": "alibi_slopes=True", "return_attn_probs": "lse=True", "causal": "causal=False",
        "window_size": "window_left=15, window_right=0", "softmax_scale": "scale=0.125",
    }  # fmt: skip
    harmless = ("deterministic",)
    tensors = ("q", "k", "v", "alibi_slopes")
    settings = (*Attention.settings, "soft_cap", "alibi_form", "bias_place", "lse_base")
    unlimited, returns_lse, rows = -1, "return_attn_probs", "bthd"
    ignored_cotangents = ("lse",)

    def give(self, given, params, case):
        q, k, v = (in_layout(given[name], case.layout, "bthd") for name in "qkv")
        self.require_end(params, q.shape[1], k.shape[1])
        return {"q": q, "k": k, "v": v, **self.given_settings(given, params, case)}

    def given_settings(self, given, params, case):
        left, right = self.window(params)
        self.refuse_other(params, "alibi_form", "distance")
        self.refuse_other(params, "lse_base", "e")
        if "alibi_slopes" in given:
            self.refuse_other(params, "bias_place", "after_cap")
        return {
            "softmax_scale": self.scale(params),
            "causal": right == 0,
            "window_size": (self.unlimited if left is None else left, self.unlimited if right is None else right),
            "softcap": params.get("soft_cap"),
            "alibi_slopes": given.get("alibi_slopes"),
            self.returns_lse: True if answers_lse(case) else None,
        }

    def take(self, result, case):
        o, lse = answered(result, case)
        if lse is not None:
            lse = lse.transpose(-1, -2)
            lse = self.as_ours(lse, case, self.positions(lse, case))
        return {name: in_layout_of(case, x, self.rows) for name, x in (("o", o), ("lse", lse))}

    def positions(self, lse, case):
        """The key that every row of lse [B, T, H] stands at."""
        import torch

        keys = case.tensors["k"][1][2 if case.layout == "bhtd" else 1 if case.layout == "bthd" else 0]
        return torch.arange(lse.shape[1], device=lse.device)[None, :] + keys - lse.shape[1]

    def as_ours(self, lse, case, positions):
        """Rows that see nothing are +inf to it; pure causal ALiBi adds slope j to every key, and so slope c_i to a row's lse."""
        lse = lse.detach().clone()
        lse[lse == float("inf")] = float("-inf")
        left, right = self.window(case.params)
        if "alibi_slopes" in case and left is None and right == 0:
            lse -= positions[..., None] * case.array("alibi_slopes", "torch", lse.device)
        return lse

    def pose(self, bound):
        if bound.get("alibi_slopes") is not None and bound["alibi_slopes"].dim() != 1:
            raise InputError("alibi_slopes: assay judges one slope for a head, not one for a head of each sequence")
        inputs = {name: bound[name] for name in "qkv"}
        inputs["alibi_slopes"] = bound.get("alibi_slopes")
        left, right = (None if size == self.unlimited else size for size in bound.get("window_size") or (self.unlimited,) * 2)
        causal = bound.get("causal", False) or right == 0
        params = self.posed_settings(bound.get("softmax_scale"), bound["q"].shape[-1], causal, left, right)
        if bound.get("softcap"):
            params["soft_cap"] = bound["softcap"]
        return inputs, params


class Packed(FlashAttention):
    """[total, H, d]; the longest sequence is computed, for a smaller number would lose rows without a word."""

    posed_as = {
        **FlashAttention.posed_as,
        **{name: 'layout="thd", cu_seqlens=True' for name in ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")},
        "block_table": "page_table=True",
    }  # fmt: skip
    tensors = (*FlashAttention.tensors, "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k", "page_table", "lengths_k")
    rows = "thd"

    def give(self, given, params, case):
        import torch

        q = in_layout(given["q"], case.layout, "thd")
        queries, keys = self.starts(given, case)
        is_paged = "page_table" in given
        if "lengths_k" in given and not is_paged:
            raise InputError(f"lengths_k: {self.name} has lengths of pages alone; cu_seqlens_k says where sequences end")
        if is_paged:
            k, v = (given[name].transpose(1, 2).contiguous() if case.layout == "bhtd" else given[name] for name in "kv")
        else:
            k, v = (in_layout(given[name], case.layout, "thd") for name in "kv")
        lengths = [torch.diff(starts) for starts in (queries, keys)]
        self.require_end(params, lengths[0].tolist(), lengths[1].tolist())
        longest = [int(n.max()) if n.numel() else 0 for n in lengths]
        return {
            "q": q, "k": k, "v": v, "cu_seqlens_q": queries, "cu_seqlens_k": keys, "max_seqlen_q": longest[0], "max_seqlen_k": longest[1],
            "block_table": given.get("page_table"), **self.given_settings(given, params, case),
        }  # fmt: skip

    def starts(self, given, case):
        import torch

        both = given.get("cu_seqlens")
        queries = both if both is not None else starts_of(given, case, "cu_seqlens_q", given["q"])
        if "page_table" in given:
            keys = torch.nn.functional.pad(given["lengths_k"].cumsum(0), (1, 0))
        else:
            keys = both if both is not None else starts_of(given, case, "cu_seqlens_k", given["k"])
        return queries.to(torch.int32), keys.to(torch.int32)

    def positions(self, lse, case):
        import torch

        queries, keys = self.starts({name: case.array(name, "torch", lse.device) for name in case.inputs}, case)
        positions = torch.zeros(lse.shape[0], device=lse.device, dtype=torch.int64)
        for a, b, n in zip(queries.tolist(), queries.tolist()[1:], torch.diff(keys).tolist()):
            positions[a:b] = torch.arange(b - a) + n - (b - a)
        return positions

    def pose(self, bound):
        inputs, params = super().pose(bound)
        inputs["cu_seqlens_q"], inputs["cu_seqlens_k"] = bound["cu_seqlens_q"], bound["cu_seqlens_k"]
        if bound.get("block_table") is not None:
            inputs["page_table"], inputs["lengths_k"] = bound["block_table"], inputs.pop("cu_seqlens_k").diff()
        return inputs, {**params, "layout": "thd"}


class FlashAttention4(FlashAttention):
    """None in place of -1, which is a number to it; sinks; lse has a gradient, and rows that see nothing are -inf."""

    refused = {"mask_mod": None, "score_mod": None, "aux_tensors": None, "block_sparse_tensors": None}
    posed_as = {**FlashAttention.posed_as, "learnable_sink": "sink=True", "return_lse": "lse=True"}
    harmless = ("deterministic", "num_splits", "pack_gqa")
    tensors = ("q", "k", "v", "sink")
    unlimited, returns_lse = None, "return_lse"
    ignored_cotangents = ()

    def given_settings(self, given, params, case):
        settings = super().given_settings(given, params, case)
        return {**settings, "learnable_sink": given.get("sink")}

    def as_ours(self, lse, case, positions):
        return lse

    def pose(self, bound):
        inputs, params = super().pose(bound)
        return {**inputs, "sink": bound.get("learnable_sink")}, params


flash_attn_func = FlashAttention("flash_attn", "flash_attn_func")
flash_attn_varlen_func = Packed("flash_attn", "flash_attn_varlen_func")
cute_flash_attn_func = FlashAttention4("flash_attn.cute", "flash_attn_func")
