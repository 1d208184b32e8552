"""Shared parts of adapters of softmax attention."""
from .._native import InputError
from .adapter import Adapter, in_layout


class Attention(Adapter):
    mechanism = "softmax_attention"
    tensors = ("q", "k", "v")
    settings = ("scale", "bandwidth", "causal", "window", "window_left", "window_right", "causal_align")

    def scale(self, params):
        """None: K^-1/2."""
        bandwidth = params.get("bandwidth")
        return params.get("scale", None if bandwidth is None else 1 / bandwidth)

    def window(self, params):
        """How many keys before its own, and after it, a query sees; None: all."""
        if params.get("window"):
            return params["window"] - 1, 0
        return params.get("window_left"), 0 if params.get("causal", True) else params.get("window_right")

    def require_end(self, params, q, k):
        """Refuses other alignments for a function whose last query stands at the last key."""
        if params.get("causal_align") == "start" and q != k:
            raise InputError(f"causal_align=start: the last of {self.name}'s queries stands at the last key")

    def posed_settings(self, scale, key_dim, causal, left=None, right=None):
        params = {"causal": bool(causal), "scale": key_dim**-0.5 if scale is None else scale}
        if left is not None:
            params["window_left"] = int(left)
        if right is not None and not causal:
            params["window_right"] = int(right)
        return params


class Chosen(Attention):
    """Attention of the keys, or blocks of keys, that every row has a list of."""

    tensors = ("q", "k", "v", "topk_indices", "topk_length", "cu_seqlens")

    def lists(self, given, case, heads):
        """[rows of all sequences, heads, n], of a case that has one list for all heads or for each of these."""
        if "topk_indices" not in given:
            raise InputError(f"topk_indices: {self.name} needs lists of keys")
        lists = given["topk_indices"]
        if lists.dim() == (2 if case.layout == "thd" else 3):
            return lists.reshape(-1, 1, lists.shape[-1]).expand(-1, heads, -1)
        lists = in_layout(lists, case.layout, "thd")
        if lists.shape[1] not in (1, heads):
            raise InputError(f"topk_indices: {self.name} has " + ("one list for all heads" if heads == 1 else "lists for heads of kv"))
        return lists.expand(-1, heads, -1)

    def lengths(self, given, case):
        """topk_length as [rows of all sequences], one for all heads; None without it."""
        length = given.get("topk_length")
        if length is not None and length.dim() > (1 if case.layout == "thd" else 2):
            raise InputError(f"topk_length: {self.name} has one for all heads")
        return None if length is None else length.reshape(-1)


def behind(lists, lengths):
    """Which entries of lists [rows, heads, n] stand behind the lengths [rows]."""
    import torch

    return torch.arange(lists.shape[-1], device=lists.device) >= lengths.reshape(-1, 1, 1)


def answered(result, case):
    """o, and lse where the case asks for it."""
    o, *more = result if isinstance(result, tuple) else (result,)
    return o, more[0] if answers_lse(case) else None


def answers_lse(case):
    asked = case.asked()
    return "lse" in asked.outputs and "lse" not in asked.optional
