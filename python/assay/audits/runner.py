"""Calls of a candidate in a process of its own, which ends before any answer is known."""
import contextlib
import json
import math
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

from .._kernels import A_NUMBER, NOT_A_NUMBER, twice
from .._native import InputError

CHILD = pathlib.Path(__file__).with_name("child.py")
# Names of the environment that begin like this tell a candidate that it is tested.
TELLING = ("PYTEST", "ASSAY", "CI")
# Languages of solutions whose entry is a function of Python.
IN_PYTHON = {"python", "pytorch", "triton", "cute_dsl", "cutile", "cudnn_frontend"}


class Gone(Exception):
    """The candidate's process has ended, or says nothing any more."""


class Candidate:
    """A candidate's process. Its own output goes to a file."""

    def __init__(self, where, *, arrays, device, timeout, folder):
        self.timeout, self.buffer = timeout, bytearray()
        ours, theirs = os.pipe(), os.pipe()
        self.log = tempfile.TemporaryFile(dir=folder)
        environment = {name: x for name, x in os.environ.items() if name.partition("_")[0] not in TELLING}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-B", str(CHILD), str(ours[0]), str(theirs[1])],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=(ours[0], theirs[1]), start_new_session=True, env=environment,
        )  # fmt: skip
        os.close(ours[0]), os.close(theirs[1])
        self.to, self.source = ours[1], theirs[0]
        os.set_blocking(self.to, False)
        paths = [os.path.abspath(path or ".") for path in sys.path]
        own = str(pathlib.Path(__file__).parent)
        try:
            self.loaded = self.asked({"candidate": where, "arrays": arrays, "device": device, "path": [p for p in paths if p != own]})
        except BaseException:
            self.close()
            raise

    def asked(self, message, blob=b""):
        """Its reply, as (message, bytes)."""
        until = time.monotonic() + self.timeout
        self.send(json.dumps({**message, "bytes": len(blob)}).encode() + b"\n" + blob, until)
        while b"\n" not in self.buffer:
            self.fill(until)
        line, _, self.buffer = self.buffer.partition(b"\n")
        try:
            reply = json.loads(line)
            size = int(reply["bytes"])
        except (ValueError, KeyError, TypeError):
            raise Gone("says what its harness does not say") from None
        while len(self.buffer) < size:
            self.fill(until)
        blob, self.buffer = bytes(self.buffer[:size]), self.buffer[size:]
        return reply, blob

    def send(self, data, until):
        view = memoryview(data)
        while view:
            _, ready, _ = select.select([], [self.to], [], max(0, until - time.monotonic()))
            if not ready:
                raise Gone(f"takes no input for {self.timeout:g} s")
            try:
                view = view[os.write(self.to, view[: 1 << 20]) :]
            except BrokenPipeError:
                raise Gone(self.end()) from None

    def fill(self, until):
        ready, _, _ = select.select([self.source], [], [], max(0, until - time.monotonic()))
        if not ready:
            raise Gone(f"has not answered for {self.timeout:g} s")
        got = os.read(self.source, 1 << 20)
        if not got:
            raise Gone(self.end())
        self.buffer += got

    def end(self):
        self.process.wait()
        code = self.process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return f"ended with {how}" + (f": {lines[-1]}" if lines else "")

    def close(self):
        """Ends it, and whatever it has started, which its supervisor knows."""
        patience = 10.0
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to), os.close(self.source)
        self.log.close()


def where_of(candidate, folder):
    """("file.py:name" or "module:name", whether outputs are arguments, whether it is a class) of a function, a name, or a solution."""
    if callable(candidate):
        return place_of(candidate)
    word = os.fspath(candidate)
    if word.endswith(".json"):
        return unpacked(word, folder)
    place, colon, name = word.rpartition(":")
    if not colon or not name:
        place, name = word, "ModelNew" if word.endswith(".py") else ""
    if not name:
        raise InputError(f'candidate: expected a function, "file.py:function", "module:function" or a solution (.json) of a definition, got {word}')
    if place.endswith(".py"):
        if not pathlib.Path(place).exists():
            raise InputError(f"{place}: is not there")
        place = os.path.abspath(place)
    return f"{place}:{name}", False


def place_of(function):
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", "")
    if not name or "<" in name:
        raise InputError(
            "candidate: is called in a process of its own, so it must be a function of a file: neither a lambda nor one made in another function"
        )
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if not file:
            raise InputError('candidate: is of a session without a file; put it into one and name it "file.py:function"')
        return f"{os.path.abspath(file)}:{name}", False
    return f"{module}:{name}", False


def unpacked(path, folder):
    """A solution of flashinfer-bench, or of SOL-ExecBench, which names several languages: its sources as files."""
    from .tasks import read

    try:
        solution = json.loads(read(path))
        spec, sources = solution["spec"], {source["path"]: source["content"] for source in solution["sources"]}
        file, _, name = spec["entry_point"].partition("::")
        languages = list(spec.get("languages") or [str(spec.get("language"))])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: is no solution of flashinfer-bench or SOL-ExecBench: it needs spec.entry_point and sources") from None
    if not IN_PYTHON.issuperset(languages) or not file.endswith(".py") or file not in sources:
        raise InputError(f"{path}: assay audits solutions whose entry is Python, and this is {', '.join(languages)} with {spec['entry_point']}")
    for place, content in sources.items():
        target = pathlib.Path(folder, place).resolve()
        if not target.is_relative_to(pathlib.Path(folder).resolve()):
            raise InputError(f"{path}: a source {place} outside of its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")
    return f"{pathlib.Path(folder, file).resolve()}:{name}", bool(spec.get("destination_passing_style", True))


POISONS = {"nan": NOT_A_NUMBER, "number": A_NUMBER}


def message_of(task, problem, *, destinations=False, reuse=False, padded=False, poison="nan", again=0, pause=0.02, seconds=60.0, arrays="numpy"):
    """The message to the process for a call, and the bytes that go with it. No seed, no cotangent, no answer."""
    blob, arguments, sizes = [], [], set()
    at = 0

    def put(tensor):
        nonlocal at
        dtype, shape, data = tensor
        data = bytes(data)
        blob.append(data)
        placed = {"dtype": dtype, "shape": list(shape), "at": at, "size": len(data)}
        at += len(data)
        sizes.update(math.prod(shape) * width for width in (2, 4))
        return placed

    for argument in task.arguments(problem):
        entry = {"name": argument.name}
        entry |= put(argument.tensor) if argument.tensor is not None else {"value": argument.value}
        if argument.others is not None:
            entry |= {"others": argument.others, "usual": argument.usual}
        arguments.append(entry)
    message = {"arguments": arguments, "reuse": reuse, "padded": padded, "again": again, "pause": pause, "seconds": seconds, "arrays": arrays}
    if task.init is not None:
        message["init"] = task.shaped_init(problem)
        message["parameters"] = [{"name": theirs, **put(problem.tensors[ours])} for theirs, ours in task.parameters.items()]
    given = task.given(problem)
    written = {ours: None for ours, *_ in given} if destinations else {ours: task.rename.get(ours, ours) for ours in task.out}
    for ours, _, shape in given:
        if ours in written and shape is None:
            raise InputError(f"out: {ours}: an audit does not know its shape; the candidate may return it")
    message["outputs"] = len(given)
    message["destinations"] = [
        {"name": written[ours], "output": i, "dtype": dtype, "shape": list(shape)} for i, (ours, dtype, shape) in enumerate(given) if ours in written
    ]
    names = [entry["name"] for entry in arguments]
    message["inplace"] = {names.index(task.rename.get(ours, ours)): task.outputs.index(left) for ours, left in task.left(problem).items()}
    message["poison"] = {"sizes": twice(sizes, 1 << 28), "byte": POISONS[poison]}
    return message, b"".join(blob)
