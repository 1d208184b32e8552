"""PyTorch's own: scaled_dot_product_attention of torch.nn.functional, [B, H, T, d]; its causal mask starts at the top left."""
import functools

from .adapter import in_layout
from .attention import Attention


class ScaledDotProductAttention(Attention):
    refused = {"dropout_p": 0.0}
    posed_as = {"attn_mask": "mask=True or bias=True", "is_causal": 'causal_align="start"', "scale": "scale=0.125"}
    tensors = ("q", "k", "v", "mask", "bias", "documents_q", "documents_k")
    settings = (*Attention.settings, "bias_place")

    def give(self, given, params, case):
        q, k, v = (in_layout(given[name], case.layout, "bhtd") for name in "qkv")
        queries, keys = q.shape[2], k.shape[2]
        shift = 0 if params.get("causal_align") == "start" else keys - queries
        left, right = self.window(params)
        if left is None and right == 0 and shift == 0 and not {"mask", "bias", "documents_q"} & set(given):
            mask = {"is_causal": True}
        else:
            self.refuse_other(params, "bias_place", "after_cap", "before_cap")
            mask = {"attn_mask": additive(given, visible(given, queries, keys, shift, left, right, q.device), q.dtype)}
        return {"query": q, "key": k, "value": v, "scale": self.scale(params), "enable_gqa": True if q.shape[1] != k.shape[1] else None, **mask}

    def take(self, result, case):
        return {"o": in_layout(result, "bhtd", case.layout)}

    def pose(self, bound):
        inputs = {ours: bound[theirs].transpose(1, 2) for ours, theirs in zip("qkv", ("query", "key", "value"))}
        causal, mask = bound.get("is_causal", False), bound.get("attn_mask")
        params = self.posed_settings(bound.get("scale"), inputs["q"].shape[-1], causal)
        if causal and inputs["q"].shape[1] != inputs["k"].shape[1]:
            params["causal_align"] = "start"
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], inputs["q"].shape[1], inputs["k"].shape[1])
            inputs["bias" if mask.is_floating_point() else "mask"] = mask
        return inputs, params


def visible(given, queries, keys, shift, left, right, device):
    """Which keys a query sees, as far as something hides any; else None."""
    import torch

    own, key = torch.arange(queries, device=device)[:, None] + shift, torch.arange(keys, device=device)[None]
    parts = [given["mask"]] if "mask" in given else []
    if left is not None:
        parts.append(key >= own - left)
    if right is not None:
        parts.append(key <= own + right)
    if "documents_q" in given:
        of_queries, of_keys = given["documents_q"], given.get("documents_k", given["documents_q"])
        same = of_queries[..., :, None] == of_keys[..., None, :]
        parts.append(same[:, None] if same.dim() == 3 else same)
    return functools.reduce(torch.logical_and, parts) if parts else None


def additive(given, seen, dtype):
    if "bias" not in given:
        return seen
    bias = given["bias"].to(dtype)
    return bias if seen is None else bias.masked_fill(~seen, float("-inf"))


scaled_dot_product_attention = ScaledDotProductAttention("torch.nn.functional", "scaled_dot_product_attention")


def of_backend(name):
    """The same by one of SDPBackend alone: FLASH_ATTENTION, CUDNN_ATTENTION, EFFICIENT_ATTENTION, MATH."""

    def attention(*args, **kwargs):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel([getattr(SDPBackend, name)]):
            return scaled_dot_product_attention(*args, **kwargs)

    return scaled_dot_product_attention.using(attention)
