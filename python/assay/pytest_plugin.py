"""The pytest plugin: tests that run once for each of many cases, and a folder for what fails.

    @pytest.mark.assay_cases("gated_deltanet", shape=[(2, 100, "8/4", 64), (1, 65, 2, 64)], dtype=["bf16", "fp32"], seed=range(3))
    def test_kernel(assay_case):
        assay.check(assay_case, my_kernel)

`pytest --assay-report=DIR` saves the case, the answer and a page of each failure in DIR/TEST. `--assay-update-baseline` writes the errors of
these tests into a file, `--assay-baseline=FILE` fails where they have grown since. Under pytest-xdist, too: worker n of it sees GPU n mod N
alone.
"""
import itertools
import os
import pathlib
import re

import pytest

MARK = "assay_cases"
BASELINE = "assay-baseline.json"


def pytest_addoption(parser):
    group = parser.getgroup("assay")
    group.addoption("--assay-report", metavar="DIR", help="save the case, the answer and a page of each assay.check that fails in DIR/TEST")
    group.addoption("--assay-baseline", metavar="FILE", help="fail where errors have grown by more than they differ from seed to seed since FILE was written")
    group.addoption("--assay-update-baseline", action="store_true", help=f"write the errors into that file, {BASELINE} without a name")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests():
    """Before anything of the tests is imported, for a framework asks once which devices it sees."""
    worker = re.fullmatch(r"gw(\d+)", os.environ.get("PYTEST_XDIST_WORKER", ""))
    there = gpus()
    if worker and there:
        os.environ["CUDA_VISIBLE_DEVICES"] = there[int(worker[1]) % len(there)]


def gpus(devices="/dev"):
    """The names of the GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, or the numbers of all."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name.strip() for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    return [str(i) for i, _ in enumerate(pathlib.Path(devices).glob("nvidia[0-9]*"))]


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        f"{MARK}(mechanism, shape, dtype='bf16', ...): run the test with each of these cases as assay_case; an argument that is a list or a"
        " range has several values",
    )
    if config.getoption("--assay-baseline") or config.getoption("--assay-update-baseline"):
        config.pluginmanager.register(Errors(config), "assay-errors")


class Errors:
    """The errors of all tests of this session, and of its workers."""

    def __init__(self, config):
        self.config, self.rows, self.worse, self.said = config, {}, [], ""
        self.path = pathlib.Path(config.invocation_params.dir, config.getoption("--assay-baseline") or BASELINE)
        self.updates = config.getoption("--assay-update-baseline")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item):
        from . import _baselines, _reports

        spec = getattr(item, "callspec", None)
        spec = spec.params.get("assay_case") if spec is not None else None
        if spec is None:
            yield
            return
        seed = spec[1].get("seed", 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_reports, "hears", lambda report: _baselines.record(self.rows, item.nodeid, seed, report))
            yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error):
        from . import _baselines

        _baselines.merge(self.rows, getattr(node, "workeroutput", {}).get("assay_rows", {}))

    def pytest_sessionfinish(self, session):
        from . import _baselines
        from ._native import InputError

        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["assay_rows"] = self.rows
            return
        try:
            if self.updates:
                _baselines.save(self.path, self.rows)
                self.said = f"{self.path.name}: the errors of {len(self.rows)} tests"
            else:
                self.worse = _baselines.compare(_baselines.load(self.path), self.rows)
                self.said = f"{self.path.name}: {len(self.worse)} errors have grown"
        except InputError as error:
            self.worse, self.said = [str(error)], f"{self.path.name}: not compared"
        if self.worse and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        if self.said:
            terminalreporter.section("assay's baseline")
            for line in [*self.worse, self.said]:
                terminalreporter.write_line(line)


def choices(value):
    return list(value) if isinstance(value, (list, range)) else [value]


def name_of(value):
    if isinstance(value, tuple):
        return "x".join(str(x).replace("/", "_") for x in value)
    return str(value)


def pytest_generate_tests(metafunc):
    marks = list(metafunc.definition.iter_markers(MARK))
    if not marks:
        return
    if "assay_case" not in metafunc.fixturenames:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: a test marked {MARK} takes the argument assay_case")
    specs, ids = [], []
    for mark in reversed(marks):
        names = [*range(len(mark.args)), *mark.kwargs]
        for values in itertools.product(*(choices(x) for x in [*mark.args, *mark.kwargs.values()])):
            args = values[: len(mark.args)]
            specs.append((args, dict(zip(mark.kwargs, values[len(mark.args) :]))))
            ids.append("-".join(name_of(x) if isinstance(n, int) or n in ("shape", "dtype") else f"{n}={name_of(x)}" for n, x in zip(names, values)))
    metafunc.parametrize("assay_case", specs, ids=ids, indirect=True)


@pytest.fixture
def assay_case(request):
    """The case of a test that is marked with assay_cases."""
    if not hasattr(request, "param"):
        raise pytest.UsageError(f"{request.node.nodeid}: assay_case is for tests that are marked with {MARK}")
    import assay

    args, kwargs = request.param
    return assay.case(*args, **kwargs)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    folder = item.config.getoption("--assay-report")
    if not folder:
        yield
        return
    from . import _reports

    root, count = pathlib.Path(item.config.invocation_params.dir, folder), itertools.count(1)

    def place(_):
        n = next(count)
        return root / (_reports.safe_name(item.nodeid.split("/")[-1]) + (f".{n}" if n > 1 else ""))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_reports, "folder_of", place)
        yield
