"""The command line, `assay` or `python -m assay`: the program that `make build` makes, in Python's module; and the verbs that are
Python's own."""
import importlib
import pathlib
import shlex
import shutil
import signal
import sys

OWN = {"demo": "._demo:main", **{verb: f"._commands:{verb}" for verb in ("audit", "choose", "invariance", "pair")}}


def main(args=None):
    args = list(sys.argv[1:] if args is None else args)
    if args and args[0] in OWN:
        module, function = OWN[args[0]].split(":")
        return getattr(importlib.import_module(module, "assay"), function)(args[1:])
    from . import _native

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    script = pathlib.Path(sys.argv[0])
    words = [str(script)] if script.name == "assay" else [sys.executable, "-m", "assay"]
    return _native.program(args, "assay" if shutil.which("assay") == str(script) else shlex.join(words))


if __name__ == "__main__":
    sys.exit(main())
