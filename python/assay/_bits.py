"""Tensors that must keep their bits: inputs, a second run, and a sequence of the batch alone."""
from ._arrays import bits, differs, first_difference, same_bytes
from ._cases import facts_of
from ._native import InputError


def changed_inputs(case, ran, inplace):
    """Faults of a kernel that has written into inputs other than those."""
    faults = []
    for name in case.inputs:
        if name in inplace:
            continue
        was, now = case.tensors[name], ran.inputs[name]
        if now[:2] != (was[0], tuple(was[1])):
            faults.append(f"{name}: the kernel has made it {now[0]} {list(now[1])}; it was {was[0]} {list(was[1])}")
        elif not same_bytes(was[2], now[2]):
            index, before, after = first_difference(was, now)
            faults.append(f"{name}: the kernel has overwritten its input: {place(name, index)} is {after:g}, and was {before:g}")
    return faults


def changed_bits(case, first, second):
    """Faults of a kernel that answers other bits when it is run again."""
    when = "when the kernel is run again, with other numbers in memory that it has not written"
    return [f"{fault}; same_bits=False leaves this out" for fault in differences(first, second, case.asked().judged, when)]


def changed_alone(case, answer, run):
    """Faults of a kernel that answers other bits to a sequence of the batch than to that sequence alone; `run` gives its answer."""
    faults = []
    batch = batch_of(case)
    for b in {0: None, batch - 1: None}:
        if batch > 1:
            # A tensor without axes is of all sequences together.
            part = {name: sequence_of(x, b) for name, x in answer.items() if x[1]}
            alone = case._changed({name: sequence_of(x, b) for name, x in case.tensors.items()}, "")
            faults += differences(part, run(alone), {}, f"when sequence {b} is run alone", b)
    return faults


def batch_of(case):
    """How many sequences a case has. Raises InputError for one with tensors that are of all sequences together."""
    own = [field["name"] for field in facts_of(case.mechanism)["inputs"]]
    others = [name for name in case.inputs if name not in own]
    if others or case.layout == "thd":
        what = ", ".join(others) or "packed rows"
        raise InputError(f"batch_alone: expected a case of sequences that each have their own tensors, and this one has {what}")
    return max(shape[0] for _, shape, _ in case.tensors.values() if shape)


def sequence_of(tensor, b):
    """Sequence b of a tensor [B, ...], as [1, ...]; a number is of every sequence."""
    dtype, shape, _ = tensor
    return (dtype, (1, *shape[1:]), bits(tensor)[b].tobytes()) if shape else tensor


def differences(first, second, judged, when, sequence=0):
    """The differences between two answers, a sentence for a tensor; of those for which `judged` has bytes, where they are 1. `sequence` is
    the number of the first."""
    faults = []
    for name, was in first.items():
        now = second.get(name)
        if now is None:
            faults.append(f"{name}: not answered {when}")
        elif was[:2] != now[:2]:
            faults.append(f"{name}: is {now[0]} {list(now[1])} {when}, and was {was[0]} {list(was[1])}")
        elif differs(was, now, judged.get(name)):
            index, before, after = first_difference(was, now, judged.get(name))
            index = (index[0] + sequence, *index[1:]) if index else index
            faults.append(f"{name}: other bits {when}: {place(name, index)} is {after!r}, and was {before!r}")
    return faults


def place(name, index):
    return name + "".join(f"[{i}]" for i in index)
