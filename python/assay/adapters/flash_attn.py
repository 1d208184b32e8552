"""FlashAttention 2's flash_attn_func: [B, T, H, d]; causal is False by default, and a window of -1 none."""
from .attention import Attention


class FlashAttention(Attention):
    refused = {"dropout_p": 0.0, "softcap": 0.0, "alibi_slopes": None, "return_attn_probs": False}
    harmless = ("deterministic",)

    def give(self, given, params, case):
        scale, causal, window = self.settings(params)
        return {**given, "softmax_scale": scale, "causal": causal, "window_size": (window - 1 if window else -1, 0 if window else -1)}

    def take(self, result):
        return {"o": result[0] if isinstance(result, tuple) else result}

    def pose(self, bound):
        causal, (left, right) = bound.get("causal", False), bound.get("window_size", (-1, -1))
        if not causal and right == 0:
            causal = True
        window = self.one_sided(left, right, causal)
        return {name: bound[name] for name in "qkv"}, self.params(bound.get("softmax_scale"), causal, window)


flash_attn_func = FlashAttention("flash_attn", "flash_attn_func")
