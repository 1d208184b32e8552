"""Inputs of flashinfer-bench's definitions, from those of a case."""
import numpy

from .._arrays import PRECISIONS, doubles, precision_named, tensor_of, transposed


def tokens_packed(name):
    def give(task, problem, field, batch, tokens):
        dtype, shape, data = {**problem.tensors, **(problem.raw or {})}[name]
        return dtype, tuple(shape) if task.decodes or len(shape) < 3 else (shape[0] * shape[1], *shape[2:]), bytes(data)

    return give


def starts(task, problem, field, batch, tokens):
    return tensor_of(numpy.arange(batch + 1) * tokens, {"int32": "I32"}.get(field["dtype"], "I64"))


def linear_decay(task, problem, field, batch, tokens):
    """flashinfer's g is the decay itself."""
    a = numpy.exp(doubles(problem.tensors["log_decay"]))
    return tensor_of(a if task.decodes else a.reshape(batch * tokens, -1), "F32")


def state(task, problem, field, batch, tokens):
    tensor = problem.tensors["initial_state"]
    return tensor if "k_first" in task.definition["name"] else transposed(tensor, 0, 1, 3, 2)


QKV = {name: tokens_packed(name) for name in ("q", "k", "v")}
FROM_FIB = {
    "gdn": ("gated_deltanet", {**QKV, **{name: tokens_packed(name) for name in ("A_log", "a", "dt_bias", "b", "beta")}, "state": state,
                               "initial_state": state, "cu_seqlens": starts, "g": linear_decay}),
    "gqa_ragged": ("softmax_attention", {**QKV, "qo_indptr": starts, "kv_indptr": starts}),
}  # fmt: skip


def fib_numbers(problem, inputs, seed):
    """Raw gates as tensors, and what they come to: log_decay = -exp(A_log) softplus(a + dt_bias) and beta = sigmoid(b), in doubles."""
    rng = numpy.random.default_rng(seed)
    batch, tokens, heads = problem.tensors["beta"][1]
    drawn = {
        "A_log": numpy.log(rng.uniform(0.1, 4, heads)), "dt_bias": rng.normal(-2, 0.5, heads),
        "a": rng.normal(size=(batch, tokens, heads)), "b": rng.normal(size=(batch, tokens, heads)),
    }  # fmt: skip
    tensors = {name: tensor_of(x, PRECISIONS[precision_named(inputs[name]["dtype"])]) for name, x in drawn.items()}
    exact = {name: doubles(x) for name, x in tensors.items()}
    decay = -numpy.exp(exact["A_log"]) * numpy.logaddexp(0, exact["a"] + exact["dt_bias"])
    return tensors, {"log_decay": decay, "beta": 1 / (1 + numpy.exp(-exact["b"]))}
