"""The process of a candidate: it is given inputs and calls the candidate, and knows nothing of answers.

Run as a program, without assay. Messages on both sides are a line of JSON, whose "bytes" says how many follow it. What this needs
is taken before the candidate is imported, so that the candidate's replacements do not reach it.
"""
import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import os
import signal
import sys
import time
import traceback

# Functions that harnesses trust, or all of a module or class, this program's own, too. Who replaces one means to be seen otherwise than he is.
TRUSTED = {
    **dict.fromkeys(("__main__", "__main__.Caller", "__main__.Pipe", "time", "numpy", "numpy.linalg", "numpy.testing")),
    "builtins": ("abs", "all", "any", "hash", "id", "isinstance", "len", "max", "min", "sum", "type"),
    "gc": ("get_objects",),
    "torch": ("allclose", "isclose", "equal", "abs", "max"),
    "torch.testing": ("assert_close",),
    "torch.cuda": ("synchronize", "Event", "Stream", "current_stream"),
    "torch.Tensor": ("allclose", "isclose", "equal", "cpu", "clone", "copy_", "numpy", "to", "data_ptr"),
}
NUMPY_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
               "I32": "int32", "I64": "int64"}  # fmt: skip
PADDING = 8  # elements between the rows of a strided input

sha256, dumps, loads, sleep, read, write, exact_type = hashlib.sha256, json.dumps, json.loads, time.sleep, os.read, os.write, type
now = time.perf_counter


class Refused:
    """assay is not to be had here: it knows the answer."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "assay":
            raise ImportError("assay is not to be had in the process of a candidate; put the candidate into a file of its own")
        return None


class Pipe:
    def __init__(self, source, sink):
        self.source, self.sink, self.buffer = source, sink, b""

    def receive(self):
        while b"\n" not in self.buffer:
            self.fill()
        line, _, self.buffer = self.buffer.partition(b"\n")
        message = loads(line)
        while len(self.buffer) < message["bytes"]:
            self.fill()
        blob, self.buffer = self.buffer[: message["bytes"]], self.buffer[message["bytes"] :]
        return message, blob

    def fill(self):
        got = read(self.source, 1 << 20)
        if not got:
            os._exit(0)
        self.buffer += got

    def send(self, message, blob=b""):
        data = dumps({**message, "bytes": len(blob)}).encode() + b"\n" + blob
        at = 0
        while at < len(data):
            at += write(self.sink, data[at : at + (1 << 20)])


class Numpy:
    def __init__(self, device):
        import numpy

        self.np, self.ndarray = numpy, numpy.ndarray
        self.frombuffer, self.copyto, self.full, self.contiguous = numpy.frombuffer, numpy.copyto, numpy.full, numpy.ascontiguousarray

    def dtype(self, name):
        plain = NUMPY_NAMES[name]
        if name in ("BF16", "F8_E4M3", "F8_E5M2"):
            import ml_dtypes

            return self.np.dtype(getattr(ml_dtypes, plain))
        return self.np.dtype(plain)

    def place(self, dtype, shape, padded):
        """Memory of that shape; with gaps of NaN between rows if it is padded."""
        base = self.full((*shape[:-1], shape[-1] + PADDING) if padded else shape, 0, self.dtype(dtype))
        base.reshape(-1).view(self.np.uint8)[:] = 0xFF
        return base[..., : shape[-1]] if padded else base

    def set(self, array, dtype, data):
        self.copyto(array, self.frombuffer(data, self.np.uint8).view(self.dtype(dtype)).reshape(array.shape))

    def synchronize(self):
        pass

    def detach(self, array):
        return array

    def no_gradients(self):
        return contextlib.nullcontext()

    def poison(self, sizes, byte):
        blocks = [self.full(size, byte, self.np.uint8) for size in sizes]
        blocks.clear()

    def facts(self, x):
        """The facts of an output: its exact type, dtype, shape, and its bytes."""
        kind = exact_type(x)
        if not isinstance(x, self.ndarray):
            return {"type": f"{kind.__module__}.{kind.__qualname__}"}, b""
        plain = x.dtype.name
        name = next((ours for ours, theirs in NUMPY_NAMES.items() if theirs == plain), plain)
        facts = {"type": f"{kind.__module__}.{kind.__qualname__}", "exact": kind is self.ndarray, "dtype": name, "shape": list(x.shape)}
        return facts, self.contiguous(x).tobytes() if facts["exact"] else b""

    def numbers(self, dtype, data):
        return self.frombuffer(data, self.dtype(dtype)).astype(self.np.float64)


class Torch:
    def __init__(self, device):
        import torch

        self.torch, self.Tensor, self.device = torch, torch.Tensor, device
        self.frombuffer, self.full, self.empty = torch.frombuffer, torch.full, torch.empty
        self.cpu, self.copy_, self.numpy, self.contiguous = torch.Tensor.cpu, torch.Tensor.copy_, torch.Tensor.numpy, torch.Tensor.contiguous
        self.view, self.detach = torch.Tensor.view, torch.Tensor.detach
        self.wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None

    def dtype(self, name):
        return getattr(self.torch, NUMPY_NAMES[name])

    def place(self, dtype, shape, padded):
        whole = (*shape[:-1], shape[-1] + PADDING) if padded else tuple(shape)
        theirs = self.dtype(dtype)
        base = self.full((math.prod(whole) * theirs.itemsize,), 0xFF, dtype=self.torch.uint8, device=self.device)
        base = self.view(base, theirs).view(whole)
        return base[..., : shape[-1]] if padded else base

    def set(self, array, dtype, data):
        if data:
            self.copy_(array, self.frombuffer(bytearray(data), dtype=self.torch.uint8).view(self.dtype(dtype)).view(tuple(array.shape)))

    def synchronize(self):
        self.wait()

    def no_gradients(self):
        return self.torch.no_grad()

    def poison(self, sizes, byte):
        blocks = [self.full((size,), byte, dtype=self.torch.uint8, device=self.device) for size in sizes]
        blocks.clear()

    def facts(self, x):
        kind = exact_type(x)
        if not isinstance(x, self.Tensor):
            return {"type": f"{kind.__module__}.{kind.__qualname__}"}, b""
        plain = str(x.dtype).removeprefix("torch.")
        name = next((ours for ours, theirs in NUMPY_NAMES.items() if theirs == plain), plain)
        facts = {"type": f"{kind.__module__}.{kind.__qualname__}", "exact": kind is self.Tensor, "dtype": name, "shape": list(x.shape),
                 "device": x.device.type, "dense": x.layout == self.torch.strided}  # fmt: skip
        if not facts["dense"] or kind is not self.Tensor:
            return facts, b""
        flat = self.contiguous(self.cpu(self.detach(x))).view(-1)
        return facts, self.numpy(self.view(flat, self.torch.uint8)).tobytes() if flat.numel() else b""

    def numbers(self, dtype, data):
        return self.frombuffer(bytearray(data), dtype=self.dtype(dtype)).to(self.torch.float64)


def candidate_of(where):
    """The function that "file.py:name" or "module:name" names."""
    place, _, name = where.rpartition(":")
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        spec = importlib.util.spec_from_file_location("audited_candidate", place)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    for part in name.split("."):
        module = getattr(module, part)
    return module


def home_of(name):
    """The module or class of that name, if it is imported."""
    if name in sys.modules:
        return sys.modules[name]
    module, _, attribute = name.rpartition(".")
    return getattr(sys.modules.get(module), attribute, None) if module else None


def trusted():
    found = {}
    for name, functions in TRUSTED.items():
        home = home_of(name)
        if functions is None:
            functions = [own for own, x in vars(home).items() if callable(x) and not own.startswith("_")] if home is not None else ()
        for function in functions if home is not None else ():
            found[name, function] = getattr(home, function, None)
    return found


def parts_of(result):
    """The values that a result has by its base class: a class of the candidate's own could compute them when it is looked at."""
    for kind, parts in ((dict, dict.values), (tuple, tuple.__iter__), (list, list.__iter__)):
        if isinstance(result, kind):
            return [*parts(result)]
    return [result]


def frameworks_for(candidate):
    """The frameworks that assay.check would try, by its own rule, which is a file that needs nothing of assay."""
    place = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "_frameworks.py")
    spec = importlib.util.spec_from_file_location("frameworks", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.frameworks_for(candidate)


class Caller:
    """The candidate, imported, and memory of one framework's for its inputs; of none where it is only asked whose arrays it takes."""

    def __init__(self, message):
        self.arrays = {"torch": Torch, "numpy": Numpy, None: lambda device: None}[message["arrays"]](message["device"])
        self.given, self.before, self.held = {}, trusted(), []
        sys.path[:0] = [path for path in message["path"] if path not in sys.path]
        sys.meta_path.insert(0, Refused())
        self.candidate, self.made = candidate_of(message["candidate"]), {}
        self.call = self.candidate

    def make(self, init):
        """A class, like KernelBench's ModelNew, is made with these arguments, once for each."""
        if tuple(init) not in self.made:
            made = self.candidate(*init)
            self.made[tuple(init)] = made.to(self.arrays.device or "cpu") if hasattr(made, "to") else made
        self.call = self.made[tuple(init)]

    def prepared(self, message, blob):
        """The arguments, in the same memory as before if that is asked for, and those of them that are arrays, by their numbers."""
        args, kwargs, places = [], {}, {}
        for i, argument in enumerate(message["arguments"]):
            value = argument.get("value")
            if "dtype" in argument:
                dtype, shape, padded = argument["dtype"], argument["shape"], bool(message["padded"] and argument["shape"])
                key = (i, dtype, tuple(shape), padded)
                if not message["reuse"] or key not in self.given:
                    self.given[key] = self.arrays.place(dtype, shape, padded)
                value = self.given[key]
                self.put(value, argument, blob)
                places[i] = value
            name = argument["name"]
            if name is None:
                args.append(value)
            elif "others" not in argument:
                kwargs[name] = value
            elif (taken := self.taken([name, *argument["others"]])) is not None:
                kwargs[taken] = value
            elif not argument["usual"]:
                raise TypeError(f"{name}={value}: the candidate takes no argument of that name")
        return args, kwargs, places

    def taken(self, names):
        """The first of these names that the candidate takes."""
        parameters = inspect.signature(self.call).parameters.values()
        known = {p.name for p in parameters}
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return names[0]
        return next((name for name in names if name in known), None)

    def put_parameters(self, message, blob):
        for parameter in message["parameters"]:
            target = self.call
            for part in parameter["name"].split("."):
                target = getattr(target, part)
            self.put(self.arrays.detach(target), parameter, blob)

    def put(self, array, tensor, blob):
        self.arrays.set(array, tensor["dtype"], blob[tensor["at"] : tensor["at"] + tensor["size"]])

    def ran(self, message, args, kwargs, places):
        """The arrays that it returned and left, in the order of the task's outputs. Those that it writes itself are full of NaN until it does."""
        written = [(x, self.arrays.place(x["dtype"], x["shape"], False)) for x in message["destinations"]]
        args = [*args, *(x for there, x in written if there["name"] is None)]
        kwargs = {**kwargs, **{there["name"]: x for there, x in written if there["name"] is not None}}
        self.arrays.synchronize()
        began = now()
        with self.arrays.no_gradients():
            result = self.call(*args, **kwargs)
        self.arrays.synchronize()
        self.took = now() - began
        values = parts_of(result)
        left = [(there["output"], x) for there, x in written] + [(output, places[int(i)]) for i, output in message["inplace"].items()]
        if left:  # answered anyway
            values = [x for x in values if x is not None and not any(x is one for _, one in written)]
        for output, x in sorted(left, key=lambda one: one[0]):
            if len(values) < message["outputs"]:
                values.insert(output, x)
        return values

    def answer(self, message, blob):
        if "init" in message:
            self.make(message["init"])
            self.put_parameters(message, blob)
        self.arrays.poison(message["poison"]["sizes"], message["poison"]["byte"])
        args, kwargs, places = self.prepared(message, blob)
        values = self.ran(message, args, kwargs, places)
        outputs = [self.arrays.facts(x) for x in values]
        sleep(message["pause"])
        self.arrays.synchronize()
        facts = self.facts_later(values, outputs)
        made, other, most, farthest = 0, 0, -1.0, []
        until = now() + message["seconds"]
        while made < message["again"] and now() < until:
            for i in message["inplace"]:
                self.put(places[int(i)], message["arguments"][int(i)], blob)
            again = [self.arrays.facts(x) for x in self.ran(message, args, kwargs, places)]
            made += 1
            if again != outputs:
                other += 1
                if (away := self.away(again, outputs)) > most:
                    most, farthest = away, again
        reply = {"outputs": facts, "inputs": self.digests(message, places), "other": other, "made": made}
        reply["farthest"] = [{**fact, "size": len(data), "late": False} for fact, data in farthest]
        return reply, b"".join(data for _, data in [*outputs, *farthest])

    def facts_later(self, values, outputs):
        """The facts of outputs that were copied a while ago, with whether they have been written since."""
        return [{**fact, "size": len(data), "late": self.arrays.facts(x)[1] != data} for x, (fact, data) in zip(values, outputs)]

    def digests(self, message, places):
        """The digests of the inputs that may not be overwritten."""
        return {i: sha256(self.arrays.facts(x)[1]).hexdigest() for i, x in places.items() if str(i) not in message["inplace"]}

    def away(self, these, first):
        """How far an answer is from the first one, in parts of its largest number; infinite where it is no number."""
        most = 0.0
        for (fact, data), (was, old) in zip(these, first):
            if data == old:
                continue
            if fact != was:
                return math.inf
            a, b = (self.arrays.numbers(fact["dtype"], x) for x in (data, old))
            apart = float(abs(a - b).max()) / (float(abs(b).max()) or 1.0)
            most = max(most, apart if apart < math.inf else math.inf)
        return most if len(these) == len(first) else math.inf

    def hold(self, message, blob):
        """Keeps a call for later, with its inputs in memory of their own."""
        self.held.append((message, blob, *self.prepared(message, blob)))

    def timed(self):
        """The calls that were kept, one right after the other as a benchmark makes them; the answer of each is that which was timed. When all
        are made, their inputs and what they returned must be what they were."""
        runs, seconds = [], []
        for message, blob, args, kwargs, places in self.held:
            if "init" in message:
                self.make(message["init"])
                self.put_parameters(message, blob)
            values = self.ran(message, args, kwargs, places)
            runs.append((message, places, values, [self.arrays.facts(x) for x in values]))
            seconds.append(self.took)
        self.held = []
        sleep(max((message["pause"] for message, *_ in runs), default=0))
        self.arrays.synchronize()
        calls = [{"outputs": self.facts_later(values, outputs), "inputs": self.digests(message, places)} for message, places, values, outputs in runs]
        return {"calls": calls, "seconds": seconds}, b"".join(data for *_, outputs in runs for _, data in outputs)

    def asked(self, message, blob):
        """The reply to a message."""
        if message.get("hold"):
            return self.hold(message, blob) or {}, b""
        return self.timed() if message.get("timed") else self.answer(message, blob)

    def replaced(self):
        are = trusted()
        return [f"{home}.{name}" for (home, name), was in self.before.items() if was is not are.get((home, name))]


def supervised(*descriptors):
    """Goes on in a child of this process, which ends with it, and before that ends whatever that has started, in sessions of its own, too."""
    set_subreaper, end_with_parent = 36, 1
    prctl = ctypes.CDLL(None).prctl
    prctl(set_subreaper, 1)
    worker = os.fork()
    if worker == 0:
        prctl(end_with_parent, signal.SIGKILL)
        return
    signal.signal(signal.SIGTERM, lambda *_: os.kill(worker, signal.SIGKILL))
    for descriptor in descriptors:
        os.close(descriptor)
    status = None
    while status is None:
        pid, code = os.wait()
        status = code if pid == worker else None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_children()
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:  # which has no handler
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def end_children():
    """Kills the children of this process until there are none: theirs become its own."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def children():
    own = os.getpid()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as stat:
                # "PID (NAME) STATE PARENT ...", and a name may have brackets.
                if int(stat.read().rpartition(")")[2].split()[1]) == own:
                    yield int(entry)


def main():
    source, sink = int(sys.argv[1]), int(sys.argv[2])
    supervised(source, sink)
    pipe = Pipe(source, sink)
    message, _ = pipe.receive()
    caller = None
    try:
        caller = Caller(message)
        pipe.send({"replaced": caller.replaced()} if message["arrays"] else {"frameworks": frameworks_for(caller.candidate)})
    except BaseException as error:  # whatever a candidate's import raises
        pipe.send({"error": said(error)})
        return
    while True:
        message, blob = pipe.receive()
        try:
            reply, data = caller.asked(message, blob)
            pipe.send({**reply, "replaced": caller.replaced()}, data)
        except BaseException as error:
            pipe.send({"error": said(error), "replaced": caller.replaced()})


def said(error):
    lines = traceback.format_exception_only(type(error), error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return "".join(lines).strip().splitlines()[-1] + place


if __name__ == "__main__":
    main()
