"""Progress of the work: on a terminal or in a notebook a line that comes after a second and goes away."""
import contextlib
import sys
import time


@contextlib.contextmanager
def shown(progress):
    """The listener of how far the work is: progress if it is there, else a line on a terminal or in a notebook, else None."""
    looks_on = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    if progress is not None or not looks_on:
        yield progress
        return
    line = Line()
    try:
        yield line
    finally:
        line.clear()


class Line:
    def __init__(self):
        self.start, self.length = time.monotonic(), 0

    def __call__(self, what, done, total):
        seconds = time.monotonic() - self.start
        if seconds >= 1:
            self.draw(f"assay: {what}, {f'{done}/{total}, ' if total else ''}{seconds:.0f} s")

    def draw(self, words):
        print("\r" + words.ljust(self.length), end="\r", file=sys.stderr, flush=True)
        self.length = len(words)

    def clear(self):
        if self.length:
            self.draw("")
