"""The task of a candidate: how its arguments are made from a case, and the case's answer from what it returns."""
import ast
import json
import math
import os
import pathlib

import numpy

from .._arrays import PRECISIONS, doubles, precision_named, tensor_of, transposed
from .._calls import left_in_place, stored_as
from .._cases import Case, case, facts_of, shape_text
from .._kernels import SCALES, as_number
from .._native import InputError
from .fields import FROM_FIB, fib_numbers

# What a definition says one dtype of.
ROUNDED = ("q", "k", "v", "q_nope", "q_pe", "k_cache", "v_cache", "ckv_cache", "kpe_cache", "hidden_states", "A", "B", "C", "D", "initial_states")


def reshaped(tensor, *shape):
    return tensor[0], tuple(shape), bytes(tensor[2])


class Argument:
    """One argument: a tensor, and which of the case's it is, or a value. Of names that are `usual` there need be none."""

    def __init__(self, name, tensor=None, value=None, others=None, usual=False):
        self.name, self.tensor, self.value, self.others, self.usual = name, tensor, value, others, usual


class Task:
    """Cases of one mechanism, whose inputs the candidate takes by name and whose outputs it returns in order."""

    init, parameters, destinations = None, (), False
    block = 1  # tokens, of which there are whole blocks

    def __init__(self, mechanism, shape, dtype="bf16", *, rename=None, outputs=None, out=(), inplace=(), dtypes=None, fixed=False,
                 **settings):  # fmt: skip
        self.mechanism, self.precision = facts_of(mechanism)["name"], precision_named(dtype)
        self.shape, self.settings = shape_text(shape).split(","), settings
        self.rename, self.fixed = dict(rename or {}), fixed
        known = [output["name"] for output in facts_of(mechanism)["outputs"]]
        self.outputs = list(outputs or known)
        for name in self.outputs:
            if name is not None and name not in known:
                raise InputError(f"outputs: {mechanism} answers {', '.join(known)}, and no {name}")
        self.out, self.inplace = ([x] if isinstance(x, str) else list(x) for x in (out, inplace))
        for name in self.out:
            if name not in self.outputs:
                raise InputError(f"out: {name}: the candidate answers {', '.join(filter(None, self.outputs))}")
        self.dtypes = {name: PRECISIONS[precision_named(x)] for name, x in (dtypes or {}).items()}
        self.title = f"{self.mechanism} {','.join(self.shape)} {self.precision}"

    def another_shape(self, rng):
        """A shape near the declared one: one more sequence and some more tokens, no multiple of anything but of a block; None if there is none."""
        batch, tokens, *rest = self.shape
        queries, _, keys = tokens.rpartition("/")
        more = int(keys) + (self.block if self.block > 1 else 0 if int(keys) == 1 else 1 + 2 * rng.randrange(max(1, int(keys) // 4)))
        return [str(int(batch) + 1), f"{queries}/{more}" if queries else str(more), *rest]

    def longer_shape(self):
        """One sequence of twice the declared tokens and a block, which is at most as many as `another_shape` has; None where a sequence is one token."""
        _, tokens, *rest = self.shape
        queries, _, keys = tokens.rpartition("/")
        more = 2 * int(keys) + self.block
        return None if int(keys) == 1 else ["1", f"{queries}/{more}" if queries else str(more), *rest]

    def shorter_shape(self, rng):
        """The declared shape with fewer tokens; None if there is none."""
        batch, tokens, *rest = self.shape
        queries, _, keys = tokens.rpartition("/")
        lengths = [n for n in range(self.block, int(keys), self.block) if n >= int(queries or 1)]
        if not lengths:
            return None
        fewer = rng.choice(lengths)
        return [batch, f"{queries}/{fewer}" if queries else str(fewer), *rest]

    def another_scale(self, problem, rng):
        """The problem with another scale, where the candidate is told of it; None where it is not."""
        name = next((name for name in ("scale", "bandwidth") if name in problem.params), None)
        if name is None:
            return None
        number = as_number(problem.params[name]) * rng.choice((0.5, 0.75, 1.25, 1.5))
        changed = problem._changed(problem.tensors, f"{problem.origin}, {name} {number:g}", params=json.dumps({**problem.params, name: repr(number)}))
        told = [[argument.value for argument in self.arguments(one) if argument.tensor is None] for one in (problem, changed)]
        return changed if told[0] != told[1] else None

    def draw(self, seed, shape=None):
        return case(self.mechanism, ",".join(shape or self.shape), self.precision, seed=seed, cotangents=False, **self.settings)

    def arguments(self, problem):
        found = [Argument(self.rename.get(name, name), problem.tensors[name]) for name in problem.inputs]
        for name, value in problem.params.items():
            number = as_number(value)
            scales = name in ("scale", "bandwidth")
            if name in self.rename or not scales:
                found.append(Argument(self.rename.get(name, name), value=number, others=[], usual=False))
                continue
            scale = number if name == "scale" else 1 / number
            usual = math.isclose(scale, problem.tensors["q"][1][-1] ** -0.5, rel_tol=2**-20)
            found.append(Argument(SCALES[0], value=scale, others=list(SCALES[1:]), usual=usual))
        return found

    def expected(self, problem):
        """(name, dtype, shape) of each output, in the case's layout."""
        found = []
        for name in self.outputs:
            if name is None:
                found.append((None, None, None))
                continue
            q, v = problem.tensors["q"], problem.tensors.get("v", problem.tensors["q"])
            start = problem.tensors.get(name.replace("final_", "initial_", 1))
            o = (*v[1][:1], q[1][1], max(q[1][2], v[1][2]), v[1][3])
            shape = {"o": o, "lse": o[:3]}.get(name, start[1] if start is not None else None)
            found.append((name, self.dtypes.get(name, stored_as(problem, name)), shape))
        return found

    def left(self, problem):
        """{input that the candidate may overwrite: the output that stands there afterwards}."""
        return left_in_place(problem, self.inplace)

    def given(self, problem):
        """(name, dtype, shape) of each output, in the candidate's layout."""
        return self.expected(problem)

    def ours(self, name, tensor, problem):
        """An output in the case's layout."""
        return tensor

    def settled(self, problem, answer):
        """What the judge is asked: the problem, the answer, and what is not judged of it (None: nothing)."""
        return problem, answer, None


class HeadsFirst(Task):
    """Attention of [B, H, T, d]."""

    def arguments(self, problem):
        return [Argument(None, transposed(problem.tensors[name], 0, 2, 1, 3)) for name in "qkv"]

    def given(self, problem):
        ((name, dtype, shape),) = self.expected(problem)
        return [(name, dtype, tuple(shape[i] for i in (0, 2, 1, 3)))]

    def ours(self, name, tensor, problem):
        return transposed(tensor, 0, 2, 1, 3)


class FlashInferBench(Task):
    """A definition of flashinfer-bench: tokens of equally long sequences in one axis, states with keys last, raw gates."""

    def __init__(self, definition, **axes):
        self.definition = definition
        self.axes = {name: axis.get("value") for name, axis in definition["axes"].items()}
        for name, value in axes.items():
            if name not in self.axes:
                raise InputError(f"{name}: the definition has no such axis; it has {', '.join(self.axes)}")
            self.axes[name] = value
        self.decodes = "decode" in definition["name"]
        mechanism, known = self.known(definition["op_type"])
        stated = {x["dtype"] for name, x in definition["inputs"].items() if name in ROUNDED}
        if len(stated) != 1:
            raise InputError(f"{definition['name']}: its tokens are {', '.join(sorted(stated))}; assay judges one dtype of them")
        for name in definition["inputs"]:
            if name not in known and name not in ("scale", "sm_scale"):
                raise InputError(f"{name}: assay does not judge this input of {definition['name']} yet")
        super().__init__(mechanism, self.our_shape(), stated.pop(), **self.our_settings(mechanism))
        self.outputs = self.answered()
        self.title = definition["name"]

    def known(self, kind):
        """The mechanism of an op_type, and the inputs that assay knows."""
        mechanism, self.names = FROM_FIB[kind]
        return mechanism, self.names

    def our_settings(self, mechanism):
        if mechanism != "softmax_attention":
            return {}
        return {"causal": "causal" in self.definition["name"], "with_": ["lse"], "lse_base": 2}

    def our_shape(self):
        heads = {part: self.axes.get(f"num_{part}_heads") for part in ("q", "k", "v", "qo", "kv")}
        size = self.axes.get("head_size") or self.axes.get("head_dim")
        own, shared = (heads["v"], heads["k"]) if heads["v"] else (heads["qo"], heads["kv"])
        if heads["q"] and heads["q"] > own:
            raise InputError(f"{self.definition['name']}: assay does not judge more heads of q than of v yet")
        starts = self.axes.get("len_indptr")
        batch = self.axes.get("batch_size") or self.axes.get("num_seqs") or (starts - 1 if starts else 2)
        total = self.axes.get("total_seq_len") or self.axes.get("total_q")
        tokens = 1 if self.decodes else total // batch if total else 100
        return f"{batch},{tokens},{own}{f'/{shared}' if shared != own else ''},{size},{size}"

    def answered(self):
        names = {"output": "o", "new_state": "final_state", "final_state": "final_state", "lse": "lse"}
        unknown = [name for name in self.definition["outputs"] if name not in names]
        if unknown:
            raise InputError(f"{unknown[0]}: assay does not judge this output of {self.definition['name']} yet")
        return [names[name] for name in self.definition["outputs"]]

    def draw(self, seed, shape=None):
        problem = super().draw(seed, shape)
        if "A_log" in self.definition["inputs"]:
            raw, ours = fib_numbers(problem, self.definition["inputs"], seed)
            tensors = {**problem.tensors, **{name: tensor_of(a, "F32") for name, a in ours.items()}}
            problem = problem._changed(tensors, f"{problem.origin} with log_decay and beta from A_log, a, dt_bias and b")
            problem.raw = raw
        return problem

    def arguments(self, problem):
        batch, tokens = problem.tensors["q"][1][:2]
        found = []
        for name, field in self.definition["inputs"].items():
            if name in ("scale", "sm_scale"):
                found.append(Argument(None, value=scale_of(problem)))
            else:
                found.append(Argument(None, self.names[name](self, problem, field, batch, tokens)))
        return found

    def given(self, problem):
        batch, tokens, heads, dim = self.expected(problem)[0][2]
        state = problem.tensors.get("initial_state")
        shapes = {"output": (batch, 1, heads, dim) if self.decodes else (batch * tokens, heads, dim), "lse": (batch * tokens, heads)}
        if state is not None:
            n, h, k, v = state[1]
            shapes["new_state"] = shapes["final_state"] = (n, h, k, v) if "k_first" in self.definition["name"] else (n, h, v, k)
        return [(ours, PRECISIONS[precision_named(field["dtype"])], shapes[name]) for ours, (name, field) in zip(self.outputs, self.definition["outputs"].items())]

    def ours(self, name, tensor, problem):
        if name == "final_state":
            return tensor if "k_first" in self.definition["name"] else transposed(tensor, 0, 1, 3, 2)
        return reshaped(tensor, *next(shape for ours, _, shape in self.expected(problem) if ours == name))


def scale_of(problem):
    """The factor of scores."""
    return as_number(problem.params["scale"]) if "scale" in problem.params else 1 / as_number(problem.params["bandwidth"])


class KernelBench(HeadsFirst):
    """A task of KernelBench: attention (level 1, 97) or Mamba-2's state space (level 3, 48 and 49), with its fixed shape."""

    def __init__(self, path, **axes):
        source = read(path)
        self.numbers = numbers = with_axes(constants(source, path), axes, path)
        self.mamba = {"n_heads", "d_head", "d_state"} <= set(numbers)
        dtype = "fp16" if "torch.float16" in source or "torch.half" in source else "bf16" if "torch.bfloat16" in source else "fp32"
        if self.mamba:
            shape = ",".join(str(numbers[name]) for name in ("batch_size", "seq_length", "n_heads", "d_state", "d_head"))
            returns = "final_state" if "FinalState" in pathlib.Path(path).name or "return Y" not in source else "o"
            super().__init__("mamba2", shape, dtype, outputs=[returns], fixed=True, scale=1)
            self.block = numbers.get("block_len", 64)
        elif "scaled_dot_product_attention" in source and "embedding_dimension" in numbers:
            shape = ",".join(str(numbers[name]) for name in ("batch_size", "sequence_length", "num_heads", "embedding_dimension"))
            causal = "is_causal=True" in source.replace(" ", "")
            super().__init__("softmax_attention", shape, dtype, fixed=True, causal=causal)
        else:
            raise InputError(f"{path}: assay judges KernelBench's attention (level1/97) and Mamba-2 (level3/48, 49), and this is neither")
        self.title = pathlib.Path(path).stem
        self.init = ()

    def draw(self, seed, shape=None):
        problem = super().draw(seed, shape)
        return problem.without("initial_state") if self.mamba else problem

    def shaped_init(self, problem):
        """Arguments of the class: the sizes in their order."""
        if not self.mamba:
            return []
        (batch, tokens, heads, state), head = problem.tensors["q"][1], problem.tensors["v"][1][-1]
        return [batch, tokens, heads, head, state, self.block]

    def arguments(self, problem):
        return [Argument(None, problem.tensors["v"])] if self.mamba else super().arguments(problem)

    @property
    def parameters(self):
        return {"A": "log_decay", "B": "k", "C": "q"} if self.mamba else {}

    def given(self, problem):
        if self.outputs == ["final_state"]:
            (batch, _, heads, state), head = problem.tensors["q"][1], problem.tensors["v"][1][-1]
            return [("final_state", problem.tensors["v"][0], (batch, heads, head, state))]
        return self.expected(problem) if self.mamba else super().given(problem)

    def ours(self, name, tensor, problem):
        if name == "final_state":
            return transposed(tensor, 0, 1, 3, 2)
        return tensor if self.mamba else super().ours(name, tensor, problem)


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text") from None


def constants(source, path):
    """Whole numbers that a file assigns to names, without running it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: is not Python: {error}") from None
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            pairs = zip(*(x.elts if isinstance(x, ast.Tuple) else [x] for x in (node.targets[0], node.value)))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and type(value.value) is int:
                    found[name.id] = value.value
    return found


def with_axes(numbers, axes, path):
    """The numbers of a file, some of them changed."""
    for name in axes:
        if name not in numbers:
            raise InputError(f"{name}: {path} has no such number; it has {', '.join(numbers)}")
    return {**numbers, **axes}


def in_full_caches(problem, seed, tensors=()):
    """The case with ordinary numbers where no sequence has keys, as benchmarks have them, and with these tensors."""
    made, rng = dict(problem.tensors), numpy.random.default_rng(seed)
    for name in ("k", "v"):
        if name in made:
            a = doubles(made[name])
            made[name] = tensor_of(numpy.where(numpy.isnan(a), rng.standard_normal(a.shape), a), made[name][0])
    return problem._changed({**made, **dict(tensors)}, f"{problem.origin} in full caches")


def of_definition(definition, **axes):
    """By its op_type; definitions of SOL-ExecBench have none, and are known by their names."""
    from .paged import PAGED, Paged
    from .sol import SCAN, ChunkScan

    known = {**dict.fromkeys(FROM_FIB, FlashInferBench), **dict.fromkeys(PAGED, Paged), SCAN: ChunkScan}
    kind = definition.get("op_type") or next((kind for kind in known if kind in definition["name"]), "none of them")
    if kind not in known:
        raise InputError(f"{definition['name']}: assay judges definitions of {', '.join(known)}, and this is {kind}")
    return known[kind]({**definition, "op_type": kind}, **axes)


def of_workload(path, line):
    """The sizes that a line of workload.jsonl has, which is beside a definition of SOL-ExecBench; the first is 1."""
    path = pathlib.Path(path).with_name("workload.jsonl")
    lines = read(path).splitlines()
    if not 1 <= line <= len(lines):
        raise InputError(f"workload: {path} has {len(lines)} lines, and no line {line}")
    try:
        return dict(json.loads(lines[line - 1])["axes"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: line {line} is no workload: it needs axes") from None


def task_of(task, **axes):
    """A Task out of what people have: one, a case or its arguments, a definition, a file of KernelBench."""
    if isinstance(task, Task):
        return task
    if isinstance(task, Case):
        q, v = task.tensors["q"][1], task.tensors.get("v", task.tensors["q"])[1]
        heads = f"{max(q[2], v[2])}/{min(q[2], v[2])}" if q[2] != v[2] else str(q[2])
        keys = task.tensors.get("k", task.tensors["q"])[1][1]
        tokens = f"{q[1]}/{keys}" if keys != q[1] else str(q[1])
        dtype = task.metadata.get("precision") or {"BF16": "bf16", "F16": "fp16", "F32": "fp32", "F64": "fp64"}.get(task.tensors["q"][0], "bf16")
        settings = {name: as_number(x) for name, x in task.params.items() if name not in ("scale", "bandwidth")}
        return Task(task.mechanism, f"{q[0]},{tokens},{heads},{q[3]},{v[3]}", dtype, **settings)
    if isinstance(task, (tuple, list)):
        return Task(*task)
    if isinstance(task, dict):
        return of_definition(task, **axes) if "axes" in task else Task(**task)
    path = os.fspath(task)
    if path.endswith(".json"):
        try:
            definition = json.loads(read(path))
        except ValueError as error:
            raise InputError(f"{path}: is not JSON: {error}") from None
        if not isinstance(definition, dict) or not {"name", "axes", "inputs", "outputs"} <= set(definition):
            raise InputError(f"{path}: is no definition of flashinfer-bench or SOL-ExecBench: it needs name, axes, inputs and outputs")
        line = axes.pop("workload", None)
        return of_definition(definition, **{**(of_workload(path, line) if line is not None else {}), **axes})
    if path.endswith(".py"):
        from .hard import is_hard, of_file

        return (of_file if is_hard(read(path)) else KernelBench)(path, **axes)
    raise InputError(f"task: expected assay.case's arguments, a definition (.json), or a task of KernelBench (.py), got {task!r}")
