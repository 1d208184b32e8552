"""Published GPU kernels as functions from a case to an answer. Only imports and calls: what they compute is theirs."""
import importlib
import inspect

import torch
from kernels import sdpa  # of proptests/foreign, which is on the path
from torch.nn.attention import SDPBackend


def fla(module, name):
    """A function of flash-linear-attention."""
    return getattr(importlib.import_module("fla.ops." + module), name)


def flex(case):
    """torch.nn.attention.flex_attention, compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (case[name].transpose(1, 2) for name in "qkv")
    queries, keys = q.shape[2], k.shape[2]
    mask = create_block_mask(lambda b, h, i, j: i + (keys - queries) >= j, None, None, queries, keys, device="cuda")
    attention = torch.compile(flex_attention, dynamic=False)
    o = attention(q, k, v, block_mask=mask if case.causal else None, scale=case.scale, enable_gqa=q.shape[1] != k.shape[1])
    return case.answer({"o": o.transpose(1, 2)})


def attention(module, name, *inputs):
    """fla's attention over all keys: no state."""

    def run(case):
        o = fla(module, name)(*(case[i] for i in inputs), scale=case.scale)
        return case.answer({"o": o})

    return run


def decoding(case):
    """fla's attention of one query."""
    ends = torch.tensor([0, case["k"].shape[1]], device="cuda", dtype=torch.long)
    run = fla("attn.decoding", "attn_decoding_one_step")
    with torch.no_grad():
        return {"o": run(case["q"], case["k"], case["v"], scale=case.scale, cu_seqlens=ends)}


def recurrence(module, name, gradients=True, extra=None, **inputs):
    """A recurrence of fla: its keywords for our inputs, options; whether it has a backward."""

    def run(case):
        keywords = {theirs: case[ours] for theirs, ours in inputs.items()} | (extra or {})
        with torch.set_grad_enabled(gradients and bool(case.cotangents)):
            o, state = fla(module, name)(
                q=case["q"], k=case["k"], v=case["v"], scale=case.scale, initial_state=case["initial_state"].clone(),
                output_final_state=True, **keywords
            )
            return case.answer({"o": o, "final_state": state})

    return run


def transformers(name):
    """The functions of Qwen3-Next that stand in where fla is not installed; where it is, their names call fla's."""

    def run(case):
        module = importlib.import_module("transformers.models.qwen3_next.modeling_qwen3_next")
        q, k = case.shared("q", "k")
        o, state = inspect.unwrap(getattr(module, name))(
            q, k, case["v"], g=case["log_decay"], beta=case["beta"], initial_state=case["initial_state"],
            output_final_state=True, use_qk_l2norm_in_kernel=False
        )
        return case.answer({"o": o, "final_state": state})

    return run


def momentum(name):
    """fla's momentum delta rule, which packs both states."""

    def run(case):
        states = torch.stack([case["initial_state"], case["initial_momentum"]])
        q, k, p = case.shared("q", "k", "p")
        o, final = fla("momentum_delta_rule", name)(
            q, k, case["v"], case["log_alpha"], case["log_mu"], p=p, beta=case["beta"], eta=case["eta"], scale=case.scale,
            initial_state=states, output_final_state=True, use_qk_l2norm_in_kernel=False, use_p_times_alpha=False
        )
        return case.answer({"o": o, "final_state": final[0], "final_momentum": final[1]})

    return run


GATED, DECAY, RATE = {"g": "log_decay", "beta": "beta"}, {"g": "log_decay"}, {"beta": "beta"}
KERNELS = {  # name: (mechanism, package, function)
    **{f"sdpa_{b.split('_')[0].lower()}": ("softmax_attention", "torch", sdpa(getattr(SDPBackend, b)))
       for b in ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")},
    "flex_attention": ("softmax_attention", "torch", flex),
    "fla.parallel_attn": ("softmax_attention", "fla-core", attention("attn", "parallel_attn", "q", "k", "v")),
    "fla.attn_decoding_one_step": ("softmax_attention", "fla-core", decoding),
    "fla.parallel_parallax": ("parallax", "fla-core", attention("parallax", "parallel_parallax", "q", "rho", "k", "v")),
    "fla.chunk_gated_delta_rule": ("gated_deltanet", "fla-core", recurrence("gated_delta_rule", "chunk_gated_delta_rule", **GATED)),
    "fla.fused_recurrent_gated_delta_rule": (
        "gated_deltanet", "fla-core", recurrence("gated_delta_rule", "fused_recurrent_gated_delta_rule", False, **GATED)),
    "fla.chunk_delta_rule": ("deltanet", "fla-core", recurrence("delta_rule", "chunk_delta_rule", **RATE)),
    "fla.fused_recurrent_delta_rule": ("deltanet", "fla-core", recurrence("delta_rule", "fused_recurrent_delta_rule", **RATE)),
    "fla.chunk_gla": ("gla", "fla-core", recurrence("gla", "chunk_gla", **DECAY)),
    "fla.fused_recurrent_gla": ("gla", "fla-core", recurrence("gla", "fused_recurrent_gla", gk="log_decay")),
    **{f"fla.{n}_simple_gla": ("mamba2", "fla-core", recurrence("simple_gla", n + "_simple_gla", **DECAY))
       for n in ("chunk", "fused_chunk", "fused_recurrent")},
    **{f"fla.{n}_linear_attn": (
        "linear_attention", "fla-core", recurrence("linear_attn", n + "_linear_attn", extra={"normalize": False}))
       for n in ("chunk", "fused_chunk", "fused_recurrent")},
    "fla.chunk_kda": ("kda", "fla-core", recurrence("kda", "chunk_kda", **GATED)),
    "fla.fused_recurrent_kda": ("kda", "fla-core", recurrence("kda", "fused_recurrent_kda", False, **GATED)),
    "fla.chunk_comba": ("comba", "fla-core", recurrence("comba", "chunk_comba", p="p", **GATED)),
    "fla.fused_recurrent_comba": ("comba", "fla-core", recurrence("comba", "fused_recurrent_comba", False, p="p", **GATED)),
    **{f"fla.{n}_momentum_delta_rule": ("mdn", "fla-core", momentum(n + "_momentum_delta_rule")) for n in ("chunk", "fused_recurrent")},
    **{f"transformers.torch_{n}_gated_delta_rule": ("gated_deltanet", "transformers", transformers(f"torch_{n}_gated_delta_rule"))
       for n in ("chunk", "recurrent")},
}
