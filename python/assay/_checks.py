"""Judging what a kernel answers: from its arrays, or by calling it."""
import sys

from . import _native, _reports
from ._arrays import FRAMEWORKS, differs, first_difference, same_bytes
from ._cases import ANSWER, CASE, Case, errors_in_python, posed
from ._kernels import A_NUMBER, NOT_A_NUMBER, Ran, Signature, arguments, copied, named_outputs, poison, run_jax, run_numpy, run_torch
from ._native import InputError
from ._progress import shown
from ._reports import Report
from ._truth import words


class Mismatch(AssertionError):
    """A kernel that does not pass; `report` has all of it."""

    __module__ = "assay"

    def __init__(self, report):
        super().__init__(report.explanation())
        self.report = report

    def __reduce__(self):  # to another process goes what it says
        return AssertionError, self.args


def judge(case, answer, contract=None, *, form=None, precision=None, tile=None, tensors=None, false_alarms=None, strict_dtypes=False,
          why=False, threads=0, cache=True, sample=0, sample_rows=0, sample_seed=None, judge="auto", progress=None, notes=(),
          faults=()):  # fmt: skip
    """The Report on an answer, {"o": array, "final_state": array, "d_q": array, ...}, to a case. Nothing is raised that is not an
    error of use.

    contract ("bf16", "fla", a JSON file), form, precision, tile, tensors, false_alarms, strict_dtypes and why are what they are to
    `assay check` (docs/check.md), and so are sample, sample_rows, sample_seed and judge; why may be the seconds that it takes.
    progress(what, done, total) hears how far it is.
    """
    if not isinstance(case, Case):
        raise InputError(f"case: expected what assay.case makes, got {type(case).__name__}")
    stored = {name: x if isinstance(x, tuple) else copied({name: x})[name] for name, x in answer.items() if x is not None}
    asked = words({"contract": contract, "form": form, "precision": precision, "tile": tile, "case": CASE, "answer": ANSWER})
    rate = _native.default_false_alarms if false_alarms is None else false_alarms
    seconds = None if why is False else 10.0 if why is True else float(why)
    wanted = [tensors] if isinstance(tensors, str) else list(tensors or [])
    sampling = (sample, sample_rows, sample_seed)
    with errors_in_python(), shown(progress) as hears:
        verdicts = _native.judge(
            case.file(), (stored, {}), asked, wanted, rate, strict_dtypes, threads, cache, seconds, sampling, judge, hears
        )
    return Report(case, stored, verdicts, notes, faults)


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
    case = mechanism if isinstance(mechanism, Case) else posed(mechanism, inputs, params, precision, cotangents, layout)
    outputs = {name: x for name, x in outputs.items() if x is not None}
    notes = []
    if not case.cotangents and any(name.startswith("d_") for name in outputs):
        raise InputError(f"cotangents: expected, for outputs has {next(name for name in outputs if name.startswith('d_'))}")
    if "tensors" not in how:
        how["tensors"], case = answered(case, outputs, notes)
    return passed(judge(case, outputs, contract, notes=notes, **how), raises)


def answered(case, answer, notes):
    """The tensors to judge, and the case without cotangents of outputs that the kernel does not have."""
    asked = case.asked()
    there = [name for name in asked.outputs if name in answer]
    if not there and not any(name.startswith("d_") for name in answer):
        raise InputError(f"the kernel answered none of {', '.join(asked.outputs)}")
    gradients = any(name.startswith("d_") for name in answer)
    dropped = [name for name in case.cotangents if not gradients or name[2:] not in answer]
    if gradients and dropped:
        notes.append(f"{', '.join(dropped)}: not part of the problem, for the kernel does not answer {', '.join(n[2:] for n in dropped)}")
    elif dropped:
        notes.append("no gradients: the kernel has none, and they are not judged")
    kept = case.without(*dropped) if dropped else case
    kept.origin = case.origin
    missing = [name for name in asked.outputs if name not in answer and name not in asked.optional]
    # Some outputs appear only with settings; those that do have cotangents, if any has.
    silent = [name for name in missing if case.cotangents and "d_" + name not in case]
    if len(silent) < len(missing):
        notes.append(f"{', '.join(name for name in missing if name not in silent)}: not answered, and not judged")
    if not missing:
        return [], kept
    must = {"d_" + name for name in asked.differentiable if name in case} - asked.optional
    return there + (sorted({*must, *(n for n in answer if n.startswith("d_"))}) if gradients else []), kept


def check(case, kernel, contract=None, *, rename=None, outputs=None, gradients=None, same_bits=True, poisons=True, arrays=None,
          device=None, raises=True, **how):  # fmt: skip
    """Calls a kernel on a case and judges what it answers. Gives the Report; raises Mismatch, an AssertionError, unless all is PASS.

    The kernel gets the case's tensors by name (rename={"log_decay": "g"} says what else they are called), the settings that it takes, and
    returns o, or o and the mechanism's other outputs in their order (outputs=("o", "lse") names others), or a dict. Tensors are torch's
    and require gradients, and the case's cotangents are propagated back; with arrays="numpy" the kernel names d_o, ... among its
    arguments and returns d_q, ... in a dict, if it has gradients. gradients=False judges none, True demands them.

    Before each call, memory that the kernel may get is filled with NaN, then with other numbers (poisons=False leaves that out). Inputs
    must be what they were, and a second call must give the same bits (same_bits=False leaves that out: sums by atomics do not).
    The rest is what assay.judge takes: form, tile, tensors, why, ....
    """
    __tracebackhide__ = True
    if not callable(kernel):
        raise InputError(f"kernel: expected a function, got {type(kernel).__name__}")
    framework = framework_for(case, arrays, device)
    device = device or case.device
    if not getattr(kernel, "has_backward", True):
        gradients = False
    rename = dict(rename or {})
    notes, faults = [], []
    call = called(case, kernel, rename, outputs, framework)

    def run(byte):
        if poisons:
            poison(framework, device, case, byte)
        if framework == "torch":
            return run_torch(case, call, device, gradients)
        if framework == "jax":
            return run_jax(case, call, gradients)
        return run_numpy(case, call, lambda name: takes_cotangent(kernel, name))

    ran = run(NOT_A_NUMBER)
    faults += changed_inputs(case, ran)
    if gradients and not ran.cotangents:
        raise InputError("gradients: demanded, but what the kernel returns does not require them")
    if ran.cotangents and framework != "numpy":
        require_gradients(case, ran)
    if gradients is False:
        ran.answer = {name: x for name, x in ran.answer.items() if not name.startswith("d_")}
    if same_bits:
        faults += changed_bits(case, ran.answer, run(A_NUMBER).answer)
    judged = took_part(case, ran, notes)
    if "tensors" not in how:
        how["tensors"], judged = answered(judged, ran.answer, notes)
    return passed(judge(judged, ran.answer, contract, notes=notes, faults=faults, **how), raises)


def framework_for(case, arrays, device):
    if not isinstance(case, Case):
        raise InputError(f"case: expected what assay.case makes, got {type(case).__name__}")
    framework = arrays or case.arrays or ("torch" if device is not None or "torch" in sys.modules else "numpy")
    if framework not in FRAMEWORKS:
        raise InputError(f"arrays: there are no arrays of {framework}; there are {', '.join(FRAMEWORKS)}")
    return framework


def called(case, kernel, rename, outputs, framework):
    """The kernel as a function of {our name: array} that gives {our name: array}."""
    if hasattr(kernel, "call_ours"):  # an adapter
        return lambda given: kernel.call_ours(given, case)
    tensors, settings = arguments(case, kernel, rename)

    def call(given):
        kwargs = {theirs: given[ours] for theirs, ours in tensors.items()}
        kwargs.update({name: x for name, x in given.items() if name.startswith("d_")})
        return named_outputs(case, kernel(**kwargs, **settings), outputs, rename)

    return call


def takes_cotangent(kernel, name):
    return name.startswith("d_") and Signature(kernel).names_one(name)


def require_gradients(case, ran):
    asked = case.asked()
    for name in case.inputs:
        missing = name in asked.differentiable and "d_" + name not in ran.answer
        if missing and "d_" + name not in asked.optional:
            raise InputError(f"d_{name}: the kernel gives {name} no gradient (its grad is None); gradients=False judges outputs alone")


def changed_inputs(case, ran):
    faults = []
    for name in case.inputs:
        was, now = case.tensors[name], ran.inputs[name]
        if now[:2] != (was[0], tuple(was[1])):
            faults.append(f"{name}: the kernel has made it {now[0]} {list(now[1])}; it was {was[0]} {list(was[1])}")
        elif not same_bytes(was[2], now[2]):
            index, before, after = first_difference(was, now)
            faults.append(f"{name}: the kernel has overwritten its input: {place(name, index)} is {after:g}, and was {before:g}")
    return faults


def changed_bits(case, first, second):
    faults = []
    judged = case.asked().judged
    for name, was in first.items():
        now = second.get(name)
        if now is None:
            faults.append(f"{name}: not answered when the kernel is run again")
        elif was[:2] != now[:2]:
            faults.append(f"{name}: is {now[0]} {list(now[1])} when the kernel is run again, and was {was[0]} {list(was[1])}")
        elif differs(was, now, judged.get(name)):
            index, before, after = first_difference(was, now, judged.get(name))
            faults.append(
                f"{name}: other bits when the kernel is run again, with other numbers in memory that it has not written:"
                f" {place(name, index)} is {after!r}, and was {before!r}; same_bits=False leaves this out"
            )
    return faults


def place(name, index):
    return name + "".join(f"[{i}]" for i in index)


def took_part(case, ran: Ran, notes):
    """The case without cotangents that reached no output of the kernel."""
    lost = [name for name in case.cotangents if ran.cotangents and name[2:] in ran.answer and name[2:] not in ran.cotangents]
    if not lost:
        return case
    said = "counts as 0" if case.has_arguments else "is not part of the problem"  # lse is an output where it has a cotangent
    notes.append(f"{', '.join(name[2:] for name in lost)}: requires no gradient, so {', '.join(lost)} {said}")
    kept = case.zeroed(*lost) if case.has_arguments else case.without(*lost)
    kept.origin = case.origin
    return kept
