"""Continuation: which states enter and leave a program in pairs, and whether a run may be cut in two between them."""


def state_pairs(program):
    """(initial_X, final_X) of one type: a run may be cut between two tokens."""
    types = program.output_types()
    return [
        (i.name, final)
        for i in program.inputs
        if i.name.startswith("initial_") and types.get(final := "final_" + i.name.removeprefix("initial_")) == i.type
    ]


def continues(program, pairs):
    """Whether two runs with the states of these pairs carried are proved to be one run.

    So it is where the only thing that sees more than one row is one scan in order over the rows, whose states are the pairs; what goes
    into it and comes out of it is worked out row by row.
    """
    numbers = {i.name: v for v, i in enumerate(program.inputs)}
    last = {numbers[a]: program.body.results[program.outputs.index(b)] for a, b in pairs}
    body, scans = program.body, [v for v, n in enumerate(program.body.nodes, len(program.body.params)) if n.op == "scan"]
    if len(scans) != 1:
        return False
    n = body.node(scans[0])
    axis = body.type(n.args[n.attrs["carry"]]).shape[0]
    gets = {m.attrs["i"]: v for v, m in enumerate(body.nodes, len(body.params)) if m.op == "get"}
    states = {a: gets.get(i) for i, a in enumerate(n.args[: n.attrs["carry"]])}
    if n.attrs["reverse"] or states != last:
        return False
    outside = [m for m in body.nodes if m.op not in ("scan", "get")]
    if any(sees_rows(m, [body.type(v) for v in m.args], axis) for m in outside) or reads_length(n.attrs["body"], axis):
        return False
    whole = [v for v in n.args[n.attrs["carry"] + n.attrs["xs"] :] if axis in body.type(v).shape]
    after = [v for m in outside for v in m.args if v in last.values()]
    rows = [r for r in body.results if r not in last.values()]
    return not whole and not after and all(body.type(r).shape[:1] == (axis,) for r in rows)


def sees_rows(n, types, axis):
    """Whether a node's row depends on more than that row of its operands, or on where it stands."""
    if n.op in ("iota", "size"):
        return n.attrs["axis"] == axis
    if n.op in ("sum", "contract"):
        return any(axis in t.shape for t in types) and (n.type.shape[:1] != (axis,) or n.type.shape.count(axis) > 1)
    moves = n.op in ("shift", "cumsum", "transpose", "softmax", "logsumexp", "solve", "scan")
    return moves and any(axis in t.shape for t in types)


def reads_length(block, axis):
    """Whether a step reads the length of the axis, or where a row stands along it."""
    inner = [n.attrs["body"] for n in block.nodes if n.op == "scan"]
    return any(n.attrs.get("axis") == axis for n in block.nodes) or any(reads_length(b, axis) for b in inner)
