"""The command line, `assay` or `python -m assay`: the program that `make build` makes, in Python's module."""
import signal
import sys


def main(args=None):
    from . import _native

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.program(list(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    sys.exit(main())
