"""A program in readable form: expressions as one would write them, a name for what is used twice."""
import collections
import re


# How tightly they bind, as in Python.
OPERATORS = {"lt": (1, "<"), "le": (1, "<="), "eq": (1, "=="), "or": (2, "|"), "and": (3, "&"), "add": (4, "+"), "sub": (4, "-"),
             "mul": (5, "*"), "div": (5, "/"), "pow": (7, "**")}  # fmt: skip
PLAIN = ("scan", "get", "const", "int", "size", "iota", "expand")  # need no name of their own
DEEPEST = 24  # expressions in expressions
NAMES = {"max": "maximum", "select": "where"}
# Contractions that have a shorter name, by their indices in order of appearance.
PRODUCTS = {"a,ab->b": "{0} @ {1}", "ab,b->a": "{0} @ {1}", "ab,bc->ac": "{0} @ {1}", "a,ba->b": "{1} @ {0}", "ab,a->b": "{1} @ {0}"}
CALLS = {"a,b->ab": "outer({0}, {1})", "a,b->ba": "outer({1}, {0})", "a,a->": "dot({0}, {1})"}


def show(program):
    """The program as text, a line for each input and each named value."""
    words = {None: "none", True: "true", False: "false"}
    settings = "".join(f", {k} = {words[v] if v is None or v is True or v is False else v}" for k, v in sorted(program.settings.items()))
    lines = [program.name + settings]
    names = [i.name for i in program.inputs]
    width = max(map(len, names), default=0)
    for n, i in enumerate(program.inputs):
        kind = str(i.type) if i.gradient or i.domain == "cotangent" else "param" if i.type.kind == "real" else i.type.kind
        default = f" = {Text(i.default, names[:n]).plain(i.default.results[0])}" if i.default else ""
        lines.append(f"  {i.name:{width}}  {kind:<10} {i.domain}{default}")
    text = Text(program.body, names, dict(zip(program.body.results, program.outputs)))
    lines += ["", *("  " + line for line in text.statements())]
    lines += [f"  {name} = {text.plain(r)}" for name, r in zip(program.outputs, program.body.results) if text.plain(r) != name]
    return "\n".join(lines)


def stem(text, suffix=""):
    """A name for what a step sees of an operand, and its ending."""
    if m := re.fullmatch(r"iota\((\w+)\)", text):
        return m[1].lower() if m[1].isidentifier() else "i", ""
    return re.sub("^(d_)?(initial|final)_", "", text) if text.isidentifier() else "x", suffix


def free(name, suffix, taken):
    """The name with its ending, and before that a number where it is taken."""
    found, number = name + suffix, 2
    while found in taken:
        found, number = f"{name}{number}{suffix}", number + 1
    return found


class Text:
    """The text of one block's values. `names`: of its parameters, or texts and how tightly they bind; `wanted`: names for some of its
    values; `taken`: names around it."""

    def __init__(self, block, names, wanted=None, taken=()):
        names = [(9, name) if isinstance(name, str) else name for name in names]
        self.block, self.name, self.taken = block, dict(enumerate(names)), {*(text for _, text in names), *taken}
        self.number = collections.Counter()
        uses = collections.Counter([v for n in block.nodes for v in n.args] + block.results)
        depth = {}  # of the text of a value: brackets in brackets
        for v, n in enumerate(block.nodes, len(block.params)):
            name = (wanted or {}).get(v)
            depth[v] = 1 + max((depth.get(a, 0) for a in n.args), default=0)
            if name and name not in self.taken and n.op != "scan":
                self.name[v] = 9, self.fresh(name)
            elif uses[v] > 1 and n.op not in PLAIN or depth[v] > DEEPEST and n.op not in ("scan", "get"):
                self.name[v] = 9, self.fresh("t")
            depth[v] = 0 if v in self.name or n.op in ("scan", "get") else depth[v]

    def fresh(self, name):
        """A name that is not taken; a bare "t" gets a number."""
        found = name if name != "t" else "t1"
        while found in self.taken:
            self.number[name] += 1
            found = f"{name}{self.number[name]}"
        self.taken.add(found)
        return found

    def statements(self):
        """A line for each named value, in order."""
        lines = []
        for v, n in enumerate(self.block.nodes, len(self.block.params)):
            if n.op == "scan":
                lines += self.scan(v, n)
            elif v in self.name and n.op != "get":
                lines.append(f"{self.name[v][1]} = {self.node(n)[1]}")
        return lines

    def scan(self, v, n):
        """The lines of a scan: what goes in, the step, what comes out."""
        carry, xs, body = n.attrs["carry"], n.attrs["xs"], n.attrs["body"]
        gets = {m.attrs["i"]: w for w, m in enumerate(self.block.nodes, len(self.block.params)) if m.op == "get" and m.args[0] == v}
        for i, w in sorted(gets.items()):
            self.name[w] = self.name.get(w) or (9, self.fresh("t"))
        operands = [self.plain(a) for a in n.args]
        inner = []
        for i, a in enumerate(operands[: carry + xs]):
            inner.append(free(*stem(a, "" if i < carry else "_t"), self.taken.union(inner)))
        inner += operands[carry + xs :]
        results = {r: "next_" + inner[i] for i, r in enumerate(body.results[:carry])}
        names = inner[: carry + xs] + [(self.value(a)[0], name) for a, name in zip(n.args[carry + xs :], inner[carry + xs :])]
        step = Text(body, names, results, self.taken)
        states = ", ".join(f"{name} = {a}" for name, a in zip(inner, operands[:carry]))
        rows = ", ".join(f"{name} in {a}" for name, a in zip(inner[carry:], operands[carry : carry + xs]))
        lines = [f"for {rows}{', from the end' if n.attrs['reverse'] else ''}{'; ' + states if states else ''}:"]
        lines += ["    " + line for line in step.statements()]
        for i, r in enumerate(body.results[:carry]):
            lines.append(f"    {inner[i]} <- {step.plain(r)}")
        for i, r in enumerate(body.results[carry:], carry):
            lines.append(f"    row of {self.name[gets[i]][1] if i in gets else 'nothing'}: {step.plain(r)}")
        lines += [f"{self.name[w][1]} = the last {inner[i]}" for i, w in sorted(gets.items()) if i < carry]
        return lines

    def plain(self, v):
        return self.value(v)[1]

    def value(self, v):
        """How tightly the text of a value binds, and the text."""
        return self.name[v] if v in self.name else self.node(self.block.node(v))

    def at(self, v, level):
        binds, text = self.value(v)
        return text if binds >= level else f"({text})"

    def node(self, n):
        op, a = n.op, n.attrs
        if op in OPERATORS:
            level, sign = OPERATORS[op]
            return level, f"{self.at(n.args[0], level + (level in (1, 7)))} {sign} {self.at(n.args[1], level + 1)}"
        if op in ("neg", "not"):
            return 6, ("-" if op == "neg" else "~") + self.at(n.args[0], 6)
        if op in ("const", "int"):
            text = str(a["value"]).lower()
            return (5 if "/" in text else 6 if "-" in text else 9), text
        if op == "expand":
            return self.expanded(n)
        if op == "contract":
            return self.product(n)
        if op in ("real", "get"):
            return self.value(n.args[0]) if op == "real" else (9, f"{self.plain(n.args[0])}.{a['i']}")
        if op in ("index", "transpose"):
            return 8, self.at(n.args[0], 8) + (f"[{':, ' * a['axis']}{a['i']}]" if op == "index" else ".T")
        arguments = [self.plain(v) for v in n.args] + [f'"{x}"' if k == "site" else str(x) for k, x in a.items() if type(x) is not bool]
        arguments += [k for k in ("reverse", "definite") if a.get(k)]
        return 9, f"{NAMES.get(op, op)}({', '.join(arguments)})"

    def expanded(self, n):
        """Axes put in front are left out, as numpy does; others are None."""
        axes, v = [(n.attrs["at"])], n.args[0]
        while v not in self.name and self.block.node(v).op == "expand":
            axes.append(self.block.node(v).attrs["at"])
            v = self.block.node(v).args[0]
        layout = [":"] * len(self.block.type(v).shape)
        for at in reversed(axes):
            layout.insert(at, "None")
        while layout and layout[0] == "None":
            layout.pop(0)
        return (8, f"{self.at(v, 8)}[{', '.join(layout)}]") if "None" in layout else self.value(v)

    def product(self, n):
        order = {}
        spec = re.sub("[a-z]", lambda m: order.setdefault(m[0], chr(ord("a") + len(order))), n.attrs["spec"])
        if spec in PRODUCTS:
            return 5, PRODUCTS[spec].format(self.at(n.args[0], 6), self.at(n.args[1], 6))
        x, y = self.plain(n.args[0]), self.plain(n.args[1])
        return 9, CALLS[spec].format(x, y) if spec in CALLS else f'contract("{spec}", {x}, {y})'
