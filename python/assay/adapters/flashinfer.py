"""FlashInfer: tokens of all sequences in one axis, [total, H, d]. Its functions have no backward."""
from .._native import InputError
from .adapter import Adapter
from .attention import Attention


def packed(x):
    return x.detach().reshape(-1, *x.shape[2:]).contiguous()


class GatedDeltaRule(Adapter):
    """Decays are linear, and states have values first."""

    mechanism = "gated_deltanet"
    has_backward = False
    refused = {
        "use_qk_l2norm_in_kernel": False, "state_checkpoints": None, "checkpoint_every_n_tokens": 0, "checkpoint_cu_starts": None,
        "state_indices": None, "output": None, "output_state": None,
    }  # fmt: skip

    def give(self, given, params, case):
        import torch

        self.refuse_params(params, "scale")
        q, v = given["q"], given["v"]
        self.sequences = q.shape[0]
        starts = torch.arange(self.sequences + 1, device=q.device, dtype=torch.int64) * q.shape[1]
        kwargs = {name: packed(given[name]) for name in ("q", "k", "v")}
        kwargs.update(g=packed(given["log_decay"]).exp(), beta=packed(given["beta"]), scale=params.get("scale"), cu_seqlens=starts)
        if "initial_state" in given:
            kwargs["initial_state"] = given["initial_state"].detach().transpose(-1, -2).contiguous()
        if q.shape[2] > v.shape[2]:
            raise InputError(f"{self.name}: assay does not judge more heads of q than of v yet")
        return {**kwargs, "output_final_state": True}

    def take(self, result):
        o, state = result
        return {"o": o.reshape(self.sequences, -1, *o.shape[1:]), "final_state": state.transpose(-1, -2)}

    def pose(self, bound):
        starts = bound.get("cu_seqlens")
        if starts is not None and len(starts) != 2:
            raise InputError(f"cu_seqlens: assay judges one sequence of a call, and this has {len(starts) - 1}")
        inputs = {name: bound[name][None] for name in ("q", "k", "v")}
        for ours, theirs in (("log_decay", "g"), ("beta", "beta")):
            if bound.get(theirs) is None:
                raise InputError(f"{theirs}: assay does not judge a call without it yet")
        inputs["log_decay"], inputs["beta"] = bound["g"].log()[None], bound["beta"][None]
        if bound.get("initial_state") is not None:
            inputs["initial_state"] = bound["initial_state"].transpose(-1, -2)
        return inputs, {"scale": bound["scale"]} if bound.get("scale") else {}


class SinglePrefill(Attention):
    """One sequence; its window is one-sided."""

    has_backward = False
    refused = {
        "custom_mask": None, "packed_custom_mask": None, "logits_soft_cap": None, "pos_encoding_mode": "NONE", "return_lse": False,
        "scale_q": None, "scale_k": None, "scale_v": None, "k_scale": None, "v_scale": None, "rope_scale": None, "rope_theta": None,
        "kv_layout": "NHD",
    }  # fmt: skip
    harmless = ("use_fp16_qk_reduction", "backend", "o_dtype")

    def give(self, given, params, case):
        scale, causal, window = self.settings(params)
        if given["q"].shape[0] != 1:
            raise InputError(f"{self.name}: takes one sequence, and this case has {given['q'].shape[0]}")
        kwargs = {name: packed(given[name]) for name in "qkv"}
        return {**kwargs, "causal": causal, "sm_scale": scale, "window_left": window - 1 if window else -1}

    def take(self, result):
        return {"o": result[None]}

    def pose(self, bound):
        causal = bound.get("causal", False)
        window = self.one_sided(bound.get("window_left", -1), -1, causal)
        return {name: bound[name][None] for name in "qkv"}, self.params(bound.get("sm_scale"), causal, window)


chunk_gated_delta_rule = GatedDeltaRule("flashinfer.gdn_prefill", "chunk_gated_delta_rule")
single_prefill_with_kv_cache = SinglePrefill("flashinfer", "single_prefill_with_kv_cache")
