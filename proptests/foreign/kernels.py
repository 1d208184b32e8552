"""Kernels that others have published and that run on a CPU: SDPA of torch, and the naive functions of flash-linear-attention.
Only imports and calls: what they compute is theirs. One that does not take a problem raises NotImplementedError."""
import functools
import importlib.util
import pathlib

import torch.nn.functional
from torch.nn.attention import SDPBackend, sdpa_kernel


@functools.cache
def fla(module):
    """fla/ops/MODULE/naive.py by itself: the package wants Triton, which a CPU does not need."""
    (package,) = importlib.util.find_spec("fla").submodule_search_locations
    path = pathlib.Path(package, "ops", module, "naive.py")
    spec = importlib.util.spec_from_file_location(f"fla_{module}_naive", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def sdpa(backend):
    """scaled_dot_product_attention by that backend."""

    def run(case):
        q, k, v = (case[name].transpose(1, 2) for name in "qkv")
        mask = {"is_causal": case.causal} if case.window is None else {"attn_mask": case.visible()}
        with sdpa_kernel([backend]):
            o = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, scale=case.scale, enable_gqa=q.shape[1] != k.shape[1], **mask
            )
            return case.answer({"o": o.transpose(1, 2)})

    return run


def attention(case):
    """fla's naive softmax attention."""
    if case.window is not None:
        raise NotImplementedError("windows")
    o, _ = fla("attn").naive_parallel_attn(case["q"], case["k"], case["v"], scale=case.scale, causal=case.causal)
    return case.answer({"o": o})


def recurrence(module, function, inputs, **renamed):
    """One of fla's naive recurrences: inputs in its order, and by other names than ours."""

    def run(case):
        shared = dict(zip("qkp", case.shared(*(name for name in "qkp" if name in case.inputs))))
        ours = {**case.inputs, **shared} if module != "kda" else case.inputs
        keywords = {theirs: ours[name] for theirs, name in renamed.items()}
        if module != "gla":  # its scale is K^-1/2
            keywords["scale"] = case.scale
        o, state = getattr(fla(module), function)(
            *(ours[name] for name in inputs), **keywords, initial_state=case["initial_state"], output_final_state=True
        )
        return case.answer({"o": o, "final_state": state})

    return run


QKV, GATED = ("q", "k", "v"), {"g": "log_decay", "beta": "beta"}
COMBA = {"q": "q", "k": "k", "v": "v", "p": "p", **GATED}
PUBLISHED = {  # mechanism: (name, function)
    "softmax_attention": [
        ("torch SDPA, math", sdpa(SDPBackend.MATH)),
        ("torch SDPA, flash", sdpa(SDPBackend.FLASH_ATTENTION)),
        ("fla.naive_parallel_attn", attention),
    ],
    "linear_attention": [("fla.naive_recurrent_linear_attn", recurrence("linear_attn", "naive_recurrent_linear_attn", QKV))],
    "mamba2": [
        ("fla.naive_recurrent_simple_gla", recurrence("simple_gla", "naive_recurrent_simple_gla", (*QKV, "log_decay"))),
        ("fla.naive_chunk_simple_gla", recurrence("simple_gla", "naive_chunk_simple_gla", (*QKV, "log_decay"))),
    ],
    "gla": [("fla.naive_recurrent_gla", recurrence("gla", "naive_recurrent_gla", (*QKV, "log_decay")))],
    "gated_deltanet": [
        (f"fla.naive_{form}_gated_delta_rule", recurrence("gated_delta_rule", f"naive_{form}_gated_delta_rule", QKV, **GATED))
        for form in ("recurrent", "chunk")
    ],
    "kda": [("fla.naive_recurrent_kda", recurrence("kda", "naive_recurrent_kda", (*QKV, "log_decay", "beta")))],
    "comba": [("fla.naive_chunk_comba", recurrence("comba", "naive_chunk_comba", (), **COMBA))],
}
# Published, and not what it is called: fla.naive_recurrent_comba takes the error of the decayed state.
DEFECTS = {"comba": [("fla.naive_recurrent_comba", recurrence("comba", "naive_recurrent_comba", (), **COMBA))]}
