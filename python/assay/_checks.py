"""Judging what a kernel answers: from its arrays, or by calling it."""
import inspect

from . import _native, _reports
from ._bits import changed_alone, changed_bits, changed_inputs
from ._calls import Calls, first_run, frameworks_of
from ._cases import ANSWER, CASE, Case, _near, errors_in_python, posed
from ._graphs import changed_replayed
from ._kernels import A_NUMBER, Ran, copied
from ._native import InputError
from ._progress import shown
from ._reports import Report
from ._truth import words


class Mismatch(AssertionError):
    """A kernel, a choice or a candidate that does not pass; `report` has all of it."""

    __module__ = "assay"

    def __init__(self, report):
        super().__init__(report.explanation())
        self.report = report

    def __reduce__(self):  # to another process goes what it says
        return AssertionError, self.args


def judge(case, answer, contract=None, *, form=None, precision=None, tile=None, tensors=None, false_alarms=None, strict=False,
          strict_dtypes=False, quick=False, why=False, threads=0, cache=True, sample=0, sample_rows=0, sample_seed=None, judge="auto", progress=None, notes=(),
          faults=()):  # fmt: skip
    """The Report on an answer, {"o": array, "final_state": array, "d_q": array, ...}, to a case. Nothing is raised that is not an
    error of use.

    contract ("bf16", "fla", a JSON file), form, precision, tile, tensors, false_alarms, strict, strict_dtypes, quick and why are what
    they are to `assay check` (docs/check.md), and so are sample, sample_rows, sample_seed and judge; why may be the seconds that it takes.
    progress(what, done, total) hears how far it is.
    """
    if not isinstance(case, Case):
        raise InputError(f"case: expected what assay.case makes, got {type(case).__name__}")
    stored = {name: x if isinstance(x, tuple) else copied({name: x})[name] for name, x in answer.items() if x is not None}
    asked = words({"contract": contract, "form": form, "precision": precision, "tile": tile, "case": CASE, "answer": ANSWER})
    flags = {"strict": strict, "strict_dtypes": strict_dtypes, "quick": quick}
    asked |= {name: "" for name, is_asked in flags.items() if is_asked}
    rate = _native.default_false_alarms if false_alarms is None else false_alarms
    seconds = None if why is False else 10.0 if why is True else float(why)
    wanted = [tensors] if isinstance(tensors, str) else list(tensors or [])
    sampling = (sample, sample_rows, sample_seed)
    with errors_in_python(), shown(progress) as hears:
        verdicts = _native.judge(
            case.file(), (stored, {}), asked, wanted, rate, threads, cache, seconds, sampling, judge, hears
        )
    return Report(case, stored, verdicts, notes, faults)


# As other libraries call them.
TOLERANCES = ("rtol", "atol", "tol", "tolerance", "eps")


def refuse_words(how):
    """Raises InputError for what judge does not take, before the kernel runs."""
    known = list(inspect.signature(judge).parameters)
    for name in how:
        if name in TOLERANCES:
            raise InputError(f"{name}: there is no tolerance to set; limits come from the precision and the data, and false_alarms says how often a correct kernel may fail")
        if name not in known:
            raise InputError(f"{name}: nothing is called so here{_near(name, known)}; help(assay.judge) says what there is")


def passed(report, raises):
    """The report, unless it raises it."""
    __tracebackhide__ = True  # of pytest: what is wrong is not here
    if _reports.hears:
        _reports.hears(report)
    if report.passed or not raises:
        return report
    report.save_failure()
    raise Mismatch(report)


def assert_close(mechanism, inputs, outputs, contract=None, *, params=None, cotangents=None, precision=None, layout="bthd",
                 raises=True, **how):  # fmt: skip
    """Judges one's own tensors: inputs {"q": ..., "k": ...} of a mechanism, outputs {"o": ..., "d_q": ...} of a kernel.

    Raises Mismatch, an AssertionError, unless every tensor is PASS. Cotangents, {"o": ...} or {"d_o": ...}, are needed where outputs has
    gradients. params are the mechanism's settings, precision the one that counts where the dtype of q does not say. Arguments of real
    kernels (docs/arguments.md) are among inputs and params; layout is that of their rows.
    """
    __tracebackhide__ = True
    refuse_words(how)
    case = mechanism if isinstance(mechanism, Case) else posed(mechanism, inputs, params, precision, cotangents, layout)
    outputs = {name: x for name, x in outputs.items() if x is not None}
    if not case.cotangents and any(name.startswith("d_") for name in outputs):
        raise InputError(f"cotangents: expected, for outputs has {next(name for name in outputs if name.startswith('d_'))}")
    refuse_unknown(case, outputs)
    how.setdefault("tensors", tensors_of(case, outputs))
    return passed(judge(case, outputs, contract, **how), raises)


def owed(case):
    """The gradients that are demanded where a case has cotangents: those of its inputs."""
    asked = case.asked()
    return ["d_" + name for name in case.inputs if case.cotangents and name in asked.differentiable and "d_" + name not in asked.optional]


def tensors_of(case, answer):
    """The tensors to judge of an answer: none, which is all, or the names of those that it has and owes."""
    asked = case.asked()
    outputs = [name for name in asked.outputs if name in answer]
    if all(name in answer or name in asked.optional for name in asked.outputs):
        return []
    if not outputs and not any(name.startswith("d_") for name in answer):
        raise InputError(f"the kernel answered none of {', '.join(asked.outputs)}")
    return [*outputs, *sorted({*owed(case), *(name for name in answer if name.startswith("d_"))})]


def refuse_unknown(case, answer):
    facts = case.facts()
    known = [*case.asked().outputs, *("d_" + field["name"] for field in facts["inputs"] if case.cotangents)]
    for name in answer:
        if name not in known:
            why = ", for it has no cotangents" if name.startswith("d_") and not case.cotangents else _near(name, known)
            raise InputError(f"{name}: the case does not ask for it{why}; {case.mechanism} answers {', '.join([*case.asked().outputs, *owed(case)])}")


def check(case, kernel, contract=None, *, rename=None, outputs=None, out=(), inplace=(), gradients=None, same_bits=True,
          batch_alone=False, graph=False, ranks=None, poisons=True, arrays=None, device=None, raises=True, **how):  # fmt: skip
    """Calls a kernel on a case and judges what it answers. Gives the Report; raises Mismatch, an AssertionError, unless all is PASS.

    The kernel gets the case's tensors by name (rename={"log_decay": "g"} says what else they are called), the settings that it takes, and
    returns o, or o and the mechanism's other outputs in their order, or a dict; outputs=("o", None, "lse") says otherwise, and that it
    answers these alone. out=("o",) names outputs that are arguments: arrays full of NaN that it writes into. inplace=("initial_state",)
    names inputs that it may overwrite: what it leaves there is final_state, unless it returns that as well. Tensors are torch's and
    require gradients, and the case's cotangents are propagated back; with arrays="numpy" the kernel names d_o, ... among its arguments
    and returns d_q, ... in a dict. A case with cotangents demands the gradient of every input that has one; gradients=False judges
    outputs alone. Without arrays= and device= it gets arrays of the framework that its code names.

    Before each call, memory that the kernel may get is filled with NaN, then with other numbers (poisons=False leaves that out). Inputs
    must be what they were, and a second call must give the same bits (same_bits=False leaves that out: sums by atomics do not).
    batch_alone=True demands that the first and the last sequence of the batch have the same bits when they are run alone. graph=True captures
    the call as a graph of CUDA, on a side stream and with other inputs, fills outputs with NaN, writes the case's inputs in place, replays it
    and judges what that answers, gradients left out.
    ranks="contiguous" or "zigzag" is called on every rank of torch.distributed: each kernel gets its tokens, and rank 0 judges what all answer
    and names the ranks that are wrong. Elsewhere the result is None, and what rank 0 raises is raised there, too.
    The rest is what assay.judge takes: form, tile, tensors, why, ....
    """
    __tracebackhide__ = True
    if not callable(kernel):
        raise InputError(f"kernel: expected a function, got {type(kernel).__name__}")
    refuse_words(how)
    device = device or getattr(case, "device", None)
    frameworks = frameworks_of(case, kernel, arrays, device)
    if not getattr(kernel, "has_backward", True):
        gradients = False
    calls = Calls(kernel, device, rename, outputs, out, inplace, gradients, poisons)
    if ranks is not None:
        from ._ranks import together

        if graph or batch_alone:
            raise InputError("ranks: neither a graph nor a sequence alone is asked of several ranks")
        return together(case, ranks, calls, same_bits, lambda ran, faults: verdict_on(case, ran, faults, kernel, calls, contract, gradients, how), raises)
    ran, framework = first_run(lambda kind: calls.run(case, kind), frameworks)
    faults = changed_inputs(case, ran, calls.inplace)
    if same_bits:
        faults += changed_bits(case, ran.answer, calls.run(case, framework, A_NUMBER).answer)
    if batch_alone:
        faults += changed_alone(case, ran.answer, lambda part: calls.run(part, framework).answer)
    replayed = (lambda judged: replayed_faults(judged, calls, framework, contract, same_bits, how)) if graph else None
    return passed(verdict_on(case, ran, faults, kernel, calls, contract, gradients, how, replayed), raises)


def verdict_on(case, ran, faults, kernel, calls, contract, gradients, how, replayed=None):
    """The report on what a kernel has done with a case; `replayed` gives the faults of a graph's replays."""
    judged, notes = case, []
    if gradients is False and case.cotangents:
        notes.append(f"NOT JUDGED: {', '.join(owed(case))} (gradients=False)")
        judged = case.forward()
    wanted = [how["tensors"]] if isinstance(how.get("tensors"), str) else how.get("tensors")
    left_out = [] if calls.outputs is None else [name for name in case.asked().outputs if name not in (*calls.outputs, *calls.out)]
    refuse_unknown(judged, ran.answer)
    require_outputs(judged, ran, wanted, left_out)
    if judged.cotangents:
        dropped = [name for name in judged.cotangents if name[2:] in left_out]
        judged = judged.without(*dropped) if dropped else judged
        judged = took_part(judged, ran, getattr(kernel, "ignored_cotangents", ()), notes)
        require_gradients(judged, ran, wanted)
    elif gradients:
        raise InputError("gradients: demanded, and the case has no cotangents")
    judged.origin = case.origin
    how.setdefault("tensors", tensors_of(judged, ran.answer))
    if replayed:
        faults += replayed(judged)
        notes += ["NOT REPLAYED: gradients"] if judged.cotangents else []
    return judge(judged, ran.answer, contract, notes=notes, faults=faults, **how)


def replayed_faults(case, calls, framework, contract, same_bits, how):
    """Faults of a graph's replays, which have outputs alone."""
    case = case.forward()

    def judged(answer):
        return judge(case, answer, contract, **{**how, "tensors": tensors_of(case, answer), "quick": True, "why": False})

    return changed_replayed(case, calls, framework, judged, same_bits)


def require_outputs(case, ran, wanted, left_out):
    asked = case.asked()
    for name in asked.outputs:
        if name in ran.answer or name in asked.optional or name in left_out or (wanted and name not in wanted):
            continue
        there = tuple(other for other in asked.outputs if other in ran.answer)
        state = name.replace("final_", "initial_", 1)
        left = f"; inplace=({state!r},) if it leaves it there" if any(fault.startswith(f"{state}: ") for fault in changed_inputs(case, ran, ())) else ""
        raise InputError(f"{name}: the case asks for it, and the kernel does not answer it{left}; outputs={there} judges what it answers alone")


def require_gradients(case, ran, wanted):
    for name in owed(case):
        if name in ran.answer or (wanted and name not in wanted):
            continue
        raise InputError(
            f"{name}: the case has cotangents, and the kernel gives {name[2:]} no gradient"
            f"{'' if ran.cotangents else ' (none of its outputs has one)'}; gradients=False judges outputs alone"
        )


def took_part(case, ran: Ran, ignored, notes):
    """The case without cotangents that the kernel is known to ignore. Raises InputError for others that reach no output of it."""
    lost = [name for name in case.cotangents if ran.cotangents and name[2:] in ran.answer and name[2:] not in ran.cotangents]
    lost = [name for name in lost if any(bytes(case.tensors[name][2]))]
    for name in lost:
        if name[2:] not in ignored:
            raise InputError(
                f"{name[2:]}: requires no gradient, and the case has its cotangent; case.zeroed({name!r}) says that nobody uses it,"
                " gradients=False judges outputs alone"
            )
    if not lost:
        return case
    notes.append(f"{', '.join(name[2:] for name in lost)}: requires no gradient, so {', '.join(lost)} counts as 0")
    return case.zeroed(*lost)
