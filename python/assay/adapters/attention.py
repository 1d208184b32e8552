"""What adapters of softmax attention share."""
from .._native import InputError
from .adapter import Adapter


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
        """Of a function whose last query stands at the last key."""
        if params.get("causal_align") == "start" and q != k:
            raise InputError(f"causal_align=start: the last of {self.name}'s queries stands at the last key")

    def posed_settings(self, scale, key_dim, causal, left=None, right=None):
        params = {"causal": bool(causal), "scale": key_dim**-0.5 if scale is None else scale}
        if left is not None:
            params["window_left"] = int(left)
        if right is not None and not causal:
            params["window_right"] = int(right)
        return params


def answers_lse(case):
    asked = case.asked()
    return "lse" in asked.outputs and "lse" not in asked.optional
