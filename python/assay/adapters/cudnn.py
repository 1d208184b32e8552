"""cuDNN's frontend: DeepSeek's sparse attention for training, and its backward pass alone; [rows, H, d], one head of latent keys."""
import functools

from .._native import InputError
from .attention import behind
from .flash_mla import SparseForward


class SparseTraining(SparseForward):
    """Lists number the rows of kv. It masks entries that name no row and those behind the length itself. Nobody asks for lse's gradient."""

    has_backward = True
    ignored_cotangents = ("lse",)
    refused = {}
    posed_as = {
        "indices": "topk_indices=True", "topk_length": "topk_length=True", "attn_sink": "sink=True", "softmax_scale": "scale=0.125",
    }  # fmt: skip
    harmless = ("trusted_compact_metadata",)

    def give(self, given, params, case):
        kwargs = super().give(given, params, case)
        if kwargs["kv"].shape[1] != 1:
            raise InputError(f"k: {self.name} has one head of keys, and this case has {kwargs['kv'].shape[1]}")
        return {
            "q": kwargs["q"].contiguous(), "kv": kwargs["kv"][:, 0].contiguous(), "indices": kwargs["indices"][:, 0].contiguous(),
            "attn_sink": kwargs["attn_sink"], "softmax_scale": kwargs["sm_scale"], "topk_length": kwargs["topk_length"],
        }  # fmt: skip

    def without_nan(self, indices, length, kv):
        return indices

    def take(self, result, case):
        return super().take((result["out"], None, result["lse"].detach()), case)

    def pose(self, bound):
        scale = bound.get("softmax_scale")
        renamed = {
            **bound, "kv": bound["kv"][:, None], "indices": bound["indices"][:, None], "d_v": min(512, bound["kv"].shape[-1]),
            "sm_scale": bound["kv"].shape[-1] ** -0.5 if scale is None else scale,
        }  # fmt: skip
        return super().pose(renamed)


class SparseBackward(SparseTraining):
    """The backward pass alone, of an output and an lse that a plain formula has: o and lse are not cuDNN's.

    Beside a length it wants no -1 among the entries that count, so that such lists are given without one.
    """

    harmless = ("block_tile",)

    def resolved(self):
        return functools.partial(through, super().resolved())

    def posed(self, *args, **kwargs):
        raise InputError(f"{self.name}: assay captures calls of forward passes, as sparse_attention")

    def give(self, given, params, case):
        kwargs = super().give(given, params, case)
        indices, length = kwargs["indices"], kwargs.pop("topk_length")
        if length is not None:
            import torch

            late = behind(indices[:, None], length)[:, 0]
            hole = bool(((indices < 0) & ~late).any())
            outside = (indices < 0) | (indices >= kwargs["kv"].shape[0])
            kwargs["indices"] = torch.where(late & (outside | hole), -1, indices)
            kwargs["topk_length"] = None if hole else length
        return {**kwargs, "value_dim": params.get("value_dim", kwargs["kv"].shape[-1])}


def through(backward, q, kv, indices, value_dim, attn_sink=None, softmax_scale=None, topk_length=None, **arguments):
    """{"out", "lse"} by the plain formula; gradients by `backward`, which has cuDNN's signature."""
    import torch

    sink = torch.full((q.shape[1],), -float("inf"), device=q.device) if attn_sink is None else attn_sink.float()
    scale = kv.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale

    class Attend(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, kv, sink):
            seen = indices >= 0
            if topk_length is not None:
                seen &= ~behind(indices[:, None], topk_length)[:, 0]
            keys = torch.where(seen[..., None], kv[torch.where(seen, indices, 0).long()].double(), 0)
            s = (scale * torch.einsum("thd,tnd->thn", q.double(), keys)).masked_fill(~seen[:, None], -float("inf"))
            lse = torch.logsumexp(s, -1)
            whole = torch.logaddexp(lse, sink.double()[None])
            p = torch.exp(s - torch.where(whole.isinf(), 0, whole)[..., None])
            out = torch.einsum("thn,tnd->thd", p, keys[..., :value_dim]).to(q.dtype)
            lse = torch.where(lse == -float("inf"), float("inf"), lse).float()
            ctx.save_for_backward(q, kv, out, lse, sink)
            ctx.mark_non_differentiable(lse)
            return out, lse

        @staticmethod
        def backward(ctx, d_out, _):
            q, kv, out, lse, sink = ctx.saved_tensors
            found = backward(
                q, kv, out, d_out.contiguous(), lse, sink, indices, softmax_scale=scale, topk_length=topk_length, **arguments
            )
            return found["dq"], found["dkv"], found["d_sink"]

    out, lse = Attend.apply(q, kv, sink)
    return {"out": out, "lse": lse}


sparse_attention = SparseTraining("cudnn.deepseek_sparse_attention.training", "sparse_attention")
sparse_attention_backward_wrapper = SparseBackward("cudnn.deepseek_sparse_attention", "sparse_attention_backward_wrapper")
