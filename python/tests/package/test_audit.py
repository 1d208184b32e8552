"""assay.audit: each cheat is caught for what it is, and what looks like it and is honest passes."""
import importlib
import json
import os
import pathlib
import random
import re

import assay
import cheats
import pytest
import tasks
from assay._arrays import doubles, numpy_array
from assay.audits.tasks import task_of, tensor_of

CHEATS = str(pathlib.Path(__file__).with_name("cheats.py"))
TASKS = str(pathlib.Path(__file__).with_name("tasks.py"))
TASK = ("deltanet", (1, 24, 1, 4), "fp32")
WIDER = ("deltanet", (1, 24, 2, 8), "fp32")
TASKS_OF_CHEATS = {"WIDER": WIDER, "SEVERAL": ("deltanet", (2, 24, 2, 4), "fp32")}
# The order of the calls is another in each commit.
SEED = random.Random(os.environ.get("ASSAY_SEED", "0")).getrandbits(31)

# What each is called by, and what is asked otherwise; docs/audit.md has two more, results kept by shape and half precision. From:
# KernelBench#165 (zeros), #155 (half precision), #82 (freed memory, overwritten inputs); flashinfer-bench's starter kit #21
# (fingerprints); kernelbot#501 and reference-kernels#104, #142 (pointers, shapes), #162 (lazy values, timers, streams); METR, Sakana's
# retraction and robust-kbench (stored answers, shapes, the reference itself).
ROWS = json.loads(pathlib.Path(CHEATS).with_suffix(".json").read_text())
# Kernels that look like some of the first, and are honest.
TWINS = ["zeros_first", "blocks_and_a_rest", "empty_and_filled", "workspace_by_pointer", "kept_by_contents", "reads_timers", "waits_for_threads"]


def audited(name, task=TASK, **how):
    how = {"seed": 5, "again": 3, "arrays": "numpy", "quick": True, **how}  # whose arrays are told, for one process less
    return assay.audit(task, f"{CHEATS}:{name}", raises=False, **how)


@pytest.mark.parametrize("name, said, how", [(*row, {})[:3] for row in ROWS["published"] + ROWS["ours"]], ids=[name for name, *_ in ROWS["published"] + ROWS["ours"]])
def test_a_cheat_is_caught_by_its_name(name, said, how):
    task = TASKS_OF_CHEATS.get(how.get("task"), TASK)
    found = audited(name, **({"seed": SEED} if name.startswith("kept") else {}) | how | {"task": task})
    assert not found.passed and said in str(found), str(found)
    if name == "in_a_hurry":  # which is right where it is given time
        assert all("timed call" in step or "same memory" in step for step, _ in found.findings)


@pytest.mark.parametrize("name", TWINS)
def test_its_honest_twin_passes(name):
    """AgentKernelArena#82: what is timed is judged, too, with inputs of its own."""
    found = audited(name)
    assert found.passed and bool(found), str(found)
    assert sorted(verdict for _, _, verdict in found.steps) == ["PASS"] * 20 + ["same bits"]
    assert len({origin for step, origin, _ in found.steps if step.startswith("timed call")}) == len(found.seconds) == 3


def test_the_cheats_of_ours_are_right_where_nobody_looks():
    """So it is the step that names them which finds them."""
    one = assay.case(*TASK, cotangents=False)
    inputs = {**{name: one[name] for name in one.inputs}, "scale": 4**-0.5}
    right = [x.tobytes() for x in cheats.state_of(**inputs)]
    for name, *_ in ROWS["ours"]:
        if not name.startswith(("lazy", "replaces")):
            assert [x.tobytes() for x in getattr(cheats, name)(**inputs)] == right, name
            cheats._kept.clear()


def test_an_answer_kept_on_disk_is_that_of_other_inputs(tmp_path, monkeypatch):
    monkeypatch.setenv("KEPT_IN", str(tmp_path))
    first, second = (audited("kept_on_disk", WIDER, seed=seed, again=0) for seed in (5, 6))
    assert first.passed and {what.partition(":")[0] for _, what in second.findings} == {"o", "final_state"}, str(second)


def test_the_same_bits_need_not_come_again():
    """Other bits are no fault: the farthest answer is judged as the first is."""
    found = audited("jittered", WIDER)
    assert found.passed and "3 of 3 more calls gave other bits; the farthest is judged, too" in str(found), str(found)
    assert ("same memory, new contents, again", "PASS") in [(step, verdict) for step, _, verdict in found.steps]


def test_nothing_that_a_candidate_has_started_outlives_its_audit():
    assert audited("starts_others").passed
    left = [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if b"87.125" in read(path)]
    assert not left


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_seeds_are_secret_and_make_an_audit_again():
    # Of a candidate that is not there, so that nothing is judged: the problems are drawn before it is called.
    origins = [[origin for _, origin, _ in audited("nothing", seed=seed, again=0).steps] for seed in (None, None, 5, 5)]
    assert len(origins[2]) == 21
    assert origins[0] != origins[1] and origins[2] == origins[3]


def test_a_kernel_for_one_shape_may_say_so_where_shapes_are_fixed():
    assert re.search("raised ValueError: this kernel is for 24 tokens .*, called with arrays of numpy", str(audited("refuses_other_shapes")))
    found = audited("refuses_other_shapes", {"mechanism": "deltanet", "shape": TASK[1], "dtype": "fp32", "fixed": True})
    assert found.passed and any("another shape: refused: ValueError" in note for note in found.notes)


def test_what_a_candidate_returns_is_what_is_declared():
    half = audited("honest", ("deltanet", TASK[1], "bf16"))
    assert "o: has dtype F32, and BF16 is declared" in str(half)
    assert audited("honest", {"mechanism": "deltanet", "shape": TASK[1], "dtype": "bf16", "dtypes": {"o": "fp32"}}).passed
    assert "returned 2 values, and the task has 1: o" in str(audited("honest", {"mechanism": "deltanet", "shape": TASK[1], "dtype": "fp32", "outputs": ["o"]}))


def test_outputs_that_it_writes_into_and_states_that_it_overwrites():
    task = {"mechanism": "deltanet", "shape": TASK[1], "dtype": "fp32", "rename": {"o": "out"}, "out": "o", "inplace": "initial_state"}
    found = audited("writes", task)
    assert found.passed and {row["tensor"] for row in found.reports["declared shape"].rows} == {"o", "final_state"}, str(found)
    assert "input initial_state: overwritten" in str(audited("writes", {**task, "inplace": ()}))
    assert "input v: overwritten" in str(audited("writes_elsewhere", task))
    assert "elements are not finite, o[0][0][0][0] first: memory that was never written" in str(audited("adds", task))


def test_a_candidate_that_ends_hangs_or_cannot_be_imported(tmp_path):
    for body, said, *timeout in [
        ("import os\ndef f(**x): os._exit(3)", "the candidate ended with exit code 3"),
        ("import os, signal\ndef f(**x): os.kill(os.getpid(), signal.SIGSEGV)", "the candidate ended with signal SIGSEGV"),
        ("import time\ndef f(**x): time.sleep(60)", "the candidate has not answered for 10 s", 10),
        ("import os\nos._exit(4)", "the candidate ended with exit code 4"),
        ("import time\ntime.sleep(60)", "the candidate has not answered for 1 s", 1),
        ("import nowhere_to_be_found", "import: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("f = 3", "raised TypeError"),
    ]:
        path = tmp_path / "candidate.py"
        path.write_text(body + "\n")
        arrays = None if "os._exit" in body else "numpy"  # who is not told tries it out
        found = assay.audit(TASK, f"{path}:f", raises=False, timeout=(*timeout, 60)[0], seed=1, arrays=arrays)
        assert not found.passed and said in str(found), str(found)


DEFINITIONS = {row["kernel"]: row for row in json.loads(pathlib.Path(TASKS).with_suffix(".json").read_text())}
FIB, SOL = ([name for name, row in DEFINITIONS.items() if of in row] for of in ("tried", "sol"))


def definition(kernel):
    """The file of flashinfer-bench, or of SOL-ExecBench, that a row of tasks.json says in fewer words."""
    row = DEFINITIONS[kernel]
    axis = lambda x: {"type": "expr", "expression": x} if isinstance(x, str) else {"type": "const", "value": x} if x else {"type": "var"}
    tensor = lambda x: {"dtype": x} if isinstance(x, str) else {"shape": x, "dtype": "bfloat16"}
    parts = {part: {name: of(x) for name, x in row[part].items()} for part, of in [("axes", axis), ("inputs", tensor), ("outputs", tensor)]}
    return {key: row[key] for key in ("name", "op_type") if key in row} | parts


def tried(task, right, axes, wrong):
    """The audit of the right candidate of a task; the wrong one does not pass, and nobody asks for the cause."""
    how = {"arrays": "numpy", "axes": axes, "again": 0, "seed": 3, "raises": False, "quick": True}
    assert not wrong or not assay.audit(task, f"{TASKS}:{wrong}", why=0.1, **how).passed
    found = assay.audit(task, right, **how)
    assert found.passed, str(found)
    return found


@pytest.mark.parametrize("name", FIB)
def test_definitions_of_flashinfer_bench(name, tmp_path):
    """The right kernel is a function of two of them, and a solution of the others."""
    path = tmp_path / "definition.json"
    path.write_text(json.dumps(definition(name)))
    right = f"{TASKS}:{name}" if name.startswith("gdn_prefill") else solution_of(name, tmp_path / "solution.json")
    tried(path, right, DEFINITIONS[name]["tried"], "" if name in ("paged_decode", "latent_prefill") else f"{name}_wrong")  # which others are made of


def solution_of(name, path, **spec):
    """A file of flashinfer-bench, or of SOL-ExecBench, whose kernel writes what the function returns into what it is given."""
    inputs = len(DEFINITIONS[name]["inputs"])
    solution = {
        "spec": {"entry_point": "main.py::run", **(spec or {"language": "python", "destination_passing_style": True})},
        "sources": [{"path": "main.py", "content": f"import sys\nsys.path.insert(0, {str(pathlib.Path(TASKS).parent)!r})\nimport tasks\n"
                     f"def run(*x):\n    for there, one in zip(x[{inputs}:], tasks.{name}(*x[:{inputs}])):\n        there[...] = one\n"}],
    }  # fmt: skip
    path.write_text(json.dumps(solution))
    return path


@pytest.mark.parametrize("kernel", SOL)
def test_tasks_of_sol_execbench(kernel, tmp_path):
    """A definition beside its workloads, numbered and without an op_type; the solution names its languages, and writes into its last
    arguments if it does not say."""
    task, own = DEFINITIONS[kernel]["sol"], definition(kernel)
    axes = task["workload"]
    own |= {"name": task["name"], "axes": own["axes"] | dict.fromkeys(axes, {"type": "var"}), "reference": "def run(*x): ...", "custom_inputs_entrypoint": None}
    own.pop("op_type", None)
    path, workloads = tmp_path / "definition.json", tmp_path / "workload.jsonl"
    path.write_text(json.dumps(own))
    workloads.write_text("".join(json.dumps({"uuid": str(i), "axes": one, "inputs": {}}) + "\n" for i, one in enumerate(({**axes, "batch_size": 1}, axes))))
    assert task_of(path, workload=2).shape == task["shape"]
    right = solution_of(kernel, tmp_path / "solution.json", languages=["pytorch", "triton"])
    wrong = "chunk_scan_wrong" if kernel == "chunk_scan" else ""  # the others are of flashinfer-bench
    assert tried(path, right, {"workload": 2}, wrong).task.title == task["name"]


ATTENTION = """
import torch
class Model:
    def forward(self, Q, K, V):
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)
batch_size = 2
num_heads = 2
sequence_length = 8
embedding_dimension = 8
"""
MAMBA = """
class Model:
    def forward(self, X, initial_states=None):
        return RETURNED
batch_size = 2
seq_length = 32
n_heads = 2
d_head = 8
d_state = 4
block_len = 16
"""


def test_an_lse_does_not_depend_on_values():
    """Where those alone are others, the same one is no stored result."""
    asks_otherwise = importlib.import_module("assay.audits.audit").asks_otherwise
    one, other = (task_of(definition("ragged_attention")).draw(seed) for seed in (1, 2))
    changed = one._changed({**one.tensors, "v": other.tensors["v"]}, "")
    assert asks_otherwise("o", one, changed) and not asks_otherwise("lse", one, changed) and asks_otherwise("lse", one, other)


@pytest.mark.parametrize(
    "file, source, name",
    [("97_ScaledDotProductAttention.py", ATTENTION, "Attention"), ("48_Mamba2ReturnY.py", MAMBA.replace("RETURNED", "Y"), "MambaY"),
     ("49_Mamba2ReturnFinalState.py", MAMBA.replace("RETURNED", "new_states[:, -1]"), "MambaState")],
)  # fmt: skip
def test_tasks_of_kernelbench(file, source, name, tmp_path):
    (tmp_path / file).write_text(source)
    tried(tmp_path / file, f"{TASKS}:{name}", {"batch_size": 1}, f"{name}Wrong")


HARD = 'OP_TYPE = "attention"\nSUPPORTED_PRECISIONS = ["bf16"]\n'
NSA = "B, H, S, D = 1, 2, 29, 8\nBLOCK_SIZE = 4\nTOP_N_BLOCKS = 3\nSLIDING_WINDOW = 6"


@pytest.mark.parametrize(
    "sizes, name, axes",
    [("B = 2\nT = 24\nH = 2\nK = 8\nV = 8\nCHUNK_SIZE = 8", "Kda", {"B": 1}),
     ("BATCH = 2\nNUM_HEADS = 4\nNUM_KV_HEADS = 2\nHEAD_DIM = 8\nSEQ_LEN = 29\nPAGE_SIZE = 8", "PagedDecode", {"SEQ_LEN": 21}),
     (NSA, "ChosenBlocks", {"S": 27})],
)  # fmt: skip
def test_tasks_of_kernelbench_com(sizes, name, axes, tmp_path):
    file = tmp_path / "reference.py"
    file.write_text(HARD + sizes)
    tried(file, f"{TASKS}:{name}", axes, f"{name}Wrong")


@pytest.fixture
def nsa(tmp_path):
    file = tmp_path / "reference.py"
    file.write_text(HARD + NSA)
    return task_of(file)


def with_second_block(problem, factor):
    """The second block of keys is the first, but for one number of each head: times the factor."""
    keys = doubles(problem.tensors["k"]).copy()
    keys[:, 4:8] = keys[:, :4]
    keys[:, 4, :, 0] *= factor
    return problem._changed({**problem.tensors, "k": tensor_of(keys, "BF16")}, problem.origin)


@pytest.mark.parametrize(
    "name, factor, verdict",
    [("ChosenBlocks", 1 + 2**-7, "PASS"), ("ChosenBlocksRounded", 1 + 2**-7, "FAIL"), ("ChosenBlocksWrong", 1, "FAIL"),
     ("ChosenBlocksPast", 1, "FAIL"), ("ChosenBlocksSum", 1, "FAIL"), ("ChosenBlocksNarrow", 1, "FAIL")],
)  # fmt: skip
def test_blocks_that_a_candidate_chooses(nsa, name, factor, verdict):
    """Nearly equal scores are judged where they are farther apart than fp32 errs, and rows of equal ones are left out."""
    problem = with_second_block(nsa.draw(1), factor)
    q, k, v = (numpy_array(argument.tensor) for argument in nsa.arguments(problem))
    o = getattr(tasks, name)(*nsa.shaped_init(problem))(q, k, v)
    *settled, left_open = nsa.settled(problem, {"o": nsa.ours("o", ("BF16", o.shape, o.tobytes()), problem)})
    assert assay.judge(*settled, tensors=["o"], quick=True).verdict == verdict
    rows = re.match(r"(\d+) of 58 rows are NOT JUDGED, o(?:\[\d+\]){3} first: ", left_open)[1]
    assert int(rows) == 9 if factor == 1 else 0 < int(rows) < 9


def test_equal_blocks_are_anyones(nsa):
    nsa.draw = lambda seed, shape=None: with_second_block(type(nsa).draw(nsa, seed, shape), 1)
    nsa.shorter_shape = lambda rng: None  # than the two blocks that are equal
    for name in ("ChosenBlocks", "ChosenBlocksBackwards"):
        found = assay.audit(nsa, f"{TASKS}:{name}", arrays="numpy", again=0, seed=3, quick=True)
        assert any(re.match(r"declared shape: \d+ of 58 rows are NOT JUDGED", note) for note in found.notes)


def test_what_does_not_pass_is_raised():
    with pytest.raises(AssertionError, match="import: AttributeError: module 'audited_candidate' has no attribute 'nothing'") as raised:
        assay.audit(("deltanet", (1, 2, 2, 8), "fp32"), f"{CHEATS}:nothing", seed=1)
    assert not raised.value.report.passed and len(raised.value.report.steps) == 20
