"""flash-linear-attention (fla/ops): [B, T, H, d], natural logs of decays, scale K^-1/2."""
from .adapter import Adapter, shared_heads

NAMES = {"q": "q", "k": "k", "v": "v", "log_decay": "g", "beta": "beta", "initial_state": "initial_state"}


class Recurrence(Adapter):
    refused = {
        "cu_seqlens": None, "cu_seqlens_cpu": None, "chunk_indices": None, "cp_context": None,
        "use_qk_l2norm_in_kernel": False, "use_beta_sigmoid_in_kernel": False, "allow_neg_eigval": False,
        "use_gate_in_kernel": False, "A_log": None, "dt_bias": None, "lower_bound": None, "state_v_first": False,
        "transpose_state_layout": False, "return_intermediate_states": False, "g_gamma": None, "gk": None, "gv": None, "head_first": False,
    }  # fmt: skip
    harmless = ("chunk_size", "safe_gate", "disable_recompute", "use_graph", "max_num_seqs")

    def __init__(self, home, name, mechanism, groups, has_backward=True):
        super().__init__(home, name)
        self.mechanism, self.groups, self.has_backward = mechanism, groups, has_backward

    def give(self, given, params, case):
        self.refuse_params(params, "scale")
        if not self.groups:
            shared_heads(given, "v", ("q", "k"))
        return {**{NAMES[ours]: x for ours, x in given.items()}, "scale": params.get("scale"), "output_final_state": True}

    def take(self, result):
        return dict(zip(("o", "final_state"), result))

    def pose(self, bound):
        scale = bound.get("scale")
        return {ours: bound.get(theirs) for ours, theirs in NAMES.items()}, {} if scale is None else {"scale": scale}


chunk_gated_delta_rule = Recurrence("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", "gated_deltanet", True)
fused_recurrent_gated_delta_rule = Recurrence("fla.ops.gated_delta_rule", "fused_recurrent_gated_delta_rule", "gated_deltanet", True, False)
chunk_kda = Recurrence("fla.ops.kda", "chunk_kda", "kda", True)
chunk_delta_rule = Recurrence("fla.ops.delta_rule", "chunk_delta_rule", "deltanet", False)
chunk_gla = Recurrence("fla.ops.gla", "chunk_gla", "gla", False)
chunk_simple_gla = Recurrence("fla.ops.simple_gla", "chunk_simple_gla", "mamba2", False)
