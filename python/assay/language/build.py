"""Appending nodes to a block."""
import json

from .infer import infer
from .program import Block, Node


def key(op, args, attrs):
    """A text that is equal for equal nodes."""
    return json.dumps(Node(op, args, attrs, None).to_json(), sort_keys=True)


def cancels(block, op, args, attrs):
    """The value that a node merely repeats: index of expand at the same place, neg of neg. None if it does something."""
    inner = block.node(args[0]) if args else None
    if inner and op == "neg" == inner.op or inner and op == "index" and inner.op == "expand" and inner.attrs["at"] == attrs["axis"]:
        return inner.args[0]
    return None


class Builder:
    """Builds a block of which equal nodes are one, and in which broadcasts that undo each other do not appear."""

    def __init__(self, params, base=None):
        self.block, self.seen = Block(list(params), base=base), {}

    def append(self, op, args, attrs):
        """One more node, whatever it repeats; its value's number. MechanismError where the operation does not fit."""
        block = self.block
        block.nodes.append(Node(op, tuple(args), attrs, infer(op, [block.type(v) for v in args], attrs)))
        return block.first_node() + len(block.nodes) - 1

    def emit(self, op, *args, **attrs):
        """The value of an operation: that of an equal node, if there is one."""
        again = cancels(self.block, op, args, attrs)
        if again is not None:
            return again
        k = key(op, args, attrs)
        if k not in self.seen:
            self.seen[k] = self.append(op, args, attrs)
        return self.seen[k]
