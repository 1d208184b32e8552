"""Kernels on other streams and in graphs of CUDA."""
import numpy

from ._arrays import COUNTS, doubles
from ._bits import differences
from ._calls import left_in_place
from ._kernels import NOT_A_NUMBER, copied
from ._native import InputError
from ._reports import PASSES
from ._sequences import PLACES, NotAsked, Sequences, integers


def cuda_of(framework, device):
    """torch, where the kernel runs on a device of CUDA. NotAsked elsewhere."""
    if framework != "torch":
        raise NotAsked(f"needs arrays of torch on a device of CUDA, and these are {framework}'s")
    import torch

    if device is None or not str(device).startswith("cuda") or not torch.cuda.is_available():
        raise NotAsked('needs a device of CUDA: device="cuda"')
    return torch


def side_stream(torch):
    """A stream that begins where the current one is."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return stream


def other_inputs(case):
    """Other inputs to capture a graph with: zeros for numbers, and the sequences in the other order where arguments say where they lie."""
    tensors = dict(case.tensors)
    places = [name for name in case.inputs if name.startswith(PLACES)]
    if places:
        try:
            turned = Sequences(case).posed(Sequences(case).all()[::-1]).tensors
            pages = case.tensors["k"][1][0] if "page_table" in places else None
            if all(name in turned and turned[name][:2] == (tensors[name][0], tuple(tensors[name][1])) for name in places):
                if pages is None or integers(turned["page_table"]).max() < pages:
                    tensors |= {name: turned[name] for name in places}
        except NotAsked:  # then they stay
            pass
    return case._changed(tensors, "").zeroed(*(name for name in case.inputs if tensors[name][0] not in COUNTS))


def replay(torch, calls, case, times=1):
    """The answers of replays of one graph to a case. It is captured with other inputs; before each replay outputs are filled with NaN, and the
    case's inputs are written in place."""
    first = other_inputs(case)
    given = {name: first.array(name, "torch", calls.device) for name in case.inputs}
    call = calls.call(case, {name: calls.blank(case, name, "torch", NOT_A_NUMBER) for name in calls.out})
    stream, left, answers = side_stream(torch), left_in_place(case, calls.inplace), []
    with torch.no_grad():
        with torch.cuda.stream(stream):
            call(given)  # compiles, chooses, allocates
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            outputs = call(given)
        for _ in range(times):
            torch.cuda.synchronize()
            for x in outputs.values():
                x.fill_(float("nan"))
            for name, x in given.items():
                x.copy_(case.array(name, "torch", calls.device))
            graph.replay()
            torch.cuda.synchronize()
            answers.append(copied({**{output: given[name] for name, output in left.items()}, **outputs}))
    return answers


def changed_replayed(case, calls, framework, judged, same_bits):
    """Faults of a kernel that is wrong in a graph of CUDA; `judged` makes the report on an answer."""
    try:
        torch = cuda_of(framework, calls.device)
    except NotAsked as why:
        raise InputError(f"graph: {why}") from None
    try:
        first, second = replay(torch, calls, case, times=2)
    except RuntimeError as error:  # of CUDA, which says so where a launch may not be captured
        return [f"cannot be captured as a graph of CUDA: {str(error).splitlines()[0]}"]
    faults = []
    for row in judged(first).rows:
        name = row["tensor"]
        if row["verdict"] not in PASSES:
            written = numpy.isfinite(doubles(first[name])).any()
            said = row["reason"] if written else "nothing is written, so its launches have escaped the capture"
            faults.append(f"{name}: wrong when its graph is replayed with other inputs than it was captured with: {said}")
    return faults + (differences(first, second, case.asked().judged, "when its graph is replayed again") if same_bits else [])
