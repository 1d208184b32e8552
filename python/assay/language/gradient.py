"""Reverse mode as a transformation: from a program the program of its gradients, in the same language.

A scan becomes a scan that gives its states as rows, and one from the end that recomputes a step from its state and goes back over it.
"""
import functools

from .build import Builder
from .canonical import canonical, canonical_block
from .errors import MechanismError
from .program import Block, Input, Program
from .rules import CONSTANT, Step, Writer, cotangents


def gradient(program):
    """The program of the gradients, in canonical form.

    Inputs: those of the program, and d_NAME for each output, the loss's derivative by it. Outputs: those of the program, and d_NAME for
    each input that has a gradient. MechanismError where the program has such a name already.
    """
    for name, others, what in [("d_" + o, [i.name for i in program.inputs], "input") for o in program.outputs] + [
        ("d_" + i.name, program.outputs, "output") for i in program.inputs if i.gradient
    ]:
        if name in others:
            raise MechanismError(f"{program.name}: its gradients need the name {name}, which is that of an {what}")
    body, types = program.body, [program.body.type(r) for r in program.body.results]
    write, n = Writer(Builder(body.params + types)), len(program.inputs)
    at, states = forward(write, body, list(range(n)))
    flags = [i.gradient for i in program.inputs]
    ct = collected(write, active(body, flags), zip(body.results, range(n, n + len(types))))
    backward(write, body, at, states, ct, flags)
    wanted = [(v, i) for v, i in enumerate(program.inputs) if i.gradient]
    found = [ct[v] if v in ct else write.constant("0", i.type) for v, i in wanted]
    write.builder.block.results = [at[r] for r in body.results] + found
    inputs = [Input("d_" + name, t, "cotangent", None, False) for name, t in zip(program.outputs, types)]
    outputs = list(program.outputs) + ["d_" + i.name for _, i in wanted]
    return canonical(Program(program.name, list(program.inputs) + inputs, write.builder.block, outputs, program.settings))


def active(block, flags):
    """The values that depend on what gradients are asked of: `flags`, one for each parameter. (v, i): result i of the scan v."""
    on = {v for v, wanted in enumerate(flags) if wanted and block.params[v].kind == "real"}
    for v, n in enumerate(block.nodes, len(block.params)):
        if n.op == "scan":
            on |= {(v, i) for i in active_scan(n, tuple(a in on for a in n.args))[1]}
        elif n.op == "get":
            on |= {v} if (n.args[0], n.attrs["i"]) in on and n.type.kind == "real" else set()
        elif n.op not in CONSTANT and n.type.kind == "real" and any(a in on for a in n.args):
            on.add(v)
    return on


@functools.lru_cache(maxsize=1000)  # scans in scans ask again and again
def active_scan(n, flags):
    """The flags of a scan's step, states that become active included, and which of its results are active."""
    carry, body = n.attrs["carry"], n.attrs["body"]
    while True:
        on = active(body, flags)
        grown = tuple(f or i < carry and body.results[i] in on for i, f in enumerate(flags))
        if grown == flags:
            return flags, {i for i, r in enumerate(body.results) if r in on or i < carry and flags[i]}
        flags = grown


def collected(write, on, pairs):
    """Cotangents by value, for those that are active; several of one value are added."""
    ct = {}
    for v, x in pairs:
        if v in on:
            ct[v] = write("add", ct[v], x) if v in ct else x
    return ct


def forward(write, block, args):
    """The block's nodes again, its scans with their states as further rows: the values, and the states of each scan."""
    at, states = list(args), {}
    for n in block.nodes:
        operands = [at[v] for v in n.args]
        if n.op == "scan":
            carry, body = n.attrs["carry"], n.attrs["body"]
            wide = Block(body.params, body.nodes, body.results + list(range(carry)))
            v = write("scan", *operands, **{**n.attrs, "body": wide})
            states[len(at)] = [write("get", v, i=len(body.results) + i) for i in range(carry)]
            at.append(v)
        else:
            at.append(write(n.op, *operands, **n.attrs))
    return at, states


def backward(write, block, at, states, ct, flags):
    """Completes `ct`, cotangents by value of the block, from its results down to its parameters."""
    on, of_scans = active(block, flags), {}

    def add(v, x):
        if v in on and x is not None:
            ct[v] = write("add", ct[v], x) if v in ct else x

    for i in range(len(block.nodes) - 1, -1, -1):
        v, n = len(block.params) + i, block.nodes[i]
        operands, wanted = [at[a] for a in n.args], [a in on for a in n.args]
        if n.op == "get" and v in ct:
            of_scans.setdefault(n.args[0], {})[n.attrs["i"]] = ct[v]
        elif n.op == "scan" and v in of_scans:
            for a, x in scan_cotangents(write, n, operands, states[v], of_scans[v], wanted).items():
                add(n.args[a], x)
        elif v in ct and n.op not in CONSTANT and n.op != "get":
            step = Step(write, n, ct[v], at[v], operands, [block.type(a) for a in n.args], wanted)
            for a, x in zip(n.args, cotangents(step)):
                add(a, x)


def scan_cotangents(write, n, operands, states, cts, wanted):
    """Cotangents of a scan's operands, by position. `cts`: those of its results, by number.

    The scan from the end carries the cotangents of states and the sums of those of outer values; its rows are the cotangents of the
    scan's rows, then the sequences and the states before each step.
    """
    carry, xs, body = n.attrs["carry"], n.attrs["xs"], n.attrs["body"]
    flags, _ = active_scan(n, tuple(wanted))
    of_states = [i for i in range(carry) if flags[i]]
    of_rows = [i for i in range(carry, len(body.results)) if i in cts]
    of_sequences = [i for i in range(carry, carry + xs) if flags[i]]
    of_outer = [i for i in range(carry + xs, len(operands)) if flags[i]]
    step = step_back(n, flags, of_states, of_rows, of_sequences, of_outer)
    zero = lambda i: write.constant("0", body.params[i])
    init = [cts[i] if i in cts else zero(i) for i in of_states] + [zero(i) for i in of_outer]
    rows = [cts[i] for i in of_rows] + operands[carry : carry + xs] + states
    v = write("scan", *init, *rows, *operands[carry + xs :], carry=len(init), xs=len(rows), reverse=not n.attrs["reverse"], body=step)
    return {i: write("get", v, i=j) for j, i in enumerate(of_states + of_outer + of_sequences)}


def step_back(n, flags, of_states, of_rows, of_sequences, of_outer):
    """The body of the scan from the end: from cotangents after a step to those before it."""
    carry, xs, body = n.attrs["carry"], n.attrs["xs"], n.attrs["body"]
    sequences, outer = body.params[carry : carry + xs], body.params[carry + xs :]
    types = [body.params[i] for i in of_states + of_outer] + [body.type(body.results[i]) for i in of_rows]
    write = Writer(Builder(types + sequences + body.params[:carry] + outer))
    first_row = len(of_states) + len(of_outer)
    first_sequence = first_row + len(of_rows)
    first_state = first_sequence + xs
    numbers = range(first_state, first_state + carry), range(first_sequence, first_state)
    at, states = forward(write, body, [*numbers[0], *numbers[1], *range(first_state + carry, len(write.builder.block.params))])
    after = [(body.results[i], j) for j, i in enumerate(of_states)] + [(body.results[i], first_row + j) for j, i in enumerate(of_rows)]
    ct = collected(write, active(body, flags), after)
    backward(write, body, at, states, ct, flags)
    found = lambda i: ct[i] if i in ct else write.constant("0", body.params[i])
    sums = [write("add", len(of_states) + j, found(i)) for j, i in enumerate(of_outer)]
    write.builder.block.results = [found(i) for i in of_states] + sums + [found(i) for i in of_sequences]
    return canonical_block(write.builder.block)
