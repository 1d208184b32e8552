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
from assay.audits.tasks import task_of
from shell import shell

CHEATS = str(pathlib.Path(__file__).with_name("cheats.py"))
TASKS = str(pathlib.Path(__file__).with_name("tasks.py"))
TASK = ("deltanet", (1, 24, 1, 4), "fp32")
WIDER, SEVERAL = (("deltanet", shape, "fp32") for shape in ((1, 24, 2, 8), (2, 24, 2, 4)))
# The order of the calls is another in each commit.
SEED = random.Random(os.environ.get("ASSAY_SEED", "0")).getrandbits(31)

# What each is called by; docs/audit.md has two more, results kept by shape and half precision. From: KernelBench#165 (zeros), #155 (half
# precision), #82 (freed memory, overwritten inputs); flashinfer-bench's starter kit #21 (fingerprints); kernelbot#501 and
# reference-kernels#104, #142 (pointers, shapes), #162 (lazy values, timers, streams); METR, Sakana's retraction and robust-kbench (stored
# answers, shapes, the reference itself).
PUBLISHED = [
    ("zeros", "o: zeros"),
    ("constant", "o: one number everywhere"),
    ("skipped_rows", "rows are zeros: rows left out"),
    ("stale_memory", "declared shape: o: "),
    ("kept_by_pointer", 'same memory, new contents: o: the very answer to "'),
    ("kept_for_the_last_pointer", "whose inputs are others: a stored result"),
    ("kept_by_fingerprint", 'same memory, same sums: o: the very answer to "same memory, '),
    ("kept_by_the_query", "another k: o: the very answer to"),
    ("kept_by_a_corner", "another k: o: the very answer to"),
    ("state_in_bf16", "computed in bf16, and fp32 is asked for: S: the state (S) in bf16", {"task": WIDER}),
    ("overwrites", "input v: overwritten"),
    ("one_shape", "another shape: o: "),
    ("ignores_strides", "strided inputs: o: "),
    ("lazy", "o: is a audited_candidate.Lazy and no numpy.ndarray"),
    ("replaces_timers", "process: has replaced time.perf_counter"),
    ("returns_early", "o: was written after it was returned"),
    ("right_at_first", "a stored result"),
    ("in_a_hurry", 'of 3: o: the very answer to "timed call'),
    ("looks_for_the_answer", "o: zeros"),
    ("asks_the_judge", "assay is not to be had in the process of a candidate"),
]
# Those that we thought of.
OURS = [
    ("kept_by_identity", "same memory, new contents: o: the very answer to"),
    ("kept_by_the_values", "same memory, another k: o: the very answer to"),
    ("kept_by_the_first_token", "o: the very answer to"),
    ("kept_by_one_head", "o: the very answer to", {"task": SEVERAL}),
    ("kept_by_samples", "o: the very answer to"),
    ("kept_for_the_last_call", "same memory, another initial_state: o: the very answer to"),
    ("knows_a_seed", "declared shape: o: zeros"),
    ("wrong_from_the_60th_call", "same memory, new contents, again: o: zeros", {"again": 100}),
    ("wrong_once", "same memory, new contents, again: o: FAIL"),
    ("tokens_beyond", "another shape: final_state: ", {"why": 0.1}),
    ("wrong_if_shorter", "fewer tokens: o: ", {"why": 0.1}),
    ("ignores_the_scale", "another scale: o: ", {"why": 0.1}),
    ("lazy_array", "o: is a audited_candidate.Later and no numpy.ndarray"),
    ("lazy_tuple", "returned 0 values, and the task has 2"),
    ("by_the_environment", "declared shape: o: zeros"),
    ("by_the_stack", "timed call 1 of 3: o: zeros"),
    ("one_sequence_when_timed", "timed call 1 of 3: o: ", {"task": SEVERAL}),
    ("overwrites_when_timed", "timed call 1 of 3: input v: overwritten"),
    ("returns_early_when_timed", "timed call 1 of 3: o: was written after it was returned"),
    ("returns_a_buffer", "timed call 1 of 3: o: was written after it was returned"),
    ("replaces_norms", "process: has replaced numpy.linalg.norm"),
    ("replaces_the_harness", "process: has replaced __main__.now"),
]
# Kernels that look like some of the first, and are honest.
TWINS = ["zeros_first", "blocks_and_a_rest", "empty_and_filled", "workspace_by_pointer", "kept_by_contents", "reads_timers", "waits_for_threads"]


def audited(name, task=TASK, **how):
    how = {"seed": 5, "again": 3, "arrays": "numpy", "quick": True, **how}  # whose arrays are told, for one process less
    return assay.audit(task, f"{CHEATS}:{name}", raises=False, **how)


@pytest.mark.parametrize("name, said, how", [(*row, {})[:3] for row in PUBLISHED + OURS], ids=[name for name, *_ in PUBLISHED + OURS])
def test_a_cheat_is_caught_by_its_name(name, said, how):
    found = audited(name, **({"seed": SEED} if name.startswith("kept") else {}) | how)
    assert not found.passed and said in str(found), str(found)
    if name == "in_a_hurry":  # which is right where it is given time
        assert all("timed call" in step or "same memory" in step for step, _ in found.findings)


@pytest.mark.parametrize("name", TWINS)
def test_its_honest_twin_passes(name):
    """AgentKernelArena#82: what is timed is judged, too, with inputs of its own."""
    found = audited(name)
    assert found.passed and bool(found), str(found)
    assert sorted(verdict for _, _, verdict in found.steps) == ["PASS"] * 19 + ["same bits"]
    assert len({origin for step, origin, _ in found.steps if step.startswith("timed call")}) == len(found.seconds) == 3


def test_the_cheats_of_ours_are_right_where_nobody_looks():
    """So it is the step that names them which finds them."""
    one = assay.case(*TASK, cotangents=False)
    inputs = {**{name: one[name] for name in one.inputs}, "scale": 4**-0.5}
    right = [x.tobytes() for x in cheats.state_of(**inputs)]
    for name, *_ in OURS:
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
    assert len(origins[2]) == 20
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
    for more, sentence in [({"out": "lse"}, "^out: lse: the candidate answers o, final_state"),
                           ({"mechanism": "linear_attention", "out": "final_normalizer"}, "^out: final_normalizer: an audit does not know its shape"),
                           ({"inplace": "q"}, "^inplace: q: expected an initial state that the case has: initial_state")]:  # fmt: skip
        with pytest.raises(assay.InputError, match=sentence):
            audited("writes", {**task, **more})


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


def attention_like_flashinfer(causal):
    return {
        "name": f"gqa_ragged_prefill{'_causal' if causal else ''}_h4_kv2_d16", "op_type": "gqa_ragged",
        "axes": {"total_q": {"type": "var"}, "num_qo_heads": {"type": "const", "value": 4}, "num_kv_heads": {"type": "const", "value": 2},
                 "head_dim": {"type": "const", "value": 16}, "num_seqs": {"type": "var"}},
        "inputs": {"q": {"dtype": "bfloat16"}, "k": {"dtype": "bfloat16"}, "v": {"dtype": "bfloat16"}, "qo_indptr": {"dtype": "int32"},
                   "kv_indptr": {"dtype": "int32"}, "sm_scale": {"dtype": "float32"}},
        "outputs": {"output": {"dtype": "bfloat16"}, "lse": {"dtype": "float32"}},
    }  # fmt: skip


def gdn(kind, raw):
    gates = ["A_log", "a", "dt_bias", "b"] if raw else ["g", "beta"]
    dtypes = {"A_log": "float32", "dt_bias": "float32", "a": "bfloat16", "b": "bfloat16", "g": "float32", "beta": "float32"}
    packed = {"cu_seqlens": {"dtype": "int64"}} if kind == "prefill" else {}
    return {
        "name": f"gdn_{kind}_qk2_v4_d8_k_last", "op_type": "gdn",
        "axes": {"num_seqs" if packed else "batch_size": {"type": "var"}, "total_seq_len": {"type": "var"}, "num_q_heads": {"type": "const", "value": 2},
                 "num_k_heads": {"type": "const", "value": 2}, "num_v_heads": {"type": "const", "value": 4}, "head_size": {"type": "const", "value": 8}},
        "inputs": {**{name: {"dtype": "bfloat16"} for name in "qkv"}, "state": {"dtype": "float32"}, **{name: {"dtype": dtypes[name]} for name in gates},
                   **packed, "scale": {"dtype": "float32"}},
        "outputs": {"output": {"dtype": "bfloat16"}, "new_state": {"dtype": "float32"}},
    }  # fmt: skip


def paged(kind, stage, page, last=False):
    """As flashinfer_trace/definitions has them, with smaller constants."""
    latent, lists = kind != "gqa_paged", kind == "dsa_paged"
    var, const = {"type": "var"}, lambda value: {"type": "const", "value": value}
    axes = {"num_qo_heads": const(4), "page_size": const(page), "num_pages": var}
    axes |= {"head_dim_ckv": const(16), "head_dim_kpe": const(8)} if latent else {"num_kv_heads": const(2), "head_dim": const(16)}
    axes |= {"num_tokens": var, "topk": const(12)} if lists else {"len_indptr": var, "num_kv_indices": var}
    axes |= {} if lists else {"batch_size": var} if stage == "decode" else {"total_q": var}
    names = ["q_nope", "q_pe", "ckv_cache", "kpe_cache"] if latent else ["q", "k_cache", "v_cache"]
    counts = ["sparse_indices"] if lists else [*(["qo_indptr"] if stage != "decode" else []), "kv_indptr", "kv_indices", *(["kv_last_page_len"] if last else [])]
    return {
        "name": f"{kind}_{stage}_h4_ps{page}", "op_type": kind, "axes": axes,
        "inputs": {**{name: {"dtype": "bfloat16"} for name in names}, **{name: {"dtype": "int32"} for name in counts}, "sm_scale": {"dtype": "float32"}},
        "outputs": {"output": {"dtype": "bfloat16"}, "lse": {"dtype": "float32"}},
    }  # fmt: skip


FIB = [
    (attention_like_flashinfer(True), "ragged_attention", {"total_q": 8}),
    (paged("gqa_paged", "decode", 1), "paged_decode", {"batch_size": 2, "num_kv_indices": 20}),
    (paged("gqa_paged", "prefill_causal", 4, last=True), "paged_prefill", {"total_q": 6, "num_kv_indices": 6}),
    (paged("mla_paged", "prefill_causal", 1), "latent_prefill", {"total_q": 6, "num_kv_indices": 20}),
    (paged("mla_paged", "decode", 4), "latent_decode", {"batch_size": 2, "num_kv_indices": 6}),
    (paged("dsa_paged", "sparse_attention", 4), "sparse_attention", {"num_tokens": 5}),
    (gdn("prefill", True), "gdn_prefill", {"total_seq_len": 8}),
    (gdn("prefill", False), "gdn_prefill_ready_made", {"total_seq_len": 8}),
    (gdn("decode", True), "gdn_decode", {"batch_size": 2}),
]


@pytest.mark.parametrize("definition, name, axes", FIB, ids=[name for _, name, _ in FIB])
def test_definitions_of_flashinfer_bench(definition, name, axes, tmp_path):
    """The right kernel is a function of two of them, and a solution of the others."""
    path = tmp_path / "definition.json"
    path.write_text(json.dumps(definition))
    how = {"arrays": "numpy", "axes": axes, "again": 0, "seed": 3, "raises": False, "quick": True}
    if name not in ("paged_decode", "latent_prefill"):  # which others are made of
        assert not assay.audit(path, f"{TASKS}:{name}_wrong", why=0.1, **how).passed  # and nobody asks for the cause
    right = f"{TASKS}:{name}" if name.startswith("gdn_prefill") else solution_of(definition, name, tmp_path / "solution.json")
    assert (found := assay.audit(path, right, **how)).passed, str(found)


def solution_of(definition, name, path):
    """A file of flashinfer-bench whose kernel writes what the function returns into what it is given."""
    inputs = len(definition["inputs"])
    solution = {
        "spec": {"language": "python", "entry_point": "main.py::run", "destination_passing_style": True},
        "sources": [{"path": "main.py", "content": f"import sys\nsys.path.insert(0, {str(pathlib.Path(TASKS).parent)!r})\nimport tasks\n"
                     f"def run(*x):\n    for there, one in zip(x[{inputs}:], tasks.{name}(*x[:{inputs}])):\n        there[...] = one\n"}],
    }  # fmt: skip
    path.write_text(json.dumps(solution))
    return path


ATTENTION = """
import torch
class Model:
    def forward(self, Q, K, V):
        return torch.nn.functional.scaled_dot_product_attention(Q, K, V)
batch_size = 2
num_heads = 2
sequence_length = 8
embedding_dimension = 16
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
    one, other = (task_of(attention_like_flashinfer(True)).draw(seed) for seed in (1, 2))
    changed = one._changed({**one.tensors, "v": other.tensors["v"]}, "")
    assert asks_otherwise("o", one, changed) and not asks_otherwise("lse", one, changed) and asks_otherwise("lse", one, other)


@pytest.mark.parametrize(
    "file, source, name",
    [("97_ScaledDotProductAttention.py", ATTENTION, "Attention"), ("48_Mamba2ReturnY.py", MAMBA.replace("RETURNED", "Y"), "MambaY"),
     ("49_Mamba2ReturnFinalState.py", MAMBA.replace("RETURNED", "new_states[:, -1]"), "MambaState")],
)  # fmt: skip
def test_tasks_of_kernelbench(file, source, name, tmp_path):
    (tmp_path / file).write_text(source)
    how = {"arrays": "numpy", "axes": {"batch_size": 1}, "again": 0, "seed": 3, "raises": False, "quick": True}
    found = assay.audit(tmp_path / file, f"{TASKS}:{name}", **how)
    assert found.passed, str(found)
    assert not assay.audit(tmp_path / file, f"{TASKS}:{name}Wrong", why=0.1, **how).passed


HARD = 'OP_TYPE = "attention"\nSUPPORTED_PRECISIONS = ["bf16"]\n'


@pytest.mark.parametrize(
    "sizes, name, axes",
    [("B = 2\nT = 48\nH = 2\nK = 16\nV = 16\nCHUNK_SIZE = 16", "Kda", {"B": 1}),
     ("BATCH = 2\nNUM_HEADS = 4\nNUM_KV_HEADS = 2\nHEAD_DIM = 16\nSEQ_LEN = 45\nPAGE_SIZE = 8", "PagedDecode", {"SEQ_LEN": 37})],
)  # fmt: skip
def test_tasks_of_kernelbench_com(sizes, name, axes, tmp_path):
    file = tmp_path / "reference.py"
    file.write_text(HARD + sizes)
    how = {"arrays": "numpy", "axes": axes, "again": 0, "seed": 3, "raises": False, "quick": True}
    found = assay.audit(file, f"{TASKS}:{name}", **how)
    assert found.passed, str(found)
    assert not assay.audit(file, f"{TASKS}:{name}Wrong", why=0.1, **how).passed
    with pytest.raises(assay.InputError, match="M: .* has no such number; it has "):
        assay.audit(file, f"{TASKS}:{name}", axes={"M": 1})
    file.write_text(HARD + "M = 1")
    with pytest.raises(assay.InputError, match="02_kda_cutlass and 03_paged_attention, and this is neither"):
        assay.audit(file, f"{TASKS}:{name}")


def test_from_a_shell():
    words = ["audit", "deltanet", "--shape", "1,24,2,8", "--precision", "fp32", "--again", "1", "--format", "json", "--seed", "5"]
    for name, code in (("honest", 0), ("lazy", 1)):
        ran = shell(*words[:2], f"{CHEATS}:{name}", *words[2:])
        page = json.loads(ran.stdout)
        assert ran.returncode == code and page["passed"] == (code == 0) and page["format"] == "assay-audit" and "elsewhere" in page["cannot_see"]
        assert len(page["seconds"]) == 3 and all(seconds > 0 for seconds in page["seconds"])
    own = ["--rename", "o=out", "--out", "o", "--inplace", "initial_state"]
    assert shell(*words[:2], f"{CHEATS}:writes", *words[2:], *own).returncode == 0


def test_what_does_not_pass_is_raised():
    with pytest.raises(AssertionError, match="import: AttributeError: module 'audited_candidate' has no attribute 'nothing'") as raised:
        assay.audit(("deltanet", (1, 2, 2, 8), "fp32"), f"{CHEATS}:nothing", seed=1)
    assert not raised.value.report.passed and len(raised.value.report.steps) == 19
