"""The canonical form: one text for one computation, however it was spelled; its SHA-256 is the program's digest."""
import dataclasses
import hashlib
import json

from .build import Builder, cancels
from .program import Block, Node


def canonical_block(block):
    """The block with its live nodes alone, equal ones merged, in depth-first order from the results."""
    out, at, plain = Builder(block.params), {v: v for v in range(len(block.params))}, resolved(block)
    pending = [plain[r] for r in reversed(block.results)]
    bodies = {}  # of scans on the way: the canonical body, and the operands that it reads
    while pending:
        v = pending.pop()
        if v in at:
            continue
        n = block.node(v)
        if n.op == "scan" and v not in bodies:
            bodies[v] = canonical_scan(n)
        attrs, args = bodies.get(v, (n.attrs, n.args))
        args = [plain[a] for a in args]
        missing = [a for a in args if a not in at]
        if missing:
            pending += [v, *reversed(missing)]
        else:
            at[v] = out.emit(n.op, *[at[a] for a in args], **attrs)
    out.block.results = [at[plain[r]] for r in block.results]
    return out.block


def resolved(block):
    """For every value the one that it is, broadcasts that undo each other and double negations looked through."""
    plain = {v: v for v in range(len(block.params))}
    for i, n in enumerate(block.nodes):
        v = block.first_node() + i
        again = cancels(block, n.op, [plain[a] for a in n.args], n.attrs)
        plain[v] = v if again is None else plain[again]
    return plain


def canonical_scan(n):
    """A scan's attributes and operands with its body canonical and its outer values those that the body reads, in that order."""
    body, first = canonical_block(n.attrs["body"]), n.attrs["carry"] + n.attrs["xs"]
    reads = [v for m in body.nodes for v in m.args] + body.results
    used = list(dict.fromkeys(v for v in reads if first <= v < len(body.params)))
    number = {v: v for v in range(first)} | {v: first + i for i, v in enumerate(used)}
    dropped = len(body.params) - first - len(used)
    moved = lambda v: number[v] if v < len(body.params) else v - dropped
    nodes = [Node(m.op, tuple(map(moved, m.args)), m.attrs, m.type) for m in body.nodes]
    params = body.params[:first] + [body.params[v] for v in used]
    body = Block(params, nodes, [moved(r) for r in body.results])
    return {**n.attrs, "body": body}, list(n.args[:first]) + [n.args[v] for v in used]


def canonical(program):
    """The program in canonical form: outputs in alphabetical order, all blocks canonical."""
    order = sorted(range(len(program.outputs)), key=lambda i: program.outputs[i])
    body = program.body
    body = canonical_block(Block(body.params, body.nodes, [body.results[i] for i in order], body.base))
    inputs = [dataclasses.replace(i, default=canonical_block(i.default)) if i.default else i for i in program.inputs]
    return dataclasses.replace(program, inputs=inputs, body=body, outputs=[program.outputs[i] for i in order])


def compact(data):
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def write(program):
    """The canonical JSON text."""
    return compact(canonical(program).to_json())


def digest(program):
    """SHA-256 of what is computed: names, settings and hints for generators do not belong to it."""
    data = canonical(program).to_json()
    del data["name"], data["settings"]
    for i in data["inputs"]:
        i.pop("hint", None)
    return hashlib.sha256(compact(data).encode()).hexdigest()
