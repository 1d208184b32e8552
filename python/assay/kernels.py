"""Our tile programs on tensors that torch has on a GPU of compute capability 9.0, with gradients.

    o, final_state = assay.kernels.gated_deltanet(q, k, v, log_decay=g, beta=beta, scale=0.125)
    assay.check(case, assay.kernels.gated_deltanet)

A function for each name in __all__. Tensors have the names of docs/mechanisms and the axes of assay.case: q, k, p, rho [B, T, H, K], v
[B, T, HV, V], gates [B, T, HV] or [B, T, HV, K], states [B, HV, K, V]; q, k, v, p and rho in bf16 or fp16, gates and states in fp32. Heads
of v share those of k where there are more of them. What is returned: o [B, T, HV, V], and the mechanism's final states. A kernel is
compiled at first use by libnvrtc and kept. A backward pass goes on with the memory of the forward one. Nothing waits for the GPU.

Raises InputError where a tensor does not fit, or the kernels do not take its sizes: K and V are 64 or 128 (64 in fp16).
"""
import functools

from . import _native
from ._native import InputError

__all__ = ["comba", "deltanet", "gated_deltanet", "gla", "kda", "linear_attention", "mamba2", "mdn", "parallax", "softmax_attention"]

ATTENTION = ("parallax", "softmax_attention")
NARROW = ("q", "k", "v", "p", "rho", "o")  # what is multiplied; the rest is fp32


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module 'assay.kernels' has no attribute {name!r}; there are {', '.join(__all__)}")
    globals()[name] = kernel_of(name)
    return globals()[name]


def is_on_gpu(field):
    """Linear attention's normalizers are not: these kernels do without them."""
    return not field.get("is_param") and not field["name"].endswith("_normalizer")


def kernel_of(mechanism):
    facts = _native.facts(mechanism)
    known = {field["name"]: field for field in facts["inputs"] if is_on_gpu(field)}
    outputs = [field["name"] for field in facts["outputs"] if is_on_gpu(field)]
    settings = ("scale", *(("causal", "window") if mechanism in ATTENTION else ("normalization", "eps") if mechanism == "linear_attention" else ()))

    def kernel(q, k, v, *, form=None, **rest):
        tensors = {"q": q, "k": k, "v": v, **{name: rest.pop(name) for name in list(rest) if name in known}}
        for name, field in known.items():
            if tensors.get(name) is None and field["required"]:
                raise InputError(f"{mechanism}: expected the tensor {name}")
        for name in rest:
            if name not in settings:
                raise InputError(f"{mechanism}: does not take {name}; it takes {', '.join([*known, *settings])}")
        tensors = {name: x for name, x in tensors.items() if x is not None}
        return run(Call(mechanism, form, outputs, tensors, rest), tensors)

    kernel.__name__ = kernel.__qualname__ = mechanism
    kernel.__doc__ = f"{facts['summary']}\n\nTensors: {', '.join(known)}. Returns {', '.join(outputs)}."
    return kernel


class Call:
    """A kernel with its settings, for tensors of the sizes of these."""

    def __init__(self, mechanism, form, outputs, tensors, settings):
        import torch

        q, v = tensors["q"], tensors["v"]
        precisions = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        if q.dtype not in precisions or q.ndim != 4 or v.ndim != 4:
            raise InputError(f"q, v: expected [B, T, H, K] in bf16 or fp16, got {list(q.shape)} and {list(v.shape)} in {q.dtype}")
        for name, x in tensors.items():
            if x.device.type != "cuda" or x.device.index != 0:
                raise InputError(f"{name}: expected a tensor on the first GPU, got one on {x.device}")
            if x.shape[0] != q.shape[0]:
                raise InputError(f"{name}: expected a batch of {q.shape[0]}, got {x.shape[0]}")
        self.mechanism, self.form, self.outputs, self.names = mechanism, form or "", outputs, list(tensors)
        self.precision, self.narrow, self.wide = precisions[q.dtype], q.dtype, torch.float32
        self.batch, self.shapes = q.shape[0], {name: x.shape for name, x in tensors.items()}
        heads, keys = v.shape[2], q.shape[3]
        self.shapes["o"] = (self.batch, q.shape[1], heads if q.shape[1] == v.shape[1] and q.shape[2] < heads else q.shape[2], v.shape[3])
        self.shapes.update({name: (self.batch, heads, keys, v.shape[3]) for name in outputs if name != "o"})
        self.params = self.settings(mechanism, settings, keys)

    @staticmethod
    def settings(mechanism, settings, keys):
        """As the core has them: attention divides by the bandwidth, whose default is that of torch."""
        params = {name: value for name, value in settings.items() if value is not None}
        if params.pop("normalization", "none") != "none":
            raise InputError(f"normalization: these kernels have none, got {settings['normalization']}")
        params.pop("eps", None)  # of the normalization
        if mechanism in ATTENTION:
            params["bandwidth"] = 1 / params.pop("scale", keys**-0.5)
        return {name: value if isinstance(value, (bool, int)) else repr(float(value)) for name, value in params.items()}

    def dtype(self, name):
        return self.narrow if name.removeprefix("d_") in NARROW else self.wide

    def has_tokens(self, name):
        return not name.removeprefix("d_").startswith(("initial_", "final_"))

    def dense(self, tensors):
        return {name: x.to(self.dtype(name)).contiguous() for name, x in tensors.items()}

    def room(self, name):
        """Memory for a result."""
        import torch

        return torch.empty(self.shapes[name.removeprefix("d_")], dtype=self.dtype(name), device="cuda:0")

    def on_gpu(self, name, x):
        """Its address, precision, shape as the core has it, [B * H, T, ...] or [B * H, K, V], and heads beside one another."""
        shape = list(x.shape)
        if self.has_tokens(name):
            shape[1], shape[2] = shape[2], shape[1]
        precision = "fp32" if x.dtype == self.wide else self.precision
        return x.data_ptr(), precision, [shape[0] * shape[1], *shape[2:]], shape[1] if self.has_tokens(name) else 1

    def launch(self, given, cotangents, wanted, forward=None):
        """given, cotangents: dense. forward: of a call with gradients, whose first half it is that says no cotangents."""
        import torch

        found = {name: self.room(name) for name in wanted}
        if forward and not cotangents:
            cotangents = found
        arrays = [{name: self.on_gpu(name, x) for name, x in of.items()} for of in (given, cotangents, found)]
        _native.gpu_kernel(self.mechanism, self.form, self.precision, self.params, *arrays, torch.cuda.current_stream().cuda_stream, forward)
        return [found[name] for name in wanted]


def run(call, tensors):
    """The outputs, as a node of torch's graph where a tensor asks for gradients."""
    import torch

    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors.values()):
        results = with_gradients().apply(call, *tensors.values())
    else:
        results = call.launch(call.dense(tensors), {}, call.outputs)
    return results[0] if len(results) == 1 else tuple(results)


@functools.cache
def with_gradients():
    import torch

    class Kernel(torch.autograd.Function):
        @staticmethod
        def forward(ctx, call, *tensors):
            ctx.call, ctx.memory, ctx.dtypes = call, _native.ForwardMemory(), [x.dtype for x in tensors]
            given = call.dense(dict(zip(call.names, tensors)))
            results = tuple(call.launch(given, {}, call.outputs, ctx.memory))
            ctx.save_for_backward(*given.values(), *results)  # a backward pass reads them
            return results

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *cotangents):
            call, given = ctx.call, dict(zip(ctx.call.names, ctx.saved_tensors))
            wanted = [name for name, asked in zip(call.names, ctx.needs_input_grad[1:]) if asked]
            cotangents = call.dense(dict(zip(call.outputs, cotangents)))
            gradients = dict(zip(wanted, call.launch(given, cotangents, ["d_" + name for name in wanted], ctx.memory)))
            return (None, *(gradients[name].to(dtype) if name in gradients else None for name, dtype in zip(call.names, ctx.dtypes)))

    return Kernel
