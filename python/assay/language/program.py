"""A program as data: types, nodes, blocks, inputs and outputs, and its JSON.

A block is a list of nodes with one value each; values are numbered, parameters first. Types of nodes are inferred when a node is
appended (infer.py) and never stored in a file.
"""
import dataclasses
import re

from .errors import MechanismError, shown

KINDS = ("real", "int", "bool")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
MAX_AXES, MAX_DEPTH, MAX_NODES, MAX_LENGTH = 8, 16, 100_000, 2**31 - 1
# Meanings of the numbers of an input, by the names of reference/core/field.hpp; `real` is anything, `cotangent` a gradient's input.
DOMAINS = (
    "real cotangent query key value probe state write_strength log_decay bandwidth scale ridge gain gradient_weight decay_fraction"
    " regularizer decay_floor normalizer logit layer_input weight temperature log_floor"
).split()


def is_axis(a):
    """Whether `a` is an axis: a name, or a written length."""
    return isinstance(a, str) and bool(NAME.fullmatch(a)) or type(a) is int and 1 <= a <= MAX_LENGTH


@dataclasses.dataclass(frozen=True)
class Type:
    """real, int or bool, with axes: names, or written lengths."""

    kind: str
    shape: tuple = ()

    def __str__(self):
        return " ".join([self.kind, *map(str, self.shape)])

    @staticmethod
    def parse(text):
        """The type that `text` writes, "real T 2 K". MechanismError if it writes none."""
        words = text.split(" ") if isinstance(text, str) else [""]
        axes = tuple(int(a) if re.fullmatch("[1-9][0-9]{0,9}", a) else a for a in words[1:])
        if words[0] not in KINDS or not all(map(is_axis, axes)):
            raise MechanismError(f"a type is real, int or bool and its axes, not {shown(text)}")
        if len(axes) > MAX_AXES:
            raise MechanismError(f"a type has at most {MAX_AXES} axes, not {len(axes)}")
        return Type(words[0], axes)


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
    """One operation on values of its block. The type of a scan is a tuple of types: `get` takes one. No two nodes are the same."""

    op: str
    args: tuple
    attrs: dict
    type: object

    def to_json(self):
        attrs = {k: a.to_json() if isinstance(a, Block) else a for k, a in self.attrs.items()}
        return [self.op, list(self.args)] + ([attrs] if attrs else [])


@dataclasses.dataclass
class Block:
    """Parameters, nodes in order, and which values are its results.

    `base` is the number of the first node: behind the parameters, or, while the parameters still grow, far behind them.
    """

    params: list
    nodes: list = dataclasses.field(default_factory=list)
    results: list = dataclasses.field(default_factory=list)
    base: int = None

    def first_node(self):
        return len(self.params) if self.base is None else self.base

    def node(self, v):
        """The node whose value is `v`; None for a parameter."""
        i = v - self.first_node()
        return self.nodes[i] if 0 <= i < len(self.nodes) else None

    def type(self, v):
        n = self.node(v)
        return n.type if n else self.params[v]

    def size(self):
        """Nodes, those of scans' bodies included."""
        return len(self.nodes) + sum(n.attrs["body"].size() for n in self.nodes if n.op == "scan")

    def has(self, op):
        return any(n.op == op or n.op == "scan" and n.attrs["body"].has(op) for n in self.nodes)

    def named_axes(self):
        """The named axes that operations bring in."""
        for n in self.nodes:
            if n.op == "scan":
                yield from n.attrs["body"].named_axes()
            else:
                yield from (n.attrs[k] for k in ("axis", "size") if isinstance(n.attrs.get(k), str))

    def to_json(self):
        return {"params": [str(t) for t in self.params], "nodes": [n.to_json() for n in self.nodes], "results": list(self.results)}


@dataclasses.dataclass(frozen=True)
class Input:
    """An input by its public name. A parameter of a mechanism is an input without axes and without gradient."""

    name: str
    type: Type
    domain: str = "real"
    default: Block = None
    gradient: bool = True
    hint: dict = None

    def to_json(self):
        j = {"name": self.name, "type": str(self.type), "domain": self.domain, "gradient": self.gradient}
        j["default"] = self.default.to_json() if self.default else None
        return {**j, "hint": self.hint} if self.hint else j


@dataclasses.dataclass(frozen=True)
class Program:
    """A mechanism with its settings: one body, its parameters the inputs, its results the outputs by name."""

    name: str
    inputs: list
    body: Block
    outputs: list
    settings: dict = dataclasses.field(default_factory=dict)

    def to_json(self):
        return {
            "format": "assay-mechanism",
            "version": self.version(),
            "name": self.name,
            "settings": self.settings,
            "inputs": [i.to_json() for i in self.inputs],
            "outputs": list(self.outputs),
            "body": self.body.to_json(),
        }

    def version(self):
        """3 if it solves systems of equations, else 2 if something is marked as rounded, else 1."""
        has = lambda op: any(b.has(op) for b in (self.body, *(i.default for i in self.inputs)) if b)
        return 3 if has("solve") else 2 if has("round") else 1

    def size(self):
        """Nodes of the body and of the defaults."""
        return self.body.size() + sum(i.default.size() for i in self.inputs if i.default)

    def output_types(self):
        return {name: self.body.type(r) for name, r in zip(self.outputs, self.body.results)}

    def check(self):
        """MechanismError unless every axis has its length from some input, there are not too many nodes, and outputs are real numbers."""
        known = {a for i in self.inputs for a in i.type.shape}
        for where, block in [("body", self.body)] + [(f"default of {i.name}", i.default) for i in self.inputs if i.default]:
            for axis in block.named_axes():
                if axis not in known:
                    raise MechanismError(f"{where}: no input has the axis {axis}, so that its length is unknown")
        if self.size() > MAX_NODES:
            raise MechanismError(f"the program has {self.size()} nodes, more than {MAX_NODES}")
        for name, t in self.output_types().items():
            if t.kind != "real":
                raise MechanismError(f"{name}: an output is real, not [{t}]")
