"""Reading a program: JSON in, a validated program out, or one sentence that names the node."""
import json
import re

from .build import Builder
from .errors import MechanismError, shown
from .program import DOMAINS, MAX_DEPTH, MAX_NODES, NAME, Input, Program, Type

MAX_BYTES = 32 * 2**20
OUTPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
TOP = ("format", "version", "name", "settings", "inputs", "outputs", "body")


def read(text):
    """The program that a file's text (or its bytes) holds. MechanismError says what is wrong with it."""
    j = keyed(parse(text), "the file", TOP)
    if j["format"] != "assay-mechanism" or type(j["version"]) is not int or j["version"] not in (1, 2, 3):
        raise MechanismError("this is no assay-mechanism of version 1, 2 or 3")
    require_name(j["name"], "name")
    settings = read_settings(j["settings"])
    budget = [MAX_NODES]
    inputs = read_inputs(j["inputs"], budget)
    body = Reader(budget).block(j["body"], "body")
    if body.params != [i.type for i in inputs]:
        raise MechanismError("body: its parameters are not the inputs")
    outputs = listed(j["outputs"], "outputs")
    for name in outputs:
        if not (isinstance(name, str) and OUTPUT.fullmatch(name) and len(name) <= 64):
            raise MechanismError(f"outputs: {shown(name)} is no name")
    if not outputs:
        raise MechanismError("outputs: there is none")
    if len(outputs) != len(body.results) or len(set(outputs)) != len(outputs):
        raise MechanismError(f"outputs: {len(set(outputs))} names for {len(body.results)} results of the body")
    program = Program(j["name"], inputs, body, outputs, settings)
    if j["version"] < program.version():
        op, version = ("round", 2) if program.version() == 2 else ("solve", 3)
        raise MechanismError(f"{op} is of version {version}, and the file is of version {j['version']}")
    check(program)
    return program


def parse(text):
    """JSON with neither binary numbers nor repeated keys."""

    def once(pairs):
        if len(dict(pairs)) != len(pairs):
            names = [k for k, _ in pairs]
            raise MechanismError(f"the key {shown(next(k for k in names if names.count(k) > 1))} occurs twice")
        return dict(pairs)

    def refuse(number):
        raise MechanismError(f'{shown(number)[1:-1]}: numbers are strings, as in "1/10"')

    def integer(digits):
        return int(digits) if len(digits) <= 20 else refuse(digits)

    if len(text) > MAX_BYTES:
        raise MechanismError(f"the file has more than {MAX_BYTES} bytes")
    try:
        text = text.decode() if isinstance(text, bytes) else text
        return json.loads(text, object_pairs_hook=once, parse_float=refuse, parse_int=integer, parse_constant=refuse)
    except UnicodeDecodeError as error:
        raise MechanismError(f"the file is not UTF-8: {error.reason} at byte {error.start}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise MechanismError(f"this is no JSON: {error}") from None


def keyed(x, where, required, optional=()):
    """`x`, an object with exactly these keys."""
    if not isinstance(x, dict):
        raise MechanismError(f"{where}: expected an object, not {shown(x)}")
    for k in required:
        if k not in x:
            raise MechanismError(f"{where}: the key {k} is missing")
    for k in x:
        if k not in required and k not in optional:
            raise MechanismError(f"{where}: there is no key {shown(k)}")
    return x


def listed(x, where):
    if not isinstance(x, list):
        raise MechanismError(f"{where}: expected a list, not {shown(x)}")
    return x


def require_name(x, where):
    if not (isinstance(x, str) and NAME.fullmatch(x)):
        raise MechanismError(f"{where}: {shown(x)} is no name")
    return x


def read_settings(x):
    if not isinstance(x, dict):
        raise MechanismError(f"settings: expected an object, not {shown(x)}")
    for k, v in x.items():
        require_name(k, "settings")
        fits = v is None or isinstance(v, bool) or isinstance(v, int) and abs(v) < 2**63 or isinstance(v, str) and v.isprintable()
        if not fits:
            raise MechanismError(f"settings.{k}: expected a text, an integer of 64 bits, a truth value or null, not {shown(v)}")
    return x


def read_inputs(x, budget):
    found = []
    for i, j in enumerate(listed(x, "inputs")):
        keyed(j, f"inputs.{i}", ("name", "type", "domain", "default", "gradient"), ("hint",))
        name = require_name(j["name"], f"inputs.{i}")
        if name in (other.name for other in found):
            raise MechanismError(f"inputs.{i}: there are two inputs {name}")
        found.append(read_input(j, name, [other.type for other in found], budget))
    return found


def read_input(j, name, before, budget):
    """One input; `before`: the types of those before it, which its default may read."""
    try:
        t = Type.parse(j["type"])
    except MechanismError as error:
        raise MechanismError(f"{name}: {error}") from None
    if j["domain"] not in DOMAINS:
        raise MechanismError(f"{name}: there is no domain {shown(j['domain'])}")
    if type(j["gradient"]) is not bool or t.kind != "real" and (j["gradient"] or t.shape):
        raise MechanismError(f"{name}: only real inputs have a gradient or axes")
    if "hint" in j:
        hint = keyed(j["hint"], f"{name}: hint", (), ("low", "high", "unit"))
        if not all(isinstance(v, str) and v.isprintable() and len(v) <= 64 for v in hint.values()):
            raise MechanismError(f"{name}: hint: expected texts")
    default = None
    if j["default"] is not None:
        default = Reader(budget).block(j["default"], f"default of {name}")
        if default.params != before:
            raise MechanismError(f"default of {name}: its parameters are not the inputs before it")
        if [default.type(r) for r in default.results] != [t]:
            raise MechanismError(f"default of {name}: its result is not one [{t}]")
    return Input(name, t, j["domain"], default, j["gradient"], j.get("hint"))


class Reader:
    """Blocks, out of a budget of nodes that a file's blocks share."""

    def __init__(self, budget):
        self.budget = budget

    def block(self, j, where, depth=0):
        if depth > MAX_DEPTH:
            raise MechanismError(f"{where}: scans are nested more than {MAX_DEPTH} deep")
        keyed(j, where, ("params", "nodes", "results"))
        try:
            b = Builder([Type.parse(t) for t in listed(j["params"], where)])
        except MechanismError as error:
            raise MechanismError(f"{where}: {error}") from None
        for i, node in enumerate(listed(j["nodes"], where)):
            self.node(b, node, where, i, depth)
        b.block.results = listed(j["results"], where)
        for r in b.block.results:
            if type(r) is not int or not 0 <= r < len(b.block.params) + len(b.block.nodes):
                raise MechanismError(f"{where}: there is no value {shown(r)}")
            if isinstance(b.block.type(r), tuple):
                raise MechanismError(f"{where}: the result {r} is a scan: get takes its results apart")
        return b.block

    def node(self, b, node, where, i, depth):
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise MechanismError(f"{where}: the file has more than {MAX_NODES} nodes")
        if not (isinstance(node, list) and len(node) in (2, 3) and isinstance(node[0], str) and isinstance(node[1], list)):
            raise MechanismError(f'{where}: node {i}: expected ["operation", [operands], {{attributes}}], not {shown(node)}')
        op, args, attrs = node if len(node) == 3 else (*node, {})
        at = f"{where}: node {i} ({op[:20]})"
        if not isinstance(attrs, dict) or len(node) == 3 and not attrs:
            raise MechanismError(f"{at}: attributes are an object, and left out where there are none")
        if "body" in attrs:
            attrs = {**attrs, "body": self.block(attrs["body"], f"{where}.{i}", depth + 1)}
        if not all(type(v) is int for v in args):
            raise MechanismError(f"{at}: operands are numbers of values, not {shown(args)}")
        try:
            b.append(op, args, attrs)
        except MechanismError as error:
            raise MechanismError(f"{at}: {error}") from None


def axes_of(block):
    """The named axes that a block's operations bring in."""
    for n in block.nodes:
        if n.op == "scan":
            yield from axes_of(n.attrs["body"])
        else:
            yield from (n.attrs[k] for k in ("axis", "size") if isinstance(n.attrs.get(k), str))


def check(program):
    """What concerns a program as a whole: every axis has its length from some input, and outputs are real numbers."""
    known = {a for i in program.inputs for a in i.type.shape}
    blocks = [("body", program.body)] + [(f"default of {i.name}", i.default) for i in program.inputs if i.default]
    for where, block in blocks:
        for axis in axes_of(block):
            if axis not in known:
                raise MechanismError(f"{where}: no input has the axis {axis}, so that its length is unknown")
    if program.size() > MAX_NODES:
        raise MechanismError(f"the program has {program.size()} nodes, more than {MAX_NODES}")
    for name, t in program.output_types().items():
        if t.kind != "real":
            raise MechanismError(f"{name}: an output is real, not [{t}]")
