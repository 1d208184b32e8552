"""What adapters of softmax attention share."""
from .._native import InputError
from .adapter import Adapter


class Attention(Adapter):
    mechanism = "softmax_attention"

    def settings(self, params):
        """Scale (None: K^-1/2), causal, and the newest so many keys (0: all)."""
        self.refuse_params(params, "bandwidth", "causal", "window")
        bandwidth = params.get("bandwidth")
        return None if bandwidth is None else 1 / bandwidth, params.get("causal", True), params.get("window", 0)

    def params(self, scale, causal, window=0):
        params = {"causal": bool(causal)}
        if scale is not None:
            params["scale"] = scale
        if window:
            params["window"] = window
        return params

    def one_sided(self, left, right, causal):
        """Our window of a pair of windows that exclude nothing but the past."""
        if not causal and right not in (-1, None, 0):
            raise InputError(f"window_size: assay does not judge windows into the future ({right}) yet")
        if not causal and left not in (-1, None):
            raise InputError("window_size: assay judges windows of causal attention only")
        return 0 if left in (-1, None) else left + 1
