"""Runs of the kernels that others have published for GPUs (tools/gpu/foreign/adapters.py): which problems they take, and what is known
to be wrong with them."""
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu" / "foreign"))
from adapters import KERNELS  # noqa: E402

GROUPS = ("softmax_attention", "parallax")  # mechanisms whose kernels take heads that share keys, and kernels that do
GROUPED = ("fla.chunk_gated_delta_rule", "fla.fused_recurrent_gated_delta_rule", "transformers.torch_chunk_gated_delta_rule")
ALL = "*"
# Tensors that are known to be wrong in 16 bits (records/published-kernels.md, "Known defects"): their verdicts count for nothing.
DEFECTIVE = {
    **{f"fla.chunk_{rule}": ("d_log_decay",) for rule in ("gated_delta_rule", "comba", "kda")},
    "fla.attn_decoding_one_step": ("o",),
    "fla.parallel_parallax": ("d_rho",),
    "fla.chunk_momentum_delta_rule": (ALL,),
}


def available(name):
    """Whether its package is here."""
    return importlib.util.find_spec({"fla-core": "fla"}.get(KERNELS[name][1], KERNELS[name][1])) is not None


def tune_no_more():
    """Autotuners take the first of their configurations: kernels are judged, not timed."""
    from triton.runtime.autotuner import Autotuner

    every = Autotuner.prune_configs
    Autotuner.prune_configs = lambda self, kwargs: every(self, kwargs)[:1]


def run_of(random, tokens, dims):
    """A kernel at random: name, function, arguments of `assay case`, tensors whose verdicts do not count, precision to judge by."""
    name = random.choice([kernel for kernel in KERNELS if available(kernel)])
    mechanism, package, function = KERNELS[name]
    heads = random.choice(("2", "4/2")) if mechanism in GROUPS or name in GROUPED else "2"
    length = f"1/{random.choice(tokens)}" if "decoding" in name else random.choice(tokens)
    precision = random.choice(("bf16", "bf16", "fp16", "fp32"))
    batch = 1 if "decoding" in name else random.choice((1, 1, 2))
    command = [mechanism, "--shape", f"{batch},{length},{heads},{random.choice(dims)}"]
    command += ["--precision", precision, "--seed", str(random.randrange(1 << 31))]
    if random.random() < 0.4:
        command.append("--no-cotangents")
    tf32 = precision == "fp32" and package == "fla-core" and "recurrent" not in name
    return name, function, command, () if precision == "fp32" else DEFECTIVE.get(name, ()), "tf32" if tf32 else None
