"""FlashInfer: tokens of all sequences in one axis, [total, H, d]. Its functions have no backward."""
import math

from .._native import InputError
from .adapter import Adapter, in_layout, in_layout_of, starts_of
from .attention import Attention, answers_lse
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

    def turned(self, state, case):
        return state if case.params.get("state_layout") == "v_first" else state.transpose(-1, -2)

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
        if not isinstance(result, tuple):
            return {"o": in_layout(result, "thd", case.layout)}
        o, lse = result
        base = 1.0 if case.params.get("lse_base") in (2, "2") else math.log(2)
        lse = lse * base
        if "alibi_slopes" in case:  # it counts from the first key
            rows = (case.tensors[name][1][2 if case.layout == "bhtd" else 1 if case.layout == "bthd" else 0] for name in "kq")
            lse = lse - (next(rows) - next(rows)) * case.array("alibi_slopes", "torch", lse.device) * base / math.log(2)
        return {"o": in_layout(o, "thd", case.layout), "lse": in_layout(lse, "thd", case.layout) if answers_lse(case) else None}

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


chunk_gated_delta_rule = GatedDeltaRule("flashinfer.gdn_prefill", "chunk_gated_delta_rule")
single_prefill_with_kv_cache = SinglePrefill("flashinfer", "single_prefill_with_kv_cache")
