"""Cases: problems with everything that fixes their answers."""
import contextlib
import difflib
import functools
import json
import os
import re

from . import _native, _programs
from ._arrays import array, bits, framework_of, precision_named, stored
from ._native import InputError

# Names of a report's files, also in messages until they are saved.
CASE, ANSWER = "case.safetensors", "answer.safetensors"

# Mechanisms beside assay.mechanisms(), of cases with arguments alone (docs/arguments.md).
COMPONENTS = ("short_conv", "gated_rmsnorm")


def mechanisms():
    """The names of all mechanisms."""
    return _native.mechanisms()


def facts_of(mechanism):
    """The facts of a mechanism: its inputs, outputs and settings. Raises InputError for a name that there is none of."""
    return _facts_of(mechanism, _programs.read(mechanism))


@functools.cache
def _facts_of(mechanism, _):
    facts = _native.facts(mechanism + "+arguments" if mechanism in COMPONENTS else mechanism)
    if facts is None:
        raise InputError(f"mechanism: there is no {mechanism}{_near(mechanism, mechanisms())}; there are {', '.join(mechanisms())}")
    return {**facts, "name": mechanism}


def _near(word, words):
    near = difflib.get_close_matches(word, words, 1)
    return f" (did you mean {near[0]}?)" if near else ""


class Asked:
    """The contents of an answer to a case."""

    def __init__(self, outputs, differentiable, optional=(), judged=None, by_arguments=False):
        self.outputs, self.differentiable, self.optional = list(outputs), set(differentiable), set(optional)
        # The judged numbers of tensors with padding: a byte for every number, 1 where it is judged.
        self.judged, self.by_arguments = judged or {}, by_arguments

    @classmethod
    def of(cls, case):
        facts = facts_of(case.mechanism)
        names = _programs.returned(case) or [field["name"] for field in facts["outputs"]]
        return cls(names, [field["name"] for field in facts["inputs"] if field["differentiable"] and not field["is_param"]])

    @classmethod
    def of_arguments(cls, mechanism, tensors):
        known = [field["name"] for field in _native.facts(mechanism + "+arguments")["outputs"]]
        return cls(
            sorted((name for name in tensors if not name.startswith("d_")), key=known.index),
            [name[2:] for name in tensors if name.startswith("d_")],
            [name for name, (_, may_be_missing, _) in tensors.items() if may_be_missing],
            {name: judged for name, (_, _, judged) in tensors.items() if judged is not None},
            by_arguments=True,
        )


class Case:
    """One problem: tensors by name, as a file has them ([B, T, H, d]; docs/case-format.md), and what it says of itself.

    case["q"] is an array of the case's framework on its device; cotangents are d_o, d_final_state, ....
    """

    raw = None  # gates that a definition gives in place of log_decay and beta (assay.audit)

    def __init__(self, tensors, metadata, *, arrays=None, device=None, origin=""):
        self.tensors, self.metadata = dict(tensors), dict(metadata)
        self.arrays, self.device, self.origin = arrays, device, origin
        self._asked = None

    mechanism = property(lambda self: self.metadata["mechanism"], doc="Its name: one of assay.mechanisms().")
    layout = property(lambda self: self.metadata.get("layout", "bthd"), doc="Of tensors with rows: bthd, bhtd or thd.")
    params = property(lambda self: json.loads(self.metadata.get("params") or "{}"), doc="The mechanism's settings, numbers as decimals in words.")
    inputs = property(lambda self: [name for name in self.tensors if not name.startswith("d_")], doc="Names of the tensors that a kernel reads.")
    cotangents = property(lambda self: [name for name in self.tensors if name.startswith("d_")], doc="Names of the gradients of its outputs: d_o, ....")

    def __getitem__(self, name):
        return self.array(name)

    def __contains__(self, name):
        return name in self.tensors

    def __iter__(self):
        return iter(self.tensors)

    def array(self, name, arrays=None, device=None):
        """A tensor as an array of that framework; a copy, which may be written to."""
        if name not in self.tensors:
            raise InputError(f"{name}: this case has no such tensor; it has {', '.join(self.tensors)}")
        arrays = arrays or self.arrays or "numpy"
        return array(self.tensors[name], arrays, device or (self.device if arrays == "torch" else None), name)

    def without(self, *names):
        """The case without these tensors: an initial state is zero then, an output whose d_NAME is left out has no cotangent."""
        for name in names:
            if name not in self.tensors:
                raise InputError(f"{name}: this case has no such tensor; it has {', '.join(self.tensors)}")
        tensors = {name: x for name, x in self.tensors.items() if name not in names}
        return self._changed(tensors, f"{self.origin}.without({', '.join(map(repr, names))})" if self.origin else "")

    def _changed(self, tensors, origin, **metadata):
        """The case with other tensors: it is no longer what `assay case` made."""
        metadata = {key: x for key, x in self.metadata.items() if key not in ("generator", "sha256")} | metadata
        found = Case(tensors, metadata, arrays=self.arrays, device=self.device, origin=origin)
        found.raw = self.raw
        return found

    def forward(self):
        """The case without cotangents, which asks for the same outputs."""
        kept = self.without(*self.cotangents) if self.cotangents else self
        if not self.has_arguments:
            return kept
        names = [name for name in self.asked().outputs if name not in self.asked().optional]
        return kept._changed(kept.tensors, kept.origin, outputs=json.dumps(names))

    def facts(self):
        """The facts of its mechanism, with arguments if it has any."""
        return facts_of(self.mechanism) if not self.has_arguments else _native.facts(self.mechanism + "+arguments")

    def zeroed(self, *names):
        """The case with these tensors zero."""
        tensors = dict(self.tensors)
        for name in names:
            dtype, shape, data = tensors[name]
            tensors[name] = dtype, shape, bytes(memoryview(data).cast("B").nbytes)
        return self._changed(tensors, self.origin)

    def sharing(self, heads, *names):
        """The case with so many heads of these tensors [B, T, H, ...], each of which a group of the other tensors' heads reads: own head h
        reads head h // (H / heads)."""
        tensors = dict(self.tensors)
        for name in names:
            dtype, shape, data = tensors.get(name) or self.array(name)
            if self.layout != "bthd" or shape[:3] != self.tensors["q"][1][:3] or heads < 1 or shape[2] % heads:
                raise InputError(f"{name}: expected [B, T, H, ...] with as many heads as q, a multiple of {heads}, got {list(shape)}")
            rows = bits((dtype, shape, data))[:, :, :: shape[2] // heads]
            tensors[name] = dtype, rows.shape, rows.tobytes()
        return self._changed(tensors, f"{self.origin}.sharing({', '.join(map(repr, (heads, *names)))})" if self.origin else "")

    @property
    def has_arguments(self):
        """Whether it says something that its mechanism knows only with arguments (docs/arguments.md)."""
        return self.asked().by_arguments

    def asked(self):
        """The tensors asked of a kernel: the outputs in their order, inputs that have a gradient, and of each those that a kernel may
        leave out."""
        if self._asked is None:
            with errors_in_python():
                tensors = _native.asked((self.tensors, self.metadata), CASE)
            self._asked = Asked.of_arguments(self.mechanism, tensors) if tensors is not None else Asked.of(self)
        return self._asked

    def file(self):
        """The contents of its file: the tensors as (dtype, shape, bytes) by name, and its `__metadata__`."""
        return self.tensors, self.metadata

    def save(self, path):
        """Writes the case as a safetensors file, which `assay check` reads."""
        save(path, self.file())

    def __repr__(self):
        shown = self.origin or f"a case of {self.mechanism}"
        return f"<{shown}: " + ", ".join(f"{name} {dtype} {list(shape)}" for name, (dtype, shape, _) in self.tensors.items()) + ">"


def save(path, file):
    data = _native.serialize(file)
    try:
        with open(path, "wb") as out:
            out.write(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def load(path, *, arrays=None, device=None):
    """A case out of a safetensors file."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    tensors, metadata = _native.parse(data, str(path))
    if "mechanism" not in metadata:
        raise InputError(f"{path}: __metadata__.mechanism: missing; assay.case and `assay case` write cases")
    return Case(tensors, metadata, arrays=arrays, device=device, origin=f"assay.load({os.fspath(path)!r})")


def case(mechanism, shape, dtype="bf16", *, seed=0, style="normal", cotangents=True, fill=None, with_=(), layout="bthd", arrays=None,
         device=None, **params):  # fmt: skip
    """A seeded problem: the same bits on any machine.

    shape is (B, T, H, d) or (B, T, H, K, V). "8/4" in place of H are 8 heads that share 4 (q's and k's of a delta rule, k's and
    v's of attention and of a mechanism of your own; Case.sharing shares others); "4/128" in place of T are 4 queries on 128 keys. dtype is what q, k, v and cotangents are rounded to; gates
    and states are fp32. params are the mechanism's settings (window=16, causal=False, scale=0.25); fill={"log_decay": -0.5} makes
    all numbers of an input that one. With a device, arrays are torch's.

    Arguments of real kernels (docs/arguments.md) are params, too: soft_cap=30.0, gate="softplus", sink=True, cu_seqlens=[0, 5, 64].
    Those that are tensors are drawn for True; a number, or an array, says what they are. with_=["sink", "lse"] asks for tensors
    by name. layout is that of the rows: "bthd", "bhtd" or "thd".
    """
    precision = precision_named(dtype)
    _programs.read(str(mechanism))
    if isinstance(params.get("params"), dict):
        asked = ", ".join(f"{name}={value!r}" for name, value in params["params"].items())
        raise InputError(f"params: a case takes settings by their names: assay.case(..., {asked})")
    words = [str(mechanism), "--shape", shape_text(shape), "--precision", precision, "--style", str(style), "--seed", str(seed)]
    words += ["--layout", str(layout)] if layout != "bthd" else []
    parts = _native.arguments()
    tensors = dict(with_) if isinstance(with_, dict) else dict.fromkeys([with_] if isinstance(with_, str) else with_, True)
    tensors.update((name, value) for name, value in params.items() if parts.get(name, "params") != "params")
    for name, value in params.items():
        if name not in tensors and value is not None:
            words += ["--param", f"{name}={word_of(value)}"]
    for name, value in tensors.items():
        words += with_words(name, value)
    for name, value in (fill or {}).items():
        words += ["--fill", f"{name}={word_of(value)}"]
    with errors_in_python({"precision": "dtype", "param": "params"}):
        data = said("case", *words, *([] if cotangents else ["--no-cotangents"]), "-o", "-")
    tensors, metadata = _native.parse(data, "case")
    usual = {"seed": 0, "style": "normal", "cotangents": True, "fill": None, "with_": (), "layout": "bthd"}
    given = {"seed": seed, "style": style, "cotangents": cotangents, "fill": fill, "with_": with_, "layout": layout, **params}
    changed = "".join(f", {name}={shown(x)!r}" for name, x in given.items() if name in params or x != usual[name])
    origin = f"assay.case({mechanism!r}, {shape!r}, {precision!r}{changed})"
    return Case(tensors, metadata, arrays=arrays or ("torch" if device is not None else None), device=device, origin=origin)


def with_words(name, value):
    """--with NAME, or NAME=NUMBERS."""
    if value is None or value is False:
        return []
    if value is True or isinstance(value, str):
        return ["--with", name if value is True else f"{name}={value}"]
    numbers = flat(shown(value))
    return ["--with", f"{name}={','.join(word_of(x).replace('true', '1').replace('false', '0') for x in numbers)}"]


def shown(value):
    """An array as a list."""
    return value.tolist() if hasattr(value, "tolist") else value


def flat(value):
    return [x for one in value for x in flat(one)] if isinstance(value, (list, tuple)) else [value]


def said(*words, progress=None):
    """The output of the command line. Raises InputError with its sentence where it refuses."""
    code, out, err = _native.verb([str(word) for word in words], progress)
    if code >= 2:
        lines = [line for line in err.strip().splitlines() if not line.startswith("Run with ")]
        raise InputError(lines[-1].removeprefix("assay: ") if lines else f"assay {words[0]}: exit code {code}")
    return out


def shape_text(shape):
    """"2,100,8/4,128" of (2, 100, "8/4", 128); "4/8" is taken for "8/4"."""
    if isinstance(shape, str):
        return shape
    words = [str(x) for x in shape]
    if len(words) in (4, 5) and words[2].count("/") == 1:
        own, shared = words[2].split("/")
        if own.isdigit() and shared.isdigit() and int(own) < int(shared):
            words[2] = f"{shared}/{own}"
    return ",".join(words)


def word_of(value):
    if isinstance(value, (list, tuple)):
        return ",".join(map(word_of, value))
    return str(value).lower() if isinstance(value, bool) else repr(float(value)) if isinstance(value, float) else str(value)


@contextlib.contextmanager
def errors_in_python(names=None):
    """Sentences of the command line about flags, as sentences about arguments."""
    names = {"tensor": "tensors", **(names or {})}
    try:
        yield
    except InputError as error:
        sentence = str(error).replace(f"{CASE}: ", "case: ").replace(f"{ANSWER}: ", "answer: ").replace("build/assay ", "assay ")
        sentence = re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda flag: names.get(flag[1], flag[1].replace("-", "_")), sentence)
        raise InputError(sentence) from None


def posed(mechanism, inputs, params=None, precision=None, cotangents=None, layout="bthd", origin=""):
    """A case out of one's own arrays."""
    facts = facts_of(mechanism)
    arrays = framework_of(inputs.values())
    counts = _native.arguments()
    tensors = {name: stored(x, name, counts=name in counts) for name, x in inputs.items()}
    for name, x in (cotangents or {}).items():
        tensors[name if name.startswith("d_") else "d_" + name] = stored(x, name)
    metadata = {"format": "assay-case 1", "mechanism": facts["name"], "params": json.dumps(spelled(params or {}))}
    if layout != "bthd":
        metadata["layout"] = layout
    if precision is not None:
        metadata["precision"] = precision_named(precision)
    return Case(tensors, metadata, arrays=arrays, origin=origin)


def spelled(params):
    """Params as a case has them: counts and switches as they are, other numbers as decimals."""
    return {name: list(x) if isinstance(x, (list, tuple)) else x if isinstance(x, (bool, int, str)) else repr(float(x)) for name, x in params.items()}
