"""SageAttention: its functions of whole sequences, "HND" and "NHD", whose products are in eight bits. They have no backward."""
from .._native import InputError
from .adapter import in_layout
from .attention import Attention, answered, answers_lse


class SageAttention(Attention):
    """tensor_layout "HND" is [B, H, T, d] and the default, "NHD" [B, T, H, d]; causal is False by default.

    Its causal mask is of as many queries as keys. How it quantises is no argument of the case: --contract says what that allows.
    """

    has_backward = False
    refused = {"attn_mask": None}
    posed_as = {
        "tensor_layout": 'layout="bhtd"', "is_causal": "causal=False", "sm_scale": "scale=0.125", "return_lse": "lse=True",
    }  # fmt: skip
    harmless = ("qk_quant_gran", "pv_accum_dtype", "smooth_k", "smooth_v", "quantization_backend")
    settings = ("scale", "bandwidth", "causal", "causal_align", "lse_base")

    def give(self, given, params, case):
        layout = self.layout(case)
        kwargs = {name: in_layout(given[name].detach(), case.layout, layout) for name in "qkv"}
        queries, keys = (kwargs[name].shape[2 if layout == "bhtd" else 1] for name in "qk")
        causal = params.get("causal", True)
        if causal and queries != keys:
            raise InputError(f"causal: {self.name}'s mask is of as many queries as keys, and this case has {queries} and {keys}")
        self.refuse_other(params, "lse_base", "e")
        return {
            **kwargs, "tensor_layout": "HND" if layout == "bhtd" else "NHD", "is_causal": bool(causal), "sm_scale": self.scale(params),
            "return_lse": True if answers_lse(case) else None,
        }  # fmt: skip

    def layout(self, case):
        return "bhtd" if case.layout == "bhtd" else "bthd"

    def take(self, result, case):
        o, lse = answered(result, case)
        return {"o": in_layout(o, self.layout(case), case.layout), "lse": in_layout(lse, "bhtd", case.layout)}

    def pose(self, bound):
        params = self.posed_settings(bound.get("sm_scale"), bound["q"].shape[-1], bound.get("is_causal", False))
        layout = "bhtd" if bound.get("tensor_layout", "HND") == "HND" else "bthd"
        return {name: bound[name] for name in "qkv"}, {**params, "layout": layout}


sageattn = SageAttention("sageattention", "sageattn")
sageattn_qk_int8_pv_fp16_triton = SageAttention("sageattention", "sageattn_qk_int8_pv_fp16_triton")
sageattn_qk_int8_pv_fp16_cuda = SageAttention("sageattention", "sageattn_qk_int8_pv_fp16_cuda")
sageattn_qk_int8_pv_fp8_cuda = SageAttention("sageattention", "sageattn_qk_int8_pv_fp8_cuda")
sageattn_qk_int8_pv_fp8_cuda_sm90 = SageAttention("sageattention", "sageattn_qk_int8_pv_fp8_cuda_sm90")
