"""Cases out of live calls."""
import functools
import inspect
import itertools
import pathlib
import threading
import warnings

from . import _native
from ._cases import ANSWER, CASE, Case, facts_of, posed, save
from ._kernels import as_number, copied, named_outputs
from ._native import InputError


def capture(function=None, *, every=1, mechanism=None, adapter=None, rename=None, outputs=None, folder="assay-captured", most=100):
    """Saves what the first and every so many-th call of a function saw and answered, as FOLDER/NAME-CALL/case.safetensors and
    answer.safetensors beside it, at most so many times: `assay check` judges them, and assay.load reads the case.

        @assay.capture(every=1000, adapter=assay.adapters.fla.chunk_kda)
        def chunk_kda(...): ...

    The arguments are those of the adapter's signature, or a mechanism's inputs, which rename={"log_decay": "g"} calls otherwise. The call
    itself is as it was; where nothing can be saved, a warning says why. Gradients are not part of it.
    """
    if (mechanism is None) == (adapter is None):
        raise InputError("capture: expected either mechanism=... or adapter=...")
    if every < 1:
        raise InputError(f"every: expected 1 or more, got {every}")

    def decorate(function):
        calls, saved, turn = itertools.count(), itertools.count(), threading.Lock()
        signature = inspect.signature(function)

        def case_of(args, kwargs):
            bound = dict(signature.bind(*args, **kwargs).arguments)
            case = adapter.posed_by(bound) if adapter is not None else posed_by_names(mechanism, bound, rename or {})
            # The call may overwrite its inputs.
            tensors = {name: (dtype, shape, bytes(memoryview(data).cast("B"))) for name, (dtype, shape, data) in case.tensors.items()}
            return Case(tensors, case.metadata)

        def answer_of(case, result):
            named = adapter.take(result, case) if adapter is not None else named_outputs(case, result, outputs, rename or {})
            return copied({name: x for name, x in named.items() if x is not None})

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with turn:
                call = next(calls)
                wanted = call % every == 0 and next(saved) < most
            if not wanted:
                return function(*args, **kwargs)
            case = attempted(function, lambda: case_of(args, kwargs))
            result = function(*args, **kwargs)
            if case is not None:
                attempted(function, lambda: write(folder, function, call, case, answer_of(case, result)))
            return result

        return wrapped

    return decorate if function is None else decorate(function)


def attempted(function, work):
    try:
        return work()
    except Exception as error:  # of whatever kind: the live call goes on
        warnings.warn(f"assay.capture of {function.__name__}: nothing saved: {error}", RuntimeWarning, stacklevel=3)
        return None


def write(folder, function, call, case, answer):
    into = pathlib.Path(folder, f"{function.__name__}-{call:06d}")
    into.mkdir(parents=True, exist_ok=True)
    save(into / CASE, case.file())
    save(into / ANSWER, (answer, {}))


def posed_by_names(mechanism, bound, rename):
    facts = facts_of(mechanism)
    for name, value in bound.pop("kwargs", {}).items():
        bound.setdefault(name, value)
    arguments = _native.arguments()
    known = [field["name"] for field in facts["inputs"]] + facts["options"]
    taken = {*known, *rename.values()} - set(rename)  # what is another input's name there is no argument
    known += [name for name, part in arguments.items() if part != "cotangents" and name not in taken and rename.get(name, name) in bound]
    given = {ours: bound.get(rename.get(ours, ours)) for ours in known}
    tensors = [field["name"] for field in facts["inputs"] if not field["is_param"]]
    tensors += [name for name, part in arguments.items() if part == "inputs" and name in given and name not in tensors]
    inputs = {name: given[name] for name in tensors if given.get(name) is not None}
    params = {name: as_number(x) for name, x in given.items() if name not in tensors and x is not None}
    if "bandwidth" in given and given["bandwidth"] is None and bound.get("scale") is not None:
        params["scale"] = bound["scale"]
    return posed(mechanism, inputs, params, layout=bound.get("layout", "bthd"))
