"""Arrays of NumPy, torch and JAX as (dtype, shape, bytes), and back. torch and JAX are imported only if somebody uses them."""
import sys

import numpy

from ._native import InputError

# The file format's names, those of torch, and those of NumPy with ml_dtypes.
TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
# Lengths, documents, pages; and masks. NumPy and torch call them alike.
COUNTS = {"I32": "int32", "I64": "int64", "BOOL": "bool", "U8": "uint8"}
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I32": 4, "I64": 8, "BOOL": 1, "U8": 1}
# Names of a case's precision: ours, and those of the frameworks.
PRECISIONS = {"fp64": "F64", "fp32": "F32", "tf32": "F32", "bf16": "BF16", "fp16": "F16", "e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}
# Styles of case with numbers in narrower formats, and a scale for each block of them.
BLOCKS = ("mxfp8", "nvfp4", "fp8_per_token_head")
PLAIN = {"F64": "float64", "F32": "float32", "F16": "float16"}


def precision_named(dtype):
    """"bf16" of "bf16", "bfloat16", torch.bfloat16 or ml_dtypes.bfloat16."""
    word = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    word = word.removeprefix("torch.").removeprefix("jax.numpy.")
    for precision, stored in PRECISIONS.items():
        if word in (precision, TORCH[stored]) and precision != "tf32" or word == precision:
            return precision
    blocks = f" (blocks with a scale are a style: style={word!r})" if word in BLOCKS else ""
    raise InputError(f"dtype: there is no {word}{blocks}; there are {', '.join(PRECISIONS)}")


def is_torch(x):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def framework_of(values):
    """The framework whose arrays these are."""
    if any(is_torch(x) for x in values):
        return "torch"
    jax = sys.modules.get("jax")
    return "jax" if jax is not None and any(isinstance(x, jax.Array) for x in values) else "numpy"


def stored(x, name, *, counts=False):
    """The tensor as (dtype, shape, bytes): on the CPU, once everything that was launched is done. counts: whether it may have
    integers or truth values."""
    known = {**TORCH, **COUNTS} if counts else TORCH
    return stored_torch(x, name, known) if is_torch(x) else stored_numpy(x, name, known)


def stored_torch(x, name, known):
    import torch

    dtype = next((ours for ours, theirs in known.items() if getattr(torch, theirs, None) == x.dtype), None)
    if dtype is None:
        raise InputError(f"{name}: expected a floating-point tensor, got {x.dtype}")
    if x.layout != torch.strided or x.is_quantized:
        raise InputError(f"{name}: expected a dense tensor, got one that is {'quantized' if x.is_quantized else x.layout}")
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    x = x.detach().cpu().contiguous()
    # NumPy has no bfloat16, and DLPack may refuse the formats of eight bits.
    view = {2: torch.int16, 1: torch.uint8}.get(SIZES[dtype]) if dtype in TORCH else None
    return dtype, tuple(x.shape), (x.view(view) if view is not None else x).numpy()


def stored_numpy(x, name, known):
    if isinstance(x, (list, tuple, str, bytes, dict)) or x is None or not (hasattr(x, "__array__") or hasattr(x, "__dlpack__")):
        raise InputError(f"{name}: expected an array of NumPy, torch or JAX, got {type(x).__name__}")
    try:
        a = numpy.asarray(x) if hasattr(x, "__array__") else numpy.from_dlpack(x)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise InputError(f"{name}: NumPy cannot read this {type(x).__name__}: {error}") from None
    dtype = next((ours for ours, theirs in known.items() if theirs == a.dtype.name), None)
    if dtype is None:
        raise InputError(f"{name}: expected floating-point numbers, got {a.dtype.name}")
    shape = tuple(a.shape)
    a = a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("="))
    # ml_dtypes' arrays have no buffer.
    return dtype, shape, numpy.ascontiguousarray(a).reshape(-1).view(numpy.uint8)


def array(tensor, framework, device=None, name="array"):
    """(dtype, shape, bytes) as an array of that framework; its memory is its own."""
    if framework == "torch":
        return torch_array(tensor, device)
    a = numpy_array(tensor)
    return jax_array(a, device, name) if framework == "jax" else a


def jax_array(a, device, name):
    try:
        import jax
    except ImportError:
        raise InputError("arrays: JAX is not installed here; arrays=\"numpy\" needs none") from None
    if a.dtype.itemsize == 8 and jax.dtypes.canonicalize_dtype(a.dtype) != a.dtype:
        raise InputError(f"{name}: JAX keeps 64 bits only where jax_enable_x64 is set, and this is {a.dtype.name}")
    return jax.numpy.asarray(a) if device is None else jax.device_put(a, device)


def torch_array(tensor, device=None):
    try:
        import torch
    except ImportError:
        raise InputError("arrays: torch is not installed here; arrays=\"numpy\" needs none") from None
    dtype, shape, data = tensor
    theirs = getattr(torch, {**TORCH, **COUNTS}[dtype])
    data = bytearray(data)
    x = torch.frombuffer(data, dtype=torch.uint8).view(theirs).reshape(shape) if data else torch.empty(shape, dtype=theirs)
    return x if device is None else x.to(device)


def numpy_array(tensor):
    dtype, shape, data = tensor
    return numpy.frombuffer(bytearray(data), dtype=numpy.uint8).view(numpy_dtype(dtype)).reshape(shape)


def numpy_dtype(dtype):
    if dtype in PLAIN or dtype in COUNTS:
        return numpy.dtype({**PLAIN, **COUNTS}[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise InputError(f"dtype: NumPy has no {TORCH[dtype]} without the package ml_dtypes: pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, TORCH[dtype]))


def doubles(tensor):
    """(dtype, shape, bytes) as doubles of NumPy."""
    dtype, shape, data = tensor
    if dtype == "BF16":
        whole = numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16
        return whole.view(numpy.float32).astype(numpy.float64).reshape(shape)
    return numpy.frombuffer(data, numpy_dtype(dtype)).astype(numpy.float64).reshape(shape)


def tensor_of(a, dtype):
    """NumPy's numbers, rounded to nearest, as (dtype, shape, bytes)."""
    a = numpy.ascontiguousarray(a)
    if dtype == "BF16":
        whole = a.astype(numpy.float32).view(numpy.uint32)
        a = ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(numpy.uint16)
    else:
        a = a.astype(numpy_dtype(dtype))
    return dtype, a.shape, a.tobytes()


def transposed(tensor, *axes):
    """The tensor with its axes in that order, bit for bit."""
    a = bits(tensor).transpose(axes)
    return tensor[0], a.shape, a.tobytes()


def bits(tensor):
    """(dtype, shape, bytes) as unsigned integers of that shape."""
    dtype, shape, data = tensor
    return numpy.frombuffer(bytes(memoryview(data).cast("B")), f"u{SIZES[dtype]}").reshape(shape)


def same_bytes(a, b):
    """Whether they are alike, compared in pieces: a copy of a whole tensor is not needed."""
    a, b, piece = memoryview(a).cast("B"), memoryview(b).cast("B"), 2**20
    return a.nbytes == b.nbytes and all(bytes(a[i : i + piece]) == bytes(b[i : i + piece]) for i in range(0, a.nbytes, piece))


def differs(a, b, judged=None):
    """Whether bits differ, of the numbers for which judged has a 1 if it is there."""
    return a[2] != b[2] and different(a, b, judged).size > 0


def different(a, b, judged=None):
    """The places of elements whose bits differ."""
    unlike = bits(a).ravel() != bits(b).ravel()
    # The judge tells the fault of an answer of another shape.
    return numpy.flatnonzero(unlike & numpy.frombuffer(judged, bool) if judged is not None and len(judged) == unlike.size else unlike)


def first_difference(a, b, judged=None):
    """The index of the first element whose bits differ, and its values: ((1, 5, 0, 2), 0.25, 0.5)."""
    dtype, shape, _ = a
    at = int(different(a, b, judged)[0])
    values = [float(doubles((dtype, (-1,), memoryview(x[2]).cast("B")))[at]) for x in (a, b)]
    return numpy.unravel_index(at, shape), *values
