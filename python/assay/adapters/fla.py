"""flash-linear-attention (fla/ops): [B, T, H, d], natural logs of decays, scale K^-1/2."""
from .._native import InputError
from .adapter import Adapter, in_layout, shared_heads
from .attention import Chosen, behind

NAMES = {"q": "q", "k": "k", "v": "v", "beta": "beta", "initial_state": "initial_state"}
EPS = 1e-6
# What some functions have: arguments that cases say in our names, these tensors, these settings.
NORM = {"use_qk_l2norm_in_kernel": 'l2_norm="root", l2_eps=1e-6'}, (), ("l2_norm", "l2_eps")
FIRST = {"state_v_first": 'state_layout="v_first"'}, (), ("state_layout",)
GATE = dict.fromkeys(("use_gate_in_kernel", "A_log", "dt_bias"), 'gate="softplus"'), ("a", "a_log", "dt_bias"), ("gate", "softplus_threshold", "lower_bound")
WRITE = {"use_beta_sigmoid_in_kernel": 'beta_gate="sigmoid"', "allow_neg_eigval": 'beta_gate="sigmoid", beta_scale=2'}, ("b",), ("beta_gate", "beta_scale")


class Recurrence(Adapter):
    refused = {
        "cp_context": None, "return_intermediate_states": False, "g_gamma": None, "gk": None, "gv": None, "head_first": False,
        "transpose_state_layout": False,
    }  # fmt: skip
    harmless = ("chunk_size", "safe_gate", "disable_recompute", "use_graph", "max_num_seqs", "cu_seqlens_cpu", "chunk_indices")

    def __init__(self, home, name, mechanism, groups, has_backward=True, takes=(NORM, FIRST, GATE, WRITE), gates=("log", "softplus")):
        super().__init__(home, name)
        self.mechanism, self.groups, self.has_backward, self.gates = mechanism, groups, has_backward, gates
        self.posed_as = {"cu_seqlens": 'layout="thd", cu_seqlens=True', "scale": "scale=0.125"}
        self.tensors = (*NAMES, "log_decay", "cu_seqlens")
        self.settings = ("scale",)
        for posed_as, tensors, settings in takes:
            self.posed_as |= posed_as
            self.tensors += tensors
            self.settings += settings
        if "bounded" in gates:
            self.posed_as["lower_bound"] = 'gate="bounded", lower_bound=-5.0'

    def give(self, given, params, case):
        rows = {name: in_layout(given.pop(name), case.layout, "bthd") for name in ("q", "k", "v", "log_decay", "beta", "a", "b") if name in given}
        if not self.groups:
            shared_heads(rows, "v", ("q", "k"))
        kwargs = {theirs: rows.get(ours, given.get(ours)) for ours, theirs in NAMES.items()}
        kwargs.update(g=rows.get("log_decay", rows.get("a")), scale=params.get("scale"), output_final_state=True)
        if "cu_seqlens" in given:
            kwargs["cu_seqlens"] = given["cu_seqlens"].long()
        if "l2_norm" in params:
            self.refuse_other(params, "l2_norm", "root")
            self.refuse_other(params, "l2_eps", EPS)
            kwargs["use_qk_l2norm_in_kernel"] = True
        if params.get("state_layout") == "v_first":
            kwargs["state_v_first"] = True
        return {**kwargs, **self.gate(given, params), **self.write(rows, params)}

    def gate(self, given, params):
        self.refuse_other(params, "gate", *self.gates)
        if params.get("gate", "log") == "log":
            return {}
        self.refuse_other(params, "softplus_threshold", None, 20)
        bias = given.get("dt_bias")
        return {
            "use_gate_in_kernel": True, "A_log": given.get("a_log"), "dt_bias": None if bias is None else bias.reshape(-1),
            "lower_bound": params.get("lower_bound"),
        }  # fmt: skip

    def write(self, rows, params):
        if "beta_gate" not in params:
            return {}
        doubled = True if params.get("beta_scale") == 2 else None
        return {"beta": rows["b"], "use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": doubled}

    def take(self, result, case):
        o, state = result[:2]
        return {"o": in_layout(o, "bthd", case.layout), "final_state": state}

    def pose(self, bound):
        inputs = {ours: bound.get(theirs) for ours, theirs in NAMES.items()}
        params = {} if bound.get("scale") is None else {"scale": bound["scale"]}
        inputs["cu_seqlens"] = bound.get("cu_seqlens")
        if bound.get("use_qk_l2norm_in_kernel"):
            params.update(l2_norm="root", l2_eps=EPS)
        if bound.get("state_v_first"):
            params["state_layout"] = "v_first"
        if bound.get("use_beta_sigmoid_in_kernel"):
            inputs["b"] = inputs.pop("beta")
            params.update(beta_gate="sigmoid", **({"beta_scale": 2} if bound.get("allow_neg_eigval") else {}))
        elif bound.get("allow_neg_eigval"):
            raise InputError("allow_neg_eigval=True: doubles beta only where use_beta_sigmoid_in_kernel computes it")
        if not bound.get("use_gate_in_kernel"):
            return {**inputs, "log_decay": bound.get("g")}, params
        bounded = bound.get("lower_bound") is not None
        params.update({"gate": "bounded", "lower_bound": bound["lower_bound"]} if bounded else {"gate": "softplus"})
        inputs.update(a=bound["g"], a_log=bound.get("A_log"), dt_bias=bound.get("dt_bias"))
        if inputs["dt_bias"] is not None and bound["g"].dim() == 4:
            inputs["dt_bias"] = inputs["dt_bias"].reshape(bound["g"].shape[2:])
        return inputs, params


class Sparse(Chosen):
    """[B, T, H, d], as many queries as keys, causal; lists count from 0 in their sequence. With `blocks` of blocks, for heads of keys."""

    refused = {"g_cmp": None, "g_slc": None, "g_swa": None, "window_size": 0, "return_block_indices": False, "return_indices": False}
    required = ("scale", "q_idx", "k_idx")

    def __init__(self, home, name, blocks):
        super().__init__(home, name)
        self.blocks, self.indices = blocks, "block_indices" if blocks else "indices"
        self.posed_as = {self.indices: "topk_indices=True", "cu_seqlens": 'layout="thd", cu_seqlens=True', "scale": "scale=0.125"}
        self.settings = ("scale", "bandwidth", "causal", "causal_align")
        if blocks:
            self.posed_as.update(block_counts="topk_length=True", block_size="topk_block_size=64")
            self.settings += ("topk_block_size",)

    def give(self, given, params, case):
        q, k, v = (in_layout(given[name], case.layout, "bthd") for name in "qkv")
        if not params.get("causal", True) or q.shape[1] != k.shape[1]:
            raise InputError(f"causal: {self.name} is causal, and has as many queries as keys")
        lists = self.lists(given, case, k.shape[2] if self.blocks else 1)
        kwargs = {"scale": self.scale(params), "cu_seqlens": given["cu_seqlens"].long() if "cu_seqlens" in given else None}
        if self.blocks:
            kwargs.update(block_size=params.get("topk_block_size", 1), block_counts=self.counts(given, case, lists))
        else:
            if "topk_length" in given:
                lists = lists.masked_fill(behind(lists, self.lengths(given, case)), -1)
            # Keys that nobody chose are NaN in cases, and its mask multiplies by 0 where it hides.
            k, v = (x.masked_fill(x.isnan(), 0) for x in (k, v))
            kwargs.update(q_idx=None, k_idx=None)
        lists = lists.long().reshape(*q.shape[:2], *lists.shape[1 if self.blocks else 2 :])
        return {"q": q, "k": k, "v": v, self.indices: lists, **kwargs}

    def counts(self, given, case, lists):
        """How many blocks of each list count, [B, T, heads of keys]."""
        import torch

        if "topk_length" not in given:
            rows = lists.shape[:2]
            counts = torch.full(rows, lists.shape[-1], device=lists.device)
        else:
            counts = self.lists({"topk_indices": given["topk_length"][..., None]}, case, lists.shape[1])[..., 0]
        batch = 1 if case.layout == "thd" else given["q"].shape[0]
        return counts.long().reshape(batch, -1, lists.shape[1])

    def take(self, result, case):
        return {"o": in_layout(result, "bthd", case.layout)}

    def pose(self, bound):
        params = {"causal": True, "scale": bound["q"].shape[-1] ** -0.5 if bound.get("scale") is None else bound["scale"]}
        if bound.get(self.indices) is None:
            raise InputError(f"{self.indices}: assay captures calls that are given their lists")
        inputs = {name: bound[name] for name in "qkv"} | {"topk_indices": bound[self.indices], "cu_seqlens": bound.get("cu_seqlens")}
        if self.blocks:
            counts = bound.get("block_counts", 16)
            params["topk_block_size"] = bound.get("block_size", 64)
            inputs["topk_length"] = inputs["topk_indices"].new_full(inputs["topk_indices"].shape[:-1], counts) if isinstance(counts, int) else counts
        return inputs, params


BOUNDED = ("log", "softplus", "bounded")
chunk_gated_delta_rule = Recurrence("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", "gated_deltanet", True)
fused_recurrent_gated_delta_rule = Recurrence("fla.ops.gated_delta_rule", "fused_recurrent_gated_delta_rule", "gated_deltanet", True, False)
chunk_kda = Recurrence("fla.ops.kda", "chunk_kda", "kda", True, gates=BOUNDED)
chunk_delta_rule = Recurrence("fla.ops.delta_rule", "chunk_delta_rule", "deltanet", False, takes=(NORM,))
chunk_gla = Recurrence("fla.ops.gla", "chunk_gla", "gla", False, takes=(FIRST,))
chunk_simple_gla = Recurrence("fla.ops.simple_gla", "chunk_simple_gla", "mamba2", False, takes=(FIRST,))
parallel_nsa = Sparse("fla.ops.nsa", "parallel_nsa", True)
naive_dsa = Sparse("fla.ops.dsa.naive", "naive_dsa", False)
