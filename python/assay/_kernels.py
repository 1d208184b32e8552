"""Calling somebody's kernel: its arguments, its outputs and its gradients, in torch, NumPy and JAX."""
import inspect
import math

import numpy

from . import _programs
from ._arrays import stored
from ._cases import _near
from ._native import InputError

# Arguments of published kernels without which they do not answer what a case asks for.
SWITCHES = {"output_final_state": "final_state"}
# Other names of the scale.
SCALES = ("scale", "softmax_scale", "sm_scale")


class Signature:
    """The names that a function takes; all of them where nobody can say."""

    def __init__(self, function):
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            parameters = ()
            self.any = True
        else:
            self.any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.names, self.demanded = [p.name for p in named], [p.name for p in named if p.default is p.empty]

    def takes(self, name):
        return self.any or name in self.names

    def names_one(self, name):
        return name in self.names


class OtherArrays(InputError):
    """A kernel's result is not of the framework whose arrays it was given."""


def arguments(case, kernel, rename, written=()):
    """Which of the case's tensors the kernel is given, and which outputs it writes into arrays of its own, by its names, and the
    settings: ({theirs: ours}, {theirs: value})."""
    signature = Signature(kernel)
    defaults = _programs.defaults(case)
    for ours in rename:
        if ours not in case and ours not in case.params and ours not in written and ours not in defaults:
            raise InputError(f"rename: the case has no {ours}{_near(ours, list(case))}; it has {', '.join([*case.inputs, *case.params])}")
    tensors, settings = {}, {}
    for ours in [*case.inputs, *written]:
        theirs = rename.get(ours, ours)
        if not signature.takes(theirs):
            taken = ", ".join(signature.names)
            leaves = "without out= the kernel returns it" if ours in written else f"case.without({ours!r}) leaves it out"
            raise InputError(
                f"{ours}: the kernel takes no argument {theirs}; it takes {taken}. rename={{{ours!r}: NAME}} gives the kernel's name"
                f" for it, {leaves}"
            )
        tensors[theirs] = ours
    for ours in case.asked().outputs:
        if rename.get(ours, ours) in signature.demanded and ours not in written and ours not in case:
            raise InputError(f"{ours}: the kernel demands it as an argument, and it is an output; out=({ours!r},) gives the kernel an array to write it into")
    for ours, value in case.params.items():
        put_setting(case, signature, rename, settings, ours, value)
    for ours, value in defaults.items():
        if signature.takes(rename.get(ours, ours)):
            settings[rename.get(ours, ours)] = value
    outputs = case.asked().outputs
    for switch, output in SWITCHES.items():
        if signature.names_one(switch) and output in outputs:
            settings[switch] = True
    return tensors, settings


def put_setting(case, signature, rename, settings, ours, value):
    number = as_number(value)
    if ours in rename:
        if rename[ours] is not None:
            settings[rename[ours]] = number
        return
    # A kernel that takes any argument is given the scale, as kernels of attention are.
    if signature.names_one(ours) or (signature.any and not is_scale(ours)):
        settings[ours] = number
        return
    scale = (1 / number if ours == "bandwidth" else number) if is_scale(ours) else None
    name = next((s for s in SCALES if signature.names_one(s)), "scale" if signature.any else None)
    if scale is not None and name is not None:
        settings[name] = scale
    elif scale is None or not math.isclose(scale, key_dim(case) ** -0.5, rel_tol=2**-20):
        raise InputError(
            f"{ours}={value}: the kernel takes no argument {ours}; it takes {', '.join(signature.names)}. rename={{{ours!r}: NAME}} gives the"
            f" kernel's name for it, rename={{{ours!r}: None}} says that the kernel hard-codes it"
        )


def is_scale(name):
    return name in ("scale", "bandwidth")


def key_dim(case):
    return case.tensors["q"][1][-1] if "q" in case else 0


def as_number(value):
    """A decimal as a float; names stay words."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def named_outputs(case, result, names, rename, written=()):
    """The outputs that a kernel returned, by our names; those that it has written into arrays of its own are not among them."""
    if isinstance(result, dict):
        ours = {theirs: own for own, theirs in rename.items()}
        found = {ours.get(name, name): x for name, x in result.items() if x is not None}
        return {name: x for name, x in found.items() if names is None or name in names or name.startswith("d_")}
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    if names is None and len(values) > 1 and _programs.is_data(case):
        raise InputError(
            f"the kernel returned {len(values)} values, and a program in JSON names its outputs in no order: return a dict, or say"
            f" outputs=(...) of {', '.join(case.asked().outputs)}"
        )
    names = [name for name in names or case.asked().outputs if name not in written]
    if len(values) > len(names):
        raise InputError(
            f"the kernel returned {len(values)} values, and {case.mechanism} answers {', '.join(names)}; outputs=(...) names them, None"
            " those that are none of it"
        )
    return {name: x for name, x in zip(names, values) if name is not None and x is not None}


def copied(answer, *, counts=False):
    """Arrays as (dtype, shape, bytes) of their own: kernels may use their buffers again."""
    found = {}
    for name, x in answer.items():
        dtype, shape, data = stored(x, name, counts=counts)
        found[name] = (dtype, shape, bytes(memoryview(data).cast("B")) if data.size else b"")
    return found


class Ran:
    """A kernel's run: its answer, whether its inputs are still what they were, and which outputs took their cotangents."""

    def __init__(self, answer, inputs, cotangents):
        self.answer, self.inputs, self.cotangents = answer, inputs, cotangents


def require_shape(name, expected, got):
    if tuple(expected) == tuple(got):
        return
    hint = ""
    if len(expected) == len(got) > 2 and (*got[:1], got[2], got[1], *got[3:]) == tuple(expected):
        hint = "; that is [B, H, T, ...]: transpose axes 1 and 2"
    raise InputError(f"{name}: expected shape {list(expected)}, got {list(got)}{hint}")


def run_torch(case, call, device, gradients):
    """`call` gets {our name: leaf} and gives {our name: output}."""
    import torch

    leaves = {name: case.array(name, "torch", device) for name in case.inputs}
    differentiable = case.asked().differentiable
    wants = gradients is not False and bool(case.cotangents)
    for name, leaf in leaves.items():
        leaf.requires_grad_(wants and name in differentiable and leaf.is_floating_point())
    with torch.enable_grad():
        outputs = call(leaves)
    for name, x in outputs.items():
        if not isinstance(x, torch.Tensor):
            raise OtherArrays(f"{name}: expected a tensor of torch, got {type(x).__name__}")
    took = [name for name in outputs if wants and "d_" + name in case and outputs[name].requires_grad]
    cotangents = [cotangent_for(case, name, outputs[name]) for name in took]
    if took:
        torch.autograd.backward([outputs[name] for name in took], cotangents)
    grads = {"d_" + name: leaf.grad for name, leaf in leaves.items() if took and leaf.grad is not None}
    return Ran(copied({**outputs, **grads}), copied(leaves, counts=True), took)


def cotangent_for(case, name, output):
    """d_NAME in the output's dtype, which must hold it."""
    import torch

    given = case.array("d_" + name, "torch", output.device)
    require_shape(name, given.shape, output.shape)
    cast = given.to(output.dtype)
    differs = cast.to(torch.float64) != given.to(torch.float64)
    if bool((differs & ~given.isnan()).any()):  # rows outside of every sequence are NaN
        ours, theirs = (str(dtype).removeprefix("torch.") for dtype in (given.dtype, output.dtype))
        raise InputError(f"d_{name}: is {ours}, which the kernel's {theirs} output cannot hold; make the case in {theirs}")
    return cast


def run_numpy(case, call, kernel_takes):
    """Gradients are what the kernel returns as d_q, ...; it gets the cotangents that it takes."""
    given = {name: case.array(name, "numpy") for name in case if name in case.inputs or kernel_takes(name)}
    outputs = call(given)
    explicit = any(name.startswith("d_") for name in outputs)
    took = [name[2:] for name in case.cotangents] if explicit else []
    return Ran(copied(outputs), copied({name: given[name] for name in case.inputs}, counts=True), took)


def run_jax(case, call, gradients):
    import jax

    given = {name: case.array(name, "jax") for name in case.inputs}
    wants = gradients is not False and bool(case.cotangents)
    differentiable = case.asked().differentiable
    leaves = {name: x for name, x in given.items() if name in differentiable}
    if not wants:
        return Ran(copied(call(given)), copied(given, counts=True), [])
    outputs, back = jax.vjp(lambda moving: call({**given, **moving}), leaves)
    took = [name for name in outputs if "d_" + name in case]
    cotangents = {}
    for name, x in outputs.items():
        cotangent = case.array("d_" + name, "jax") if name in took else jax.numpy.zeros_like(x)
        require_shape(name, cotangent.shape, x.shape)
        cotangents[name] = cotangent.astype(x.dtype)
    (grads,) = back(cotangents)
    return Ran(copied({**outputs, **{"d_" + name: g for name, g in grads.items()}}), copied(given, counts=True), took)


# As bytes: NaN in every format, and an ordinary number in every format.
NOT_A_NUMBER, A_NUMBER = 0xFF, 0x3F


def twice(sizes, bound):
    """Each size twice, the smallest first, as far as all fit."""
    found = []
    for size in sorted(sizes):
        found += [size, size] if sum(found) + 2 * size <= bound else []
    return found


def poison(framework, device, case, byte):
    """Fills memory that the kernel is likely to get next: blocks as large as the case's tensors, written and given back."""
    counts = {math.prod(shape) for _, shape, _ in case.tensors.values()}
    sizes = twice({max(1, n * width) for n in counts for width in (1, 2, 4, 8)}, 1 << 30)
    if framework == "torch":
        import torch

        blocks = [torch.full((size,), byte, dtype=torch.uint8, device=device) for size in sizes]
    else:
        blocks = [numpy.full(size, byte, numpy.uint8) for size in sizes]
    blocks.clear()
