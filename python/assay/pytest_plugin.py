"""The pytest plugin: tests that run once for each of many cases, and a folder for what fails.

    @pytest.mark.assay_cases("gated_deltanet", shape=[(2, 100, "8/4", 64), (1, 65, 2, 64)], dtype=["bf16", "fp32"], seed=range(3))
    def test_kernel(assay_case):
        assay.check(assay_case, my_kernel)

`pytest --assay-report=DIR` saves the case, the answer and a page of each failure in DIR/TEST. Under pytest-xdist, too.
"""
import itertools
import pathlib

import pytest

MARK = "assay_cases"


def pytest_addoption(parser):
    parser.getgroup("assay").addoption(
        "--assay-report", metavar="DIR", help="save the case, the answer and a page of each assay.check that fails in DIR/TEST"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        f"{MARK}(mechanism, shape, dtype='bf16', ...): run the test with each of these cases as assay_case; an argument that is a list or a"
        " range has several values",
    )


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

    before, _reports.folder_of = _reports.folder_of, place
    try:
        yield
    finally:
        _reports.folder_of = before
