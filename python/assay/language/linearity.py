"""Linearity: how the values of a program depend on a group of its inputs, as far as its shape proves it."""
import functools

ZERO, FREE, LINEAR, AFFINE, OTHER = range(5)  # written zero; independent; sums of multiples; those plus what is independent; else
LINEAR_OPS = frozenset("neg transpose index expand sum shift cumsum real detach round get".split())


def added(a, b):
    """The degree of a sum, or of a choice between two."""
    if ZERO in (a, b) or a == b:
        return max(a, b)
    return OTHER if OTHER in (a, b) else AFFINE


def multiplied(a, b):
    if ZERO in (a, b):
        return ZERO
    return max(a, b) if FREE in (a, b) else OTHER


def degree(n, x, block):
    """The degree of a node's value; x: those of its operands. That of a scan is a list."""
    if n.op == "scan":
        return scan_degrees(n, tuple(x))
    if n.op == "get":
        return x[0][n.attrs["i"]]
    if n.op in ("add", "sub"):
        return added(*x)
    if n.op in ("mul", "contract"):
        return multiplied(*x)
    if n.op in ("div", "solve"):
        of, by = x if n.op == "div" else reversed(x)
        return of if by <= FREE else OTHER
    if n.op == "select":
        return added(x[1], x[2]) if x[0] <= FREE else OTHER
    if n.op == "const":
        return ZERO if n.attrs["value"] == "0" else FREE
    if n.op in LINEAR_OPS:
        return x[0]
    return FREE if all(d <= FREE for d in x) else OTHER


def degrees(block, params):
    found = list(params)
    for n in block.nodes:
        found.append(degree(n, [found[v] for v in n.args], block))
    return [found[r] for r in block.results]


@functools.lru_cache(maxsize=1000)  # scans in scans ask again and again
def scan_degrees(n, x):
    carry = n.attrs["carry"]
    states = list(x[:carry])
    while True:
        out = degrees(n.attrs["body"], states + list(x[carry:]))
        grown = [added(a, b) for a, b in zip(states, out)]
        if grown == states:
            return out
        states = grown


def linear_in(program, names):
    """The degree of every output in these inputs together, by name."""
    out = degrees(program.body, [LINEAR if i.name in names else FREE for i in program.inputs])
    return dict(zip(program.outputs, out))
