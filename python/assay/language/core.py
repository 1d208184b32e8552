"""The core's answers to programs: through the compiled module, or, in a checkout without one, through the program that ASSAY names."""
import json
import os
import subprocess
import tempfile

from .build import Builder
from .canonical import write
from .errors import MechanismError
from .program import Input, Program, Type


def gradient(program):
    """The program of the gradients (docs/mechanism-language.md, "The file"). MechanismError where names of two things would be one."""
    return exported(write(program), "--gradient")


def read(text):
    """The program that a file's text, or its bytes, holds, in canonical form. MechanismError says what is wrong with it."""
    return exported(text)


def exported(text, *flags):
    """The program that `assay mechanism export` writes of a program's text."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "program.json")
        with open(file, "wb") as out:
            out.write(text if isinstance(text, bytes) else text.encode())
        code, written, complaint = verb(["mechanism", "export", file, *flags])
    if code:
        raise MechanismError(complaint.strip().removeprefix("assay: ").replace(file + ": ", ""))
    return program_of(json.loads(written))


def verb(words):
    """Exit code, output and complaints of the command line."""
    try:
        from .. import _native
    except ImportError:
        pass
    else:
        return _native.verb(words, None)
    if not os.environ.get("ASSAY"):
        raise MechanismError("gradients, and programs as JSON, need the compiled module (pip install .) or ASSAY=build/assay in the environment")
    try:
        ran = subprocess.run([os.environ["ASSAY"], *words], capture_output=True, text=True)
    except OSError as error:
        raise MechanismError(f"ASSAY={os.environ['ASSAY']}: {error.strerror}") from None
    return ran.returncode, ran.stdout, ran.stderr


def program_of(data):
    """The program of a file's JSON, which the core has read."""
    inputs = [
        Input(i["name"], Type.parse(i["type"]), i["domain"], i["default"] and block_of(i["default"]), i["gradient"], i.get("hint"))
        for i in data["inputs"]
    ]
    return Program(data["name"], inputs, block_of(data["body"]), data["outputs"], data["settings"])


def block_of(data):
    b = Builder([Type.parse(t) for t in data["params"]])
    for op, args, *more in data["nodes"]:
        attrs = more[0] if more else {}
        b.append(op, args, {**attrs, "body": block_of(attrs["body"])} if op == "scan" else attrs)
    b.block.results = data["results"]
    return b.block
