"""The command line, `assay` or `python -m assay`: the program that `make build` makes, in Python's module; and `assay audit`, which is
Python's own."""
import signal
import sys


def main(args=None):
    args = list(sys.argv[1:] if args is None else args)
    if args[:1] == ["audit"]:
        from .audits.command import main as audit

        return audit(args[1:])
    from . import _native

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(args)


if __name__ == "__main__":
    sys.exit(main())
