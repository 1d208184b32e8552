"""The command line, `assay` or `python -m assay`: the program that `make build` makes, in Python's module; and `assay audit` and
`assay demo`, which are Python's own."""
import importlib
import signal
import sys

OWN = {"audit": ".audits.command", "demo": "._demo"}


def main(args=None):
    args = list(sys.argv[1:] if args is None else args)
    if args and args[0] in OWN:
        return importlib.import_module(OWN[args[0]], "assay").main(args[1:])
    from . import _native

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(args)


if __name__ == "__main__":
    sys.exit(main())
