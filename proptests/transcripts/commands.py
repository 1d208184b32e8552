"""Commands that transcripts call beside the tool: they make files that are wrong in one place, and read a page's JSON.

    edit FROM TO CHANGE...   writes a safetensors file with changes to TO. A CHANGE is one of
        NAME = FORMULA    each number x at index i becomes that: "o = -x", "d_q = nan if i[1] == 66 else x"
        NAME as DTYPE     the numbers rounded once to BF16, F16, F32 or F64, integers as I64, I32, U8 or BOOL; "NAME is DTYPE"
                          changes the word alone
        NAME shape 2,70   the same bytes in another shape
        NAME zeros DTYPE [2,5] zeros in another shape, or a tensor more; without a shape one number
        NAME to OTHER     under another name; "NAME copies OTHER" is a second one with the same numbers
        without NAME      no such tensor
        @KEY = TEXT       metadata; "without @KEY" is a file that has none
        answers DTYPE     of what `assay oracle` has answered the values alone, each rounded once
    tell FORMULA FILE...     a formula about safetensors files a, b, ...: a["o"] are the numbers of a tensor, a.shape["o"] is its shape,
                             a.metadata["status"] a text
    pick PATH [KEY...]       of JSON on standard input what lies at PATH, as in rows.0.command: of a list the KEYs of each row.
                             Of a number four digits are shown, which no machine's mathematical library changes
    rewrite FILE STATEMENTS  changes a JSON file by statements of Python about `page`
    terminal COMMAND         what COMMAND prints where its standard output is a terminal
"""
import itertools
import json
import math
import os
import struct
import sys

FORMATS = {"F64": "d", "F32": "f", "F16": "e", "BF16": "H", "I64": "q", "I32": "i", "U8": "B", "BOOL": "?"}


def in_bf16(x):
    """The bits of the nearest number in bf16, ties to even.

    >>> [hex(in_bf16(x)) for x in (1.0, -2.0, 1 + 2**-8, 1 + 3 * 2**-8, float("inf"))]
    ['0x3f80', '0xc000', '0x3f80', '0x3f82', '0x7f80']
    """
    if math.isfinite(x) and x:
        spacing = 2.0 ** max(math.frexp(x)[1] - 8, -133)
        x = round(x / spacing) * spacing
    return struct.unpack("<I", struct.pack("<f", x))[0] >> 16


def numbers(dtype, data):
    values = struct.unpack(f"<{len(data) // struct.calcsize(FORMATS[dtype])}{FORMATS[dtype]}", data)
    return [struct.unpack("<f", struct.pack("<I", x << 16))[0] for x in values] if dtype == "BF16" else list(values)


def stored(dtype, values):
    values = [in_bf16(x) for x in values] if dtype == "BF16" else values
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


class File:
    """A safetensors file as dictionaries: its metadata, and [dtype, shape, bytes] by name."""

    def __init__(self, path):
        with open(path, "rb") as file:
            content = file.read()
        begin = 8 + struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:begin])
        self.metadata = header.pop("__metadata__", {})
        self.tensors = {name: [entry["dtype"], entry["shape"], content[begin + entry["data_offsets"][0] : begin + entry["data_offsets"][1]]]
                        for name, entry in header.items()}

    def __getitem__(self, name):
        dtype, _, data = self.tensors[name]
        return numbers(dtype, data)

    @property
    def shape(self):
        return {name: shape for name, (_, shape, _) in self.tensors.items()}

    def write(self, path):
        header, data = {"__metadata__": self.metadata}, b""
        for name, (dtype, shape, own) in sorted(self.tensors.items()):
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(own)]}
            data += own
        words = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(words)) + words + data)

    def change(self, change):
        words = change.split(None, 2)
        if words[0] == "without":
            self.metadata.pop(words[1][1:]) if words[1].startswith("@") else self.tensors.pop(words[1])
        elif words[0] == "answers":
            kept = {name: tensor for name, tensor in self.tensors.items() if "." not in name}
            self.tensors = {name: [words[1], shape, stored(words[1], numbers(dtype, data))] for name, (dtype, shape, data) in kept.items()}
        elif words[0].startswith("@"):
            self.metadata[words[0][1:]] = words[2]
        elif words[1] == "copies":
            self.tensors[words[0]] = self.tensors[words[2]]
        elif words[1] == "zeros":
            dtype, *lengths = words[2].split()
            shape = [int(n) for n in lengths[0].split(",")] if lengths else []
            self.tensors[words[0]] = [dtype, shape, stored(dtype, [0.0] * math.prod(shape))]
        elif words[1] == "to":
            self.tensors[words[2]] = self.tensors.pop(words[0])
        else:
            self.tensors[words[0]] = self.changed(*self.tensors[words[0]], *words[1:])

    @staticmethod
    def changed(dtype, shape, data, verb, what):
        if verb == "is":
            return [what, shape, data]
        if verb == "shape":
            return [dtype, [int(n) for n in what.split(",")], data]
        if verb == "as":
            return [what, shape, stored(what, numbers(dtype, data))]
        formula = compile(what, what, "eval")
        indices = itertools.product(*map(range, shape))
        values = [eval(formula, {"x": x, "i": i, "nan": math.nan}) for x, i in zip(numbers(dtype, data), indices)]
        return [dtype, shape, stored(dtype, values)]


def edit(path, to, *changes):
    file = File(path)
    for change in changes:
        file.change(change)
    file.write(to)


def tell(formula, *paths):
    files = dict(zip("abc", map(File, paths)))
    print(eval(formula, {**files, "math": math}))


def pick(path, *keys):
    found = json.load(sys.stdin)
    for key in path.split("."):
        found = found[int(key) if isinstance(found, list) else key]

    def shown(value):
        return value if isinstance(value, str) else f"{value:.4g}" if isinstance(value, float) else json.dumps(value)

    print(*(["  ".join(shown(row[key]) for key in keys).rstrip() for row in found] if keys else [shown(found)]), sep="\n")


def rewrite(path, statements):
    with open(path) as file:
        page = json.load(file)
    exec(statements, {"page": page})
    with open(path, "w") as file:
        json.dump(page, file)


def terminal(*command):
    ours, theirs = os.openpty()
    child = os.posix_spawnp(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 1)])
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    print(said.decode().replace("\r\n", "\n").replace("\x1b", "ESC"), end="")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


COMMANDS = {"edit": edit, "tell": tell, "pick": pick, "rewrite": rewrite, "terminal": terminal}

if __name__ == "__main__":
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
