"""assay.audit: whether a candidate computes its task, or what passes for it."""
import contextlib
import hashlib
import random
import secrets
import tempfile

import numpy

from .._arrays import TORCH, bits, doubles
from .._checks import Mismatch, judge
from .._native import InputError
from .._reports import PASSES, Found
from .runner import Candidate, Gone, message_of, where_of
from .tasks import task_of

# Frameworks whose arrays a candidate may be given.
AUDITED = ("numpy", "torch")
# Precisions that a candidate may have computed in instead, the finest first.
NARROWER = {"fp64": ("fp32", "bf16"), "fp32": ("tf32", "bf16", "e4m3"), "tf32": ("bf16", "e4m3"), "fp16": ("bf16", "e4m3"), "bf16": ("e4m3",)}
# The most that roundings of a kernel reach, in any format, relative to a tensor's norm: a larger error is a fault.
COARSE = 0.5
DIGITS = {"tf32": "tf32 or fp16, which have as many digits"}
# How many calls are timed, each with inputs of its own.
TIMED = 3
CANNOT_SEE = (
    "time: how fast it is elsewhere; what it would do on another machine, in later calls, on shapes beyond those"
    " above or on inputs of other sizes, as keys of another norm and strong gates; gradients; whether it calls a library; a candidate that attacks this process: an audit is no sandbox"
)


class Audit(Found):
    """The results of an audit. str() is for people; findings are (step, what) of acts that a candidate must not do, notes are no faults."""

    def __init__(self, task, candidate):
        self.task, self.candidate, self.arrays = task, candidate, None
        self.findings, self.notes, self.steps, self.reports = [], [], [], {}
        self.rounded = {}  # of a tensor, in what it seems to have been computed
        self.seconds = []  # of the timed calls, whose answers are judged

    @property
    def passed(self):
        """Whether there are no findings."""
        return not self.findings

    @property
    def page(self):
        """As programs read it."""
        steps = [{"step": step, "case": origin, "verdict": verdict} for step, origin, verdict in self.steps]
        findings = [{"step": step, "what": what} for step, what in self.findings]
        return {"format": "assay-audit", "task": self.task.title, "candidate": self.candidate, "passed": self.passed, "findings": findings,
                "steps": steps, "seconds": self.seconds, "notes": self.notes, "cannot_see": CANNOT_SEE}  # fmt: skip

    def __str__(self):
        width = max((len(step) for step, _, _ in self.steps), default=0)
        lines = [f"audit of {self.candidate}: {self.task.title}"]
        lines += [f"  {verdict:<9} {step:<{width}}  {origin}" for step, origin, verdict in self.steps]
        lines += [f"{'FAIL':<5} {step}: {what}" for step, what in self.findings]
        lines += [f"note: {note}" for note in self.notes]
        lines += ["PASS" if self.passed else "FAIL", f"cannot see  {CANNOT_SEE}"]
        return "\n".join(lines)


class Call:
    """One call of the candidate, and what came of it."""

    def __init__(self, step, problem, *, may_refuse=False, same_as=None, timed=None, **how):
        self.step, self.problem, self.may_refuse, self.same_as, self.how = step, problem, may_refuse, same_as, how
        self.timed = timed  # all calls that are timed with this one
        self.reply, self.answer = None, {}
        self.settled = None  # the problem and the answer as the judge has them


def audit(task, candidate, contract=None, *, arrays=None, device=None, again=100, timeout=600.0, seed=None, raises=True, axes=None, **how):
    """Whether a candidate computes its task: an Audit, raised as an AssertionError if it does not pass.

    task is what assay.case takes as a tuple or dict, a Case (whose numbers are not used), a definition of flashinfer-bench or of
    SOL-ExecBench (.json) or a task of KernelBench (.py), of which axes={"batch_size": 4} sets sizes. candidate is a function of a file,
    "file.py:function", or a solution of a definition. It is called in a process of its own, where assay is not to be had, and which has ended before the
    oracle starts: on inputs of secret seeds, in the same memory with new contents, with contents of the same sums and with one input, or one row
    of it, changed at a time, on other shapes, scales and strides, and `again` times more on one of them. Without arrays= and device= it gets arrays of the
    framework that its code names. contract, form, tile, why and false_alarms are what they are to assay.judge; a seed makes the audit the
    same again.
    """
    __tracebackhide__ = True
    task = task_of(task, **(axes or {}))
    rng = random.Random(secrets.randbits(64) if seed is None else seed)
    if arrays not in (None, *AUDITED):
        raise InputError(f"arrays: an audit has arrays of numpy or torch, and not of {arrays}")
    with tempfile.TemporaryDirectory(prefix="assay-audit-") as folder:
        where, destinations = where_of(candidate, folder)
        shown = candidate.__name__ if callable(candidate) else str(candidate)
        process = {"device": device, "timeout": timeout, "folder": folder}
        tried = []
        for kind in kinds_for(where, arrays or ("torch" if device is not None else None), process):
            tried.append((Audit(task, shown), plan(task, rng, again)))
            if called(where, kind, process, *tried[-1], destinations):
                break
        else:  # none did: what it said to the likeliest counts
            tried = tried[:1]
    found, calls = tried[-1]
    # Only now is an answer computed.
    for call in calls:
        judged(call, calls, task, contract, found, how)
    if raises and not found.passed:
        raise Mismatch(found)
    return found


def kinds_for(where, asked, process):
    """The frameworks whose arrays the candidate is given: those asked for, or those that its code names, the likeliest first."""
    if asked is not None:
        return [asked]
    try:
        with contextlib.closing(Candidate(where, arrays=None, **process)) as one:
            reply, _ = one.loaded
    except Gone:  # and will be again, where it is told
        return ["numpy"]
    return [kind for kind in reply.get("frameworks", ()) if kind in AUDITED] or ["numpy"]


def called(where, kind, process, found, calls, destinations):
    """Makes the calls in a process with arrays of that kind. Whether to leave it at that: other arrays would do no better."""
    found.arrays = kind
    try:
        with contextlib.closing(Candidate(where, arrays=kind, **process)) as one:
            return not run(one, found.task, calls, found, kind, destinations) or any(call.answer for call in calls)
    except Gone as gone:
        found.findings.append(("process", f"the candidate {gone}"))
        return True


def plan(task, rng, again):
    """The calls, in an order that nobody knows. Those in the same memory follow each other: a result may be kept for the last call only.
    Calls that are timed come last, and are judged as the others are."""

    def draw(**more):
        return task.draw(rng.getrandbits(31), **more)

    first, second = draw(), draw()
    fresh = Call("declared shape", first)
    same = [Call("same memory, new contents", second, reuse=True, poison="number", again=again)]
    same += [Call(f"same memory, {what}", problem, reuse=True) for what, problem in one_changed(second, draw(), draw(), rng)]
    shuffled = permuted(same[-1].problem, rng)
    if shuffled is not None:
        same.append(Call("same memory, same sums", shuffled, reuse=True))
    rest = [Call("strided inputs", first, padded=True, may_refuse=True, same_as=fresh)]
    another = task.another_shape(rng)
    if another is not None:
        rest.append(Call("another shape", draw(shape=another), may_refuse=task.fixed, poison="number"))
    for step, shape in (("fewer tokens", task.shorter_shape(rng)), ("twice the tokens", task.longer_shape())):
        if shape is not None:
            rest.append(Call(step, draw(shape=shape), may_refuse=task.fixed))
    scaled = task.another_scale(draw(), rng)
    if scaled is not None:
        rest.append(Call("another scale", scaled, may_refuse=True))
    rng.shuffle(rest)
    cut = rng.randrange(len(rest) + 1)
    timed = []
    timed += [Call(f"timed call {i + 1} of {TIMED}", draw(), timed=timed) for i in range(TIMED)]
    return [*rest[:cut], fresh, *same, *rest[cut:], *timed]


def one_changed(problem, other, third, rng):
    """The problem, changed step by step: each has one tensor of the other's in place of that of the step before, and then one row of a tensor
    of the third's. So what is kept by some inputs, or by a part of each, is not right, for the last call alone neither."""
    alike = lambda name: problem.tensors[name][:2] == other.tensors[name][:2] == third.tensors[name][:2]
    names = [name for name in problem.inputs if problem.tensors[name][0] in TORCH and alike(name)]
    gates = [name for name in names if problem.raw and name in ("log_decay", "beta")]  # of raw gates, which are given in their place
    alone = [name for name in names if name not in gates]
    batch, _, heads = problem.tensors["q"][1][:3]
    pairs = [(b, h) for b in range(batch) for h in range(heads)]
    whole = [(name, [name]) for name in alone] + ([("gates", gates)] if gates else [])
    for some in (whole, alone, pairs):
        rng.shuffle(some)
    for called, some in whole:
        problem = changed(problem, {name: other.tensors[name] for name in some}, f"another {called}")
        problem.raw = other.raw if some is gates else problem.raw
        yield f"another {called}", problem
    for i, name in enumerate(alone):
        tensor = one_row(name, problem.tensors[name], third.tensors[name], pairs[i % len(pairs)], rng)
        problem = changed(problem, {name: tensor}, f"one row of {name}")
        yield f"one row of {name}", problem


def changed(problem, tensors, what):
    return problem._changed({**problem.tensors, **tensors}, f"as before, {what}")


def one_row(name, tensor, other, pair, rng):
    """A tensor with one row of the other's, of that sequence and head; with one number where rows have no numbers of their own."""
    dtype, shape, _ = tensor
    a = bits(tensor).copy()
    place = [rng.randrange(size) for size in shape[:3]]
    for axis, at in zip((0, 1 if name.startswith("initial_") else 2), pair):
        if axis < len(place):
            place[axis] = at % shape[axis]
    a[tuple(place)] = bits(other)[tuple(place)]
    return dtype, shape, a.tobytes()


def permuted(problem, rng):
    """The same tokens but the first and the last in another order: sums, norms, corners and shapes are what they were."""
    batch, tokens = problem.tensors["q"][1][:2]
    per_token = {name: x for name, x in problem.tensors.items() if name != "initial_state" and len(x[1]) >= 3 and tuple(x[1][:2]) == (batch, tokens)}
    if tokens < 4 or set(per_token) != {name for name in problem.tensors if name != "initial_state"}:
        return None
    inner = list(range(1, tokens - 1))
    while inner == list(range(1, tokens - 1)):
        rng.shuffle(inner)
    order = [0, *inner, tokens - 1]

    def moved(tensor):
        return *tensor[:2], bits(tensor)[:, order].tobytes()

    tensors = {name: moved(x) if name in per_token else x for name, x in problem.tensors.items()}
    again = problem._changed(tensors, f"{problem.origin}, its inner tokens in another order")
    if problem.raw:
        again.raw = {name: moved(x) if name in ("a", "b") else x for name, x in problem.raw.items()}
    return again


def run(process, task, calls, found, arrays, destinations):
    """All calls, one after the other: the next inputs are sent when the last answer is here. Whether there were any."""
    reply, _ = process.loaded
    if "error" in reply:
        found.findings.append(("import", reply["error"]))
        return False
    replaced = set(reply["replaced"])
    for call in list(calls):
        message, blob = message_of(task, call.problem, arrays=arrays, destinations=destinations, seconds=process.timeout / 4, **call.how)
        if call.timed is not None:
            reply, _ = process.asked({**message, "hold": True}, blob)
            call.reply, call.message = reply, (message, blob)
            replaced |= time_them(process, task, call.timed, found) if call is call.timed[-1] else set()
            continue
        call.reply, data = process.asked(message, blob)
        replaced |= set(call.reply.get("replaced", ()))
        if "error" not in call.reply:
            taken(call, task, message, blob, data, found)
            if call.reply["other"]:
                calls.insert(calls.index(call) + 1, repeated(call, task, message, blob, data, found))
            if call.reply["made"] < message["again"]:
                found.notes.append(f"{call.step}: {call.reply['made']} of {message['again']} more calls were made in {message['seconds']:g} s")
    for name in sorted(replaced):
        found.findings.append(("process", f"has replaced {name}, which harnesses measure and compare with"))
    return True


def repeated(call, task, message, blob, data, found):
    """As a call of its own, the answer to the same inputs that is farthest from the first."""
    again = Call(f"{call.step}, again", call.problem)
    again.reply = {"outputs": call.reply["farthest"], "inputs": {}}
    taken(again, task, message, blob, data[sum(fact["size"] for fact in call.reply["outputs"]) :], found)
    found.notes.append(f"{call.step}: {call.reply['other']} of {message['again']} more calls gave other bits; the farthest is judged, too")
    return again


def time_them(process, task, calls, found):
    """Has the calls made that the process was told of, one right after the other, and timed; what was timed is what is judged. What the
    candidate has replaced."""
    reply, data = process.asked({"timed": True})
    calls = [call for call in calls if "error" not in call.reply]
    found.seconds = reply.get("seconds", [])
    at = 0
    for call, one in zip(calls, reply.get("calls", [reply] * len(calls))):
        if "error" in reply:
            call.reply = reply
            continue
        call.reply, size = one, sum(fact["size"] for fact in one["outputs"])
        taken(call, task, *call.message, data[at : at + size], found)
        at += size
    return set(reply.get("replaced", ()))


def taken(call, task, message, blob, data, found):
    """Takes the returned outputs, exactly as they were declared; and checks whether inputs are what they were."""
    def fault(what):
        found.findings.append((call.step, what))

    expected = task.given(call.problem)
    outputs = call.reply["outputs"]
    for entry in message["arguments"]:
        entry["sha256"] = hashlib.sha256(blob[entry["at"] : entry["at"] + entry["size"]]).hexdigest() if "at" in entry else None
    for i, digest in call.reply["inputs"].items():
        entry = message["arguments"][int(i)]
        if digest != entry["sha256"]:
            fault(f"input {entry['name'] or i}: overwritten")
    if len(outputs) != len(expected):
        fault(f"returned {len(outputs)} values, and the task has {len(expected)}: {', '.join(name or 'one that is not judged' for name, *_ in expected)}")
    at = 0
    for fact, (name, dtype, shape) in zip(outputs, expected):
        part = data[at : at + fact["size"]]
        at += fact["size"]
        if name is None:
            continue
        wanted = "numpy.ndarray" if message["arrays"] == "numpy" else "torch.Tensor"
        if not fact.get("exact"):
            fault(f"{name}: is a {fact['type']} and no {wanted}: a value that may compute itself when it is looked at")
        elif not fact.get("dense", True) or fact["dtype"] != dtype:
            fault(f"{name}: has dtype {fact['dtype']}, and {dtype} is declared")
        elif shape is not None and list(shape) != fact["shape"]:
            fault(f"{name}: has shape {fact['shape']}, and {list(shape)} is declared")
        else:
            if fact["late"]:
                fault(f"{name}: was written after it was returned, by a thread or a later call")
            call.answer[name] = task.ours(name, (fact["dtype"], tuple(fact["shape"]), part), call.problem)


def judged(call, calls, task, contract, found, how):
    origin = call.problem.origin
    if call.reply is None:
        found.steps.append((call.step, origin, "not run"))
        return
    if "error" in call.reply:
        found.steps.append((call.step, origin, "refused"))
        if call.may_refuse:
            found.notes.append(f"{call.step}: refused: {call.reply['error']}")
        else:
            found.findings.append((call.step, f"raised {call.reply['error']}, called with arrays of {found.arrays}"))
        return
    if not call.answer:
        found.steps.append((call.step, origin, "FAIL"))
        return
    if call.same_as is not None and call.answer == call.same_as.answer:
        found.steps.append((call.step, origin, "same bits"))
        return
    causes = {"why": 0} if found.findings else {}  # those of one failure are enough
    *call.settled, left_open = task.settled(call.problem, call.answer)
    if left_open:
        found.notes.append(f"{call.step}: {left_open}")
    report = judge(*call.settled, contract, tensors=sorted(call.answer), **{**how, **causes})
    found.reports[call.step] = report
    found.steps.append((call.step, origin, report.verdict))
    for row in report.rows:
        if row["verdict"] not in PASSES:
            found.findings.append((call.step, said_of(call, calls, contract, found, row, how)))


def said_of(call, calls, contract, found, row, how):
    """The sentence on a wrong tensor, which names its cheat if it is one."""
    name = row["tensor"]
    stated = f"{name}: {row['verdict']}: {row['reason']}"
    values = doubles(call.answer[name])
    named = looks_like(name, values, call, calls)
    if named is None and row["verdict"] == "FAIL" and row["relative_error"] < COARSE:
        if name not in found.rounded:  # looked for once: it takes seconds
            found.rounded[name] = narrower(call, contract, name, how)
        named = found.rounded[name]
    where = f"; {row['where']}" if row["where"] else ""
    return f"{name}: {named}; {row['reason']}{where}" if named else stated + where


def looks_like(name, values, call, calls):
    if not values.any():
        return "zeros"
    if values.size > 1 and (values == values.flat[0]).all():
        return f"one number everywhere, {values.flat[0]:g}"
    for other in calls:
        if other is not call and asks_otherwise(name, other.problem, call.problem) and other.answer.get(name) == call.answer[name]:
            return f'the very answer to "{other.step}", whose inputs are others: a stored result'
    written = numpy.isfinite(values)
    if not written.all():
        where = numpy.argwhere(~written)[0]
        place = "".join(f"[{i}]" for i in where)
        return f"{(~written).sum()} of {values.size} elements are not finite, {name}{place} first: memory that was never written, or read where it is no input"
    rows = values.reshape(-1, values.shape[-1])
    empty = ~rows.any(1)
    if empty.any():
        return f"{empty.sum()} of {len(rows)} rows are zeros: rows left out"
    return None


def asks_otherwise(name, one, other):
    """Whether two problems differ in what an output depends on: lse does not depend on values."""
    kept = lambda problem: {k: x for k, x in problem.tensors.items() if name != "lse" or k != "v"}
    return one is not other and kept(one) != kept(other)


def narrower(call, contract, name, how):
    """The finest narrower precision in which this would be right, with the roundings that explain it."""
    own = call.problem.metadata.get("precision", "")
    asked = {**{key: x for key, x in how.items() if key not in ("precision", "tensors")}, "quick": True, "why": 0}  # for the verdict alone
    sites = site_of(call, contract, name, how)
    for precision in NARROWER.get(own, ()):
        try:
            again = judge(*call.settled, precision=precision, tensors=[name], **asked)
        except InputError:
            continue
        if again.passed:
            return f"computed in {DIGITS.get(precision, precision)}, and {own} is asked for{sites}"
    return f"rounded more coarsely than {own} allows{sites}" if sites else None


def site_of(call, contract, name, how):
    report = judge(*call.settled, contract, tensors=[name], **{**how, "why": how.get("why") or 10.0})
    why = report.page.get("why") or {}
    said = [f"{x['name']}: {x['what']}" if x["what"] else x["name"] for x in why.get("explanations", ()) if x["kind"] == "site"]
    return f": {'; '.join(said)}" if said else ""
