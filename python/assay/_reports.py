"""The judge's report on an answer."""
import html
import json
import os
import pathlib
import re
import shlex
import tempfile
import textwrap

from ._arrays import doubles
from ._cases import ANSWER, CASE, errors_in_python, save
from ._native import InputError
from ._truth import Expectation

# Verdicts that say nothing against a kernel.
PASSES = ("PASS", "UNSEEN")
# The command that is replaced by one with the files' paths, once they are saved.
COMMAND = f"build/assay check {CASE} {ANSWER}"

# Where reports of failures go: a function of the report, or None for a new folder under the temporary one. The pytest plugin sets it.
folder_of = None
# A listener to every report that a check comes to, or None. The pytest plugin sets it.
hears = None


def wrapped(lines):
    """Lines no wider than the judge's own (text_width of tools/print/escape.hpp), which go on as those do."""
    fit = textwrap.TextWrapper(100, subsequent_indent=6 * " ", break_long_words=False, break_on_hyphens=False)
    return [part for line in lines for part in fit.wrap(line)]


class Found:
    """What a check comes to: true if it has `passed`, and explained by its text."""

    def __bool__(self):
        return self.passed

    def explanation(self):
        """What the error says that is raised for it."""
        return str(self)


class Report(Found):
    """The verdicts on one answer. str() is what people read, rows what programs do; in a notebook it shows the page."""

    def __init__(self, case, answer, verdicts, notes=(), faults=()):
        self.case, self.answer = case, answer
        self.notes, self.faults = list(notes), list(faults)
        self._verdicts, self._page, self.folder = verdicts, None, None
        self.ranks = {}  # of several: those that are wrong, and in which tensors

    @property
    def page(self):
        """The page as JSON has it: rows, first_wrong, looks_like, ... (docs/check.md)."""
        if self._page is None:
            self._page = json.loads(self._verdicts.page("json", False))
        return self._page

    @property
    def rows(self):
        """One for each tensor: tensor, verdict, reason, where, model_excess, contract_excess, ...."""
        return self.page["rows"]

    @property
    def passed(self):
        """Whether nothing is said against the kernel: every tensor is PASS, or UNSEEN while others are not, and it did nothing
        that it must not do."""
        return self._verdicts.passed() and not self.faults

    @property
    def verdict(self):
        """PASS if every tensor is; else FAIL, or what the first that does not pass is."""
        if self.faults:
            return "FAIL"
        verdicts = [row["verdict"] for row in self.rows if row["verdict"] not in PASSES]
        return "FAIL" if "FAIL" in verdicts else (verdicts or ["PASS"])[0]

    def __getitem__(self, tensor):
        """The row of a tensor."""
        for row in self.rows:
            if row["tensor"] == tensor:
                return row
        raise InputError(f"{tensor}: was not judged; there are {', '.join(row['tensor'] for row in self.rows)}")

    def expected(self, tensor):
        """The expectation that the tensor was judged by, in doubles."""
        return Expectation.of(tensor, self._verdicts.expected(tensor)[0])

    def error(self, tensor):
        """The tensor's error as doubles, in the layout of the answer."""
        if tensor not in self.answer:
            raise InputError(f"{tensor}: the answer has no such tensor; it has {', '.join(self.answer)}")
        expected = self.expected(tensor)
        return doubles(self.answer[tensor]) - expected.value - expected.lo

    def __str__(self):
        return "\n".join([self._named(self._verdicts.page("table", True)).rstrip("\n"), *self._own_lines()])

    def explanation(self):
        """The first fault, its likely cause, the tensors that do not pass and where, and how to see it again."""
        lines = self._named(self._verdicts.complaints()).splitlines()
        at = next((i for i, line in enumerate(lines) if line.startswith("reproduce: ")), len(lines))
        notes = (f"note: {note}" for note in self.notes)
        return "\n".join([*wrapped(self.faults), *lines[:at], *wrapped(notes), *lines[at:], *self._origin()])

    def _own_lines(self):
        lines = [*(f"FAIL  {fault}" for fault in self.faults), *(f"note: {note}" for note in self.notes)]
        return [*wrapped(lines), *self._origin()]

    def _origin(self):
        return [f"case: {self.case.origin}"] if self.case.origin else []

    def _named(self, text):
        """Names in place of those that the judge was given: where the files are, once they are saved."""
        folder = self.folder or pathlib.Path()
        if folder.is_absolute() and folder.is_relative_to(pathlib.Path.cwd()):
            folder = folder.relative_to(pathlib.Path.cwd())
        command = " ".join(["assay check", *(shlex.quote(str(folder / name)) for name in (CASE, ANSWER))])
        return text.replace(COMMAND, command).replace("build/assay ", "assay ")

    def html(self):
        """A page of its own: one file without scripts."""
        page = self._verdicts.page("html", False).replace(html.escape(COMMAND), html.escape(self._named(COMMAND)))
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self._own_lines())
        return page.replace("</body>", lines + "</body>", 1)

    def plot(self, path):
        """Writes the page's drawings as a file, SVG or PNG: the matrix, and of each tensor that fails its errors over tokens and dimensions."""
        with errors_in_python():
            self._verdicts.plot(os.fspath(path))

    def _repr_html_(self):
        rows = max(3, len(self.rows)) + (0 if self.passed else 20)
        frame = f"width:100%;height:{14 + 2 * rows}em;border:0"
        return f'<iframe title="assay: {self.verdict}" style="{frame}" srcdoc="{html.escape(self.html())}"></iframe>'

    def save(self, folder=None):
        """Writes the case, the answer and the page into a folder, which is made; without one, under the temporary folder."""
        try:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="assay-") if folder is None else folder)
            folder.mkdir(parents=True, exist_ok=True)
            self.folder = folder
            save(folder / CASE, self.case.file())
            save(folder / ANSWER, (self.answer, {}))
            (folder / "report.html").write_text(self.html(), encoding="utf-8")
            (folder / "report.txt").write_text(f"{self}\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
        return folder

    def save_failure(self):
        """Saves what failed where it is looked for. A full disk does not hide the verdict."""
        try:
            self.save(folder_of(self) if folder_of else None)
        except InputError as error:
            self.folder = None
            self.notes.append(f"what the judge was given could not be saved: {error}")


def safe_name(name):
    """A name of a test as one of a folder."""
    return re.sub(r"[^\w.=,+-]+", "_", name).strip("_")[:150] or "case"
