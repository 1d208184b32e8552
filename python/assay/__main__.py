"""The command line, `assay` or `python -m assay`: the program that `make build` makes, in Python's module; and the verbs that are
Python's own."""
import importlib
import os
import signal
import sys

OWN = {"bench": "._bench:main", "demo": "._demo:main", **{verb: f"._commands:{verb}" for verb in ("audit", "choose", "invariance", "pair")}}


def called_by(script):
    """The words that start this program in a shell. pathlib and shutil would take a third of the time that it starts in."""
    if os.path.basename(script) != "assay":
        return [sys.executable, "-m", "assay"]
    found = next((path for path in (os.path.join(folder, "assay") for folder in os.get_exec_path()) if os.access(path, os.X_OK)), None)
    return ["assay" if found == script else script]


def main(args=None):
    args = list(sys.argv[1:] if args is None else args)
    if args and args[0] in OWN:
        module, function = OWN[args[0]].split(":")
        return getattr(importlib.import_module(module, "assay"), function)(args[1:])
    from . import _native

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(args, called_by(sys.argv[0]))


if __name__ == "__main__":
    sys.exit(main())
