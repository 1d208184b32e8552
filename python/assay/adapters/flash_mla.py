"""FlashMLA: flash_mla_sparse_fwd, attention of latent keys that every row has a list of; without a backward pass."""
from .._native import InputError
from .adapter import in_layout, in_layout_of
from .attention import Chosen, answers_lse, behind


class SparseForward(Chosen):
    """[rows, H, d], of all sequences together: lists number the rows of kv. Values are the first channels of keys, and lse is without the sink."""

    has_backward = False
    refused = {"indexer_topk": 0}
    posed_as = {
        "indices": "topk_indices=True", "topk_length": "topk_length=True", "attn_sink": "sink=True", "d_v": "value_dim=512",
        "sm_scale": "scale=0.125",
    }  # fmt: skip
    tensors = ("q", "k", "sink", "topk_indices", "topk_length", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k")
    settings = (*Chosen.settings, "value_dim", "lse_base")

    def give(self, given, params, case):
        if self.window(params) != (None, None):
            raise InputError(f"causal: {self.name} sees what its lists name and has no other mask: causal=False")
        self.refuse_other(params, "lse_base", "e")
        q, kv = (in_layout(given[name], case.layout, "thd") for name in "qk")
        length = self.lengths(given, case)
        indices = self.rows_of_kv(self.lists(given, case, kv.shape[1]), given, case, kv)
        return {
            "q": q, "kv": kv, "indices": self.without_nan(indices, length, kv), "sm_scale": self.scale(params),
            "d_v": params.get("value_dim", kv.shape[-1]), "attn_sink": given.get("sink"),
            "topk_length": length,
        }  # fmt: skip

    def rows_of_kv(self, lists, given, case, kv):
        """Entries as rows of all sequences' keys; -1 of what is none."""
        import torch

        firsts = torch.zeros(lists.shape[0], dtype=lists.dtype, device=lists.device)
        queries, keys = (given.get(name, given.get("cu_seqlens")) for name in ("cu_seqlens_q", "cu_seqlens_k"))
        if queries is not None:
            for begin, end, first in zip(queries.tolist(), queries.tolist()[1:], keys.tolist()):
                firsts[begin:end] = first
        elif case.layout != "thd":
            batch = given["q"].shape[0]
            firsts = torch.arange(batch, dtype=lists.dtype, device=lists.device).repeat_interleave(lists.shape[0] // batch) * (kv.shape[0] // batch)
        return torch.where(lists < 0, -1, lists + firsts[:, None, None]).to(torch.int32)

    def without_nan(self, indices, length, kv):
        """Its documentation asks callers for entries behind the length that name no NaN: those are -1."""
        import torch

        if length is None:
            return indices
        none = torch.isnan(kv).any(-1).any(-1)[indices.clamp(0, kv.shape[0] - 1).long()] | (indices >= kv.shape[0])
        return torch.where(behind(indices, length) & none, -1, indices)

    def take(self, result, case):
        o, _, lse = result[:3]
        if not answers_lse(case):
            return {"o": in_layout_of(case, o, "thd")}
        import torch

        lse = torch.where(lse == float("inf"), -float("inf"), lse)  # of rows that see nothing
        if "sink" in case:
            lse = torch.logaddexp(lse, case.array("sink", "torch", lse.device).to(lse.dtype)[None])
        return {"o": in_layout_of(case, o, "thd"), "lse": in_layout_of(case, lse, "thd")}

    def pose(self, bound):
        import torch

        kv, indices, length = bound["kv"], bound["indices"], bound.get("topk_length")
        params = {"causal": False, "scale": bound["sm_scale"], "value_dim": bound.get("d_v", 512), "layout": "thd"}
        indices = torch.where((indices < 0) | (indices >= kv.shape[0]), -1, indices)
        return {"q": bound["q"], "k": kv, "topk_indices": indices, "topk_length": length, "sink": bound.get("attn_sink")}, params


flash_mla_sparse_fwd = SparseForward("flash_mla", "flash_mla_sparse_fwd")
