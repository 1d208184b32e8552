"""Many checks on executors and in shards: the same bytes."""
import concurrent.futures
import json
import multiprocessing
import pickle
import secrets
import sys
import tempfile
import time
import types

import assay
import pytest
from kernels import delta_rule
from test_ci import Machine, blocks, write

CASES = [{"mechanism": "deltanet", "shape": (1, t, 2, 8), "dtype": d, "cotangents": False} for t in (1, 40) for d in ("bf16", "fp32")] + [
    {"mechanism": "deltanet", "shape": (1, 17, "2/1", 8), "seed": 5, "cotangents": False},
    ("deltanet", (1, 17, 2)),
]


def kernel(q, k, v, beta, initial_state, scale):
    return delta_rule(q, k, v, beta, initial_state, scale, forgets=lambda t: t >= 32)


@pytest.fixture(scope="module")
def here():
    return assay.run(CASES, kernel, arrays="numpy")


def test_results_do_not_depend_on_who_works(here):
    assert [page["passed"] for page in here] == [True] * 2 + [False] * 2 + [True, False]
    assert here[-1]["error"].startswith("shape '1,17,2': expected four or five numbers")
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as two:
        there = assay.run(CASES, kernel, executor=two, arrays="numpy")
    assert json.dumps(here) == json.dumps(there)
    shards = [assay.run(CASES, kernel, shard=f"{i + 1}/4", arrays="numpy") for i in range(4)]
    assert json.dumps(assay.merge(shards)) == json.dumps(here)


def follows(folder, name, **variables):
    """The page's command for this pool gives the pages of one process, computed by others, and is red where the kernel is wrong."""
    machine = Machine(folder)
    (command,) = [line for line in blocks("bash", "Pools of workers")[0].splitlines() if f"pool.py {name} " in line]
    kernel = machine.work / "kernel.py"
    tells = f"open({str(folder)!r} + '/worker-' + os.environ.get('PMI_RANK', str(os.getpid())), 'w').close()"
    waits = f"end = time.time() + 60\n    while len(glob.glob({str(folder)!r} + '/worker-*')) < 2 and time.time() < end: time.sleep(.05)"
    write(kernel, "import glob, os, time\n" + kernel.read_text().replace("    S, o =", f"    {tells}\n    {waits}\n    S, o ="))
    for code in (0, 1):
        if code:
            machine.break_kernel()
            [path.unlink() for path in folder.glob("worker-*")]
        assert machine.run(f"echo $$ >../master; exec {command}", **variables) == code
        workers = {path.name for path in folder.glob("worker-*")}
        assert len(workers) > 1 and not workers & {"worker-0", "worker-" + (folder / "master").read_text().strip()}
        assert machine.run("exec python checks.py 1/1 alone.json") == code
        assert (machine.work / "pages.json").read_text() == (machine.work / "alone.json").read_text()


@pytest.mark.parametrize("name", ["processes", "dask", "mpi"])
def test_two_workers_of_a_pool(tmp_path, name):
    follows(tmp_path, name)


class Task:
    """A stand-in for what ray.remote makes of a function: as the real one, it has what it is called with pickled, and gives references with futures."""

    pool = concurrent.futures.ThreadPoolExecutor(2)

    def __init__(self, function):
        self.function = function

    def remote(self, *args):
        return types.SimpleNamespace(future=lambda: self.pool.submit(self.function, *pickle.loads(pickle.dumps(args))))


def test_ray_has_an_executor_of_ours(here, monkeypatch):
    asked = []
    remote = lambda function=None, **options: asked.append(options) or (Task(function) if function is not None else Task)
    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(remote=remote))
    for options in ({}, {"num_gpus": 1}):
        with assay.executors.ray(**options) as workers:
            assert json.dumps(assay.run(CASES[-3:], kernel, executor=workers, arrays="numpy")) == json.dumps(here[-3:])
            assert isinstance(workers, concurrent.futures.Executor) and asked.pop() == options
            late = workers.submit(time.sleep, 0.2)
        assert late.done()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(assay.InputError, match="^executor: Ray is not installed here: pip install ray"):
        assay.executors.ray()


def test_two_workers_of_ray(tmp_path, monkeypatch):
    import ray

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # of this cluster alone, whose driver has a home of its own
    with tempfile.TemporaryDirectory(prefix="ray") as short:  # of its path Ray makes names of sockets, which may have 107 letters
        cluster = ray.init(num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=short)
        try:
            follows(tmp_path, "ray", RAY_ADDRESS=cluster.address_info["gcs_address"])
        finally:
            ray.shutdown()


def test_shares_of_a_report():
    words = {"mechanism": ["deltanet", "retnet"], "precision": ["fp32", "bf16"], "shape": "1,9,2,4,4"}
    shares = [assay.report(**words, shard=f"{i + 1}/3") for i in range(3)]
    assert json.dumps(assay.merge(shares)) == json.dumps(assay.report(**words))
    with pytest.raises(assay.InputError, match="^merge: share 3 of 3 is missing"):
        assay.merge(shares[:2])


def test_the_cases_of_a_suite():
    cases = assay.suite("deltanet", precision="fp32", head_dim=8, no_cotangents=True)
    lengths = [case.tensors["q"][1][1] for case in cases]
    assert sorted(lengths[:6]) == [1, 17, 64, 65, 129, 200] and len(lengths) == 8  # each length once before one comes again
    assert all(case.metadata["precision"] == "fp32" and not case.cotangents for case in cases)

    def writes(q, k, v, beta, initial_state, scale, o):
        o[:], state = delta_rule(q, k, v, beta, initial_state, scale=scale)
        return state

    pages = assay.run(cases, writes, out="o")
    assert all(page["passed"] for page in pages)
    assert [page["case"] for page in pages] == [f"assay.suite('deltanet', precision='fp32', head_dim=8, no_cotangents=True)[{i}]" for i in range(8)]


def test_errors_go_to_other_processes():
    case = assay.case("deltanet", (1, 4, 2, 8), cotangents=False)
    for use in (lambda: assay.check(case, 3), lambda: assay.check(case, lambda **x: delta_rule(**{**x, "scale": 1}))):
        with pytest.raises((assay.InputError, assay.Mismatch)) as raised:
            use()
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert assay.InputError.__module__ == assay.Mismatch.__module__ == "assay"
