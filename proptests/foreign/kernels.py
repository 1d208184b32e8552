"""Kernels that others have published and that run on a CPU: SDPA of torch, and the naive functions of flash-linear-attention.
Only imports and calls: what they compute is theirs. One that does not take a problem raises NotImplementedError."""
import functools
import importlib.util
import pathlib

import torch
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


def parallax(case):
    """fla's naive Parallax."""
    o = fla("parallax").naive_parallax(
        *(case[name] for name in ("q", "rho", "k", "v")), scale=case.scale, window_size=case.window, causal=case.causal
    )
    return case.answer({"o": o})


def momentum(case):
    """fla's momentum delta rule, token by token."""
    q, k, p = case.shared("q", "k", "p")
    names = ("log_alpha", "log_mu", "beta", "eta")
    o, (state, momentum) = fla("momentum_delta_rule").recurrent_momentum_delta_rule_ref(
        q, k, case["v"], p=p, **{name: case[name] for name in names}, scale=case.scale, initial_S=case["initial_state"],
        initial_M=case["initial_momentum"], output_final_state=True
    )
    return case.answer({"o": o, "final_state": state, "final_momentum": momentum})


def mesa(case):
    """fla's MesaNet by a solver, without gates; its ridge is of a head, in all sequences and tokens."""
    ridge = case["lambda"]
    if ridge.dim() != 2 or ridge.shape[0] > 1:
        raise NotImplementedError("a batch, or a ridge of tokens or channels")
    ones, dims = torch.ones(case["q"].shape[:3]), case["k"].shape[-1]
    o, gram, state = fla("mesa_net").naive_mesa_net_exact(
        case["q"], case["k"], case["v"], g=0 * ones, lamb=ridge[0][:, None].expand(-1, dims), beta=ones
    )
    return case.answer({"o": o, "final_state": state.transpose(2, 3), "final_gram": gram})


QKV, GATED = ("q", "k", "v"), {"g": "log_decay", "beta": "beta"}
COMBA = {"q": "q", "k": "k", "v": "v", "p": "p", **GATED}
PUBLISHED = {  # mechanism: (name, function)
    "softmax_attention": [
        ("torch SDPA, math", sdpa(SDPBackend.MATH)),
        ("torch SDPA, flash", sdpa(SDPBackend.FLASH_ATTENTION)),
        ("fla.naive_parallel_attn", attention),
    ],
    "parallax": [("fla.naive_parallax", parallax)],
    "mdn": [("fla.recurrent_momentum_delta_rule_ref", momentum)],
    "mesanet": [("fla.naive_mesa_net_exact", mesa)],
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
