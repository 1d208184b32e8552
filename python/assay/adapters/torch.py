"""PyTorch's own: scaled_dot_product_attention of torch.nn.functional, [B, H, T, d]; its causal mask starts at the top left."""
from .._native import InputError
from .attention import Attention


class ScaledDotProductAttention(Attention):
    refused = {"dropout_p": 0.0, "attn_mask": None}

    def give(self, given, params, case):
        import torch

        scale, causal, window = self.settings(params)
        q, k, v = (given[name].transpose(1, 2) for name in "qkv")
        queries, keys = q.shape[2], k.shape[2]
        mask = {"is_causal": causal}
        if causal and (window or queries != keys):  # ours ends where the keys end
            own = torch.arange(queries, device=q.device)[:, None] + keys - queries
            key = torch.arange(keys, device=q.device)[None]
            mask = {"attn_mask": (key <= own) & (key > own - (window or keys))}
        return {"query": q, "key": k, "value": v, "scale": scale, "enable_gqa": q.shape[1] != k.shape[1], **mask}

    def take(self, result):
        return {"o": result.transpose(1, 2)}

    def pose(self, bound):
        q, k, v = (bound[name].transpose(1, 2) for name in ("query", "key", "value"))
        causal = bound.get("is_causal", False)
        if causal and q.shape[1] != k.shape[1]:
            raise InputError(f"is_causal: of {q.shape[1]} queries and {k.shape[1]} keys torch's mask starts at the first; assay's ends at the last")
        return {"q": q, "k": k, "v": v}, self.params(bound.get("scale"), causal)


scaled_dot_product_attention = ScaledDotProductAttention("torch.nn.functional", "scaled_dot_product_attention")
