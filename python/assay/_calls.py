"""The calls of a kernel that `assay.check` makes."""
import math

from . import _native
from ._arrays import PRECISIONS, SIZES, array, precision_named
from ._cases import Case, errors_in_python
from ._frameworks import FRAMEWORKS, frameworks_for
from ._kernels import NOT_A_NUMBER, OtherArrays, Signature, arguments, named_outputs, poison, run_jax, run_numpy, run_torch
from ._native import InputError


def frameworks_of(case, kernel, arrays, device):
    """The frameworks whose arrays the kernel is given: those asked for, or the likeliest first."""
    if not isinstance(case, Case):
        raise InputError(f"case: expected what assay.case makes, got {type(case).__name__}")
    asked = arrays or case.arrays or ("torch" if device is not None else None)
    if asked is not None and asked not in FRAMEWORKS:
        raise InputError(f"arrays: there are no arrays of {asked}; there are {', '.join(FRAMEWORKS)}")
    if asked is not None:
        return [asked]
    return frameworks_for(kernel.resolved() if hasattr(kernel, "call_ours") else kernel)  # of an adapter, what is behind it


def first_run(run, frameworks):
    """The kernel's result on the first arrays that it takes, and their framework. Where it takes none, the exception raised with the
    likeliest has a note that says whose they were."""
    errors = []
    for framework in frameworks:
        try:
            return run(framework), framework
        except Exception as error:
            if isinstance(error, InputError) and not isinstance(error, OtherArrays):
                raise
            errors.append(error)
    others = ", ".join(f"arrays={name!r}" for name in frameworks[1:])
    what = f"{others} did no better" if others else "arrays=NAME asks for others"
    errors[0].add_note(f"assay: the kernel was called with arrays of {frameworks[0]}; {what}")
    raise errors[0]


class Calls:
    """A kernel and how it is called: what it calls its arguments, what it writes where, what it returns."""

    def __init__(self, kernel, device, rename, outputs, out, inplace, gradients, poisons):
        self.kernel, self.device, self.gradients, self.poisons = kernel, device, gradients, poisons
        self.rename, self.outputs = dict(rename or {}), outputs
        self.out = dtypes_of(out)
        self.inplace = [inplace] if isinstance(inplace, str) else list(inplace)

    def run(self, case, framework, byte=NOT_A_NUMBER):
        """The kernel's run on a case, as a Ran; `byte` fills the memory that it may get."""
        left = left_in_place(case, self.inplace)
        if self.poisons:
            poison(framework, self.device, case, byte)
        call = self.call(case, {name: self.blank(case, name, framework, byte) for name in self.out})
        try:
            if framework == "torch":
                ran = run_torch(case, call, self.device, self.gradients)
            elif framework == "jax":
                ran = run_jax(case, call, self.gradients)
            else:
                ran = run_numpy(case, call, lambda name: name.startswith("d_") and Signature(self.kernel).names_one(name))
        except SystemExit as end:  # it would end whoever asks, with its code
            raise InputError(f"the kernel ends the process: sys.exit({end.code!r})") from None
        ran.answer = {**{output: ran.inputs[name] for name, output in left.items()}, **ran.answer}
        if self.gradients is False:
            ran.answer = {name: x for name, x in ran.answer.items() if not name.startswith("d_")}
        return ran

    def call(self, case, written):
        """The kernel as a function of {our name: array} that gives {our name: array}."""
        if hasattr(self.kernel, "call_ours"):  # an adapter
            return lambda given: self.kernel.call_ours(given, case)
        tensors, settings = arguments(case, self.kernel, self.rename, written)

        def call(given):
            kwargs = {theirs: given[ours] for theirs, ours in tensors.items() if ours in given}
            kwargs.update({theirs: written[ours] for theirs, ours in tensors.items() if ours in written})
            kwargs.update({name: x for name, x in given.items() if name.startswith("d_")})
            result = without(self.kernel(**kwargs, **settings), written)
            return {**named_outputs(case, result, self.outputs, self.rename, written), **written}

        return call

    def blank(self, case, name, framework, byte):
        """An array for an output that the kernel writes itself, full of that byte."""
        if framework == "jax":
            raise InputError(f"out: {name}: nobody writes into arrays of JAX; the kernel may return it")
        if name not in case.asked().outputs:
            raise InputError(f"out: {name}: {case.mechanism} answers {', '.join(case.asked().outputs)}")
        dtype, shape = self.out[name] or stored_as(case, name), shape_of(case, name)
        return array((dtype, shape, bytes([byte]) * SIZES[dtype] * math.prod(shape)), framework, self.device if framework == "torch" else None, name)


def dtypes_of(out):
    """{output: what it is stored in, or None where nobody says} of "o", ("o", "lse") or {"o": "fp32"}."""
    named = out if isinstance(out, dict) else dict.fromkeys([out] if isinstance(out, str) else out)
    return {name: PRECISIONS[precision_named(dtype)] if dtype is not None else None for name, dtype in named.items()}


def stored_as(case, name):
    """In what an output is stored where nobody says: o as v is, a final state as the initial one, others in fp32, or fp64."""
    like = "v" if name == "o" else name.replace("final_", "initial_", 1)
    if like in case.inputs:
        return case.tensors[like][0]
    return "F64" if case.metadata.get("precision") == "fp64" else "F32"


def shape_of(case, name):
    """The shape of an output, in the case's layout: that of its cotangent, or of what the oracle says in doubles."""
    if "d_" + name in case:
        return tuple(case.tensors["d_" + name][1])
    with errors_in_python():
        file, _ = _native.oracle(case.forward().file(), "double", 0, None)
    return tuple(file[name][1])


def without(result, written):
    """The results of a kernel, less the arrays that it was given to write into: these are answered anyway."""
    if not written or isinstance(result, dict):
        return result
    values = list(result) if isinstance(result, (tuple, list)) else [result]
    return [x for x in values if x is not None and not any(x is one for one in written.values())]


def left_in_place(case, names):
    """{input that may be overwritten: the output that stands there afterwards}."""
    left = {}
    for name in names:
        output = name.replace("initial_", "final_", 1)
        if name not in case.inputs or output not in case.asked().outputs or output == name:
            states = ", ".join(x for x in case.inputs if x.startswith("initial_")) or "none"
            raise InputError(f"inplace: {name}: expected an initial state that the case has: {states}")
        left[name] = output
    return left
