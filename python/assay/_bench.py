"""`assay bench kernels` from a shell: assay.kernels on this machine's GPU and, with --peers, the functions of others that assay has
adapters of, in one run. Exit code 0; 2: bad use, or no GPU."""
import dataclasses
import datetime
import json
import pathlib
import statistics
import sys
import types

from . import _native, adapters, kernels
from ._commands import Parser
from ._native import InputError

# Others' functions; torch's with the backend that it is held to.
PEERS = {
    "deltanet": ["fla.chunk_delta_rule"],
    "gated_deltanet": ["fla.chunk_gated_delta_rule"],
    "gla": ["fla.chunk_gla"],
    "kda": ["fla.chunk_kda"],
    "mamba2": ["fla.chunk_simple_gla"],
    "softmax_attention": [f"torch.scaled_dot_product_attention {name}" for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION")] + ["flash_attn.flash_attn_func"],
}
PASSES = ("forward", "forward + backward")
# Of a query and a key that it sees, in each pass.
PRODUCTS = {"softmax_attention": (2, 7), "parallax": (4, 12)}


@dataclasses.dataclass
class Time:
    """Of one kernel and pass, in milliseconds; floor: what its memory and products take at least; why: it has not run."""

    mechanism: str
    shape: str
    passed: str
    kernel: str
    ms: float | None = None
    floor: float | None = None
    why: str = ""


def ours(mechanism):
    kernel = getattr(kernels, mechanism)
    return lambda given: first(kernel(**given))


def first(outputs):
    return outputs[0] if isinstance(outputs, tuple) else outputs


def theirs(mechanism, name):
    """That peer, called as assay.check calls it; raises InputError where it is not installed."""
    package, _, function = name.partition(".")
    function, _, backend = function.partition(" ")
    adapter = adapters.torch.of_backend(backend) if backend else getattr(getattr(adapters, package), function)
    adapter.resolved()
    case = types.SimpleNamespace(mechanism=mechanism, layout="bthd", params={"causal": True} if mechanism in kernels.ATTENTION else {}, tensors={})
    return lambda given: adapter.call_ours(given, case)["o"]


def problem(mechanism, shape):
    """Inputs on the GPU: keys of delta rules are unit vectors, gates are steps between 0 and 1 or logs of decays."""
    import torch

    batch, tokens, heads, dim = shape
    made = {}
    for field in _native.facts(mechanism)["inputs"]:
        name = field["name"]
        if field["is_param"] or not field["required"]:
            continue
        if name in kernels.NARROW:
            x = torch.randn(batch, tokens, heads, dim, device="cuda")
            made[name] = (torch.nn.functional.normalize(x, dim=-1) if name in ("k", "p") else x).bfloat16()
        else:
            channels = (dim,) if name == "log_decay" and mechanism in ("gla", "kda") else ()
            x = torch.rand(batch, tokens, heads, *channels, device="cuda")
            made[name] = -0.1 * x if name.startswith("log_") else x
    return made


def run(call, given, passed):
    """A call of that pass, on inputs of its own where gradients are asked for."""
    import torch

    if passed == PASSES[0]:
        return lambda: call(given)
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    cotangent = torch.randn_like(call(leaves))

    def both():
        return torch.autograd.grad(call(leaves), list(leaves.values()), cotangent)

    return both


def milliseconds(call, flush):
    """By events of CUDA, with nothing of it in the cache."""
    import torch

    flush.zero_()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


class Ceilings:
    """Of this GPU, in this run: bytes and bf16 products in a millisecond."""

    def __init__(self, flush):
        import torch

        self.flush = flush
        read, square = torch.empty(1 << 29, dtype=torch.bfloat16, device="cuda"), torch.randn(8192, 8192, device="cuda").bfloat16()
        self.bytes = 2 * read.nbytes / self.best(lambda: read.clone())
        self.products = 8192**3 / self.best(lambda: square @ square)

    def best(self, call):
        return min(milliseconds(call, self.flush) for _ in range(10))

    def floor(self, mechanism, given, passed):
        """Inputs and output once, and all of them again as gradients; attention's products of what is seen."""
        size, again = sum(x.nbytes for x in given.values()), passed == PASSES[1]
        memory = (size * (3 if again else 1) + given["v"].nbytes * (2 if again else 1)) / self.bytes
        if mechanism not in PRODUCTS:
            return memory
        batch, tokens, heads, dim = given["q"].shape
        return max(memory, batch * heads * tokens * (tokens + 1) / 2 * dim * PRODUCTS[mechanism][again] / self.products)


def times(mechanism, shape, peers, runs, ceilings):
    """Medians; the kernels take turns."""
    given, every = problem(mechanism, shape), {"assay": ours(mechanism)}
    for name in PEERS.get(mechanism, []) if peers else []:
        try:
            every[name] = theirs(mechanism, name)
        except InputError as absent:
            print(f"assay: leaves {name} out: {absent}", file=sys.stderr)
    for passed in PASSES:
        found, calls = {}, {}
        for name, kernel in every.items():
            found[name] = Time(mechanism, ",".join(map(str, shape)), passed, name, floor=ceilings.floor(mechanism, given, passed))
            try:
                calls[name] = run(kernel, given, passed)
                calls[name](), calls[name]()  # compiles, tunes
            except Exception as problem_of_theirs:  # whatever a kernel of others raises is a line of the table
                if name == "assay":
                    raise
                calls.pop(name, None)
                found[name].why = f"{type(problem_of_theirs).__name__}: {problem_of_theirs}".splitlines()[0][:120]
        taken = {name: [] for name in calls}
        for _ in range(runs):
            for name, call in calls.items():
                taken[name].append(milliseconds(call, ceilings.flush))
        for name, all_of_them in taken.items():
            found[name].ms = statistics.median(all_of_them)
        yield from found.values()


def table(found):
    """Markdown. Beside each peer: how many times as fast ours is."""
    lines = ["| mechanism | shape | pass | kernel | ms | floor, ms | of the floor | assay is faster by |", "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |"]
    own = {(x.mechanism, x.passed): x.ms for x in found if x.kernel == "assay"}
    for x in found:
        cells = [x.mechanism, x.shape, x.passed, x.kernel]
        if x.ms is None:
            cells += [x.why.replace("|", "\\|"), "", "", ""]
        else:
            ratio = "" if x.kernel == "assay" else f"{x.ms / own[x.mechanism, x.passed]:.2f}"
            cells += [f"{x.ms:.3f}", f"{x.floor:.3f}", f"{x.floor / x.ms:.0%}", ratio]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def mechanism_of(row):
    return row[2:].partition(" |")[0]


def page(found, options, old):
    """Of these times, and of those rows of the old page whose mechanisms have not run again."""
    today = datetime.date.today().isoformat()
    head, under, *rows = table(found).splitlines()
    ran = {x.mechanism for x in found}
    kept = [row for row in old.splitlines() if row.startswith("| ") and mechanism_of(row) in set(kernels.__all__) - ran]
    rows = sorted(kept + [f"{row} {today} |" for row in rows], key=mechanism_of)
    return f"""<!-- written by `assay bench kernels --peers -o PAGE`, on a GPU -->

# Speed

`assay.kernels` beside the kernels of others, in one run for each mechanism, the last of them by {versions()}.
Medians of {options.runs}, the kernels in turns, the cache flushed before each; the times contain what a call from Python costs. The floor is what
memory and products take at least, by ceilings of the same run.

{head} measured |
{under} --- |
""" + "\n".join(rows) + "\n"


def plot(found):
    """SVG: bars of times over ours; the line is ours."""
    bars = [x for x in found if x.ms is not None]
    own = {(x.mechanism, x.passed): x.ms for x in bars if x.kernel == "assay"}
    unit, row, left = 160, 18, 420
    shapes = []
    for i, x in enumerate(bars):
        y, width = 10 + i * row, min(x.ms / own[x.mechanism, x.passed], 4) * unit
        colour = "#4477aa" if x.kernel == "assay" else "#cc6677"
        label = f"{x.mechanism}, {x.passed}: {x.kernel}"
        shapes.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{label}</text>')
        shapes.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{row - 4}" fill="{colour}"/>')
        shapes.append(f'<text x="{left + width + 6:.1f}" y="{y + 12}">{x.ms:.3f} ms</text>')
    height = 20 + len(bars) * row
    shapes.append(f'<line x1="{left + unit}" y1="5" x2="{left + unit}" y2="{height - 5}" stroke="#333333" stroke-dasharray="4 3"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + 4 * unit + 100}" height="{height}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>"]) + "\n"


def versions():
    import importlib.metadata
    import importlib.util

    import torch

    from . import __version__

    names = [name for name in ("torch", "triton", "fla-core", "flash-attn") if importlib.util.find_spec(name.split("-core")[0].replace("-", "_"))]
    return ", ".join([torch.cuda.get_device_name(0), f"assay {__version__}", *(f"{name} {importlib.metadata.version(name)}" for name in names)])


def without_guard():
    """fla refuses gradients of gated kernels with some versions of Triton on Hopper (its issue 640): they are timed all the same."""
    try:
        from fla.ops.common import chunk_o
    except ImportError:
        return
    chunk_o.TRITON_ABOVE_3_7_1 = True


def parser():
    p = Parser(prog="assay bench", description="Times assay.kernels on this machine's GPU (docs/python.md).")
    p.add_argument("what", choices=("kernels",))
    p.add_argument("--peers", action="store_true", help="and torch's, flash-linear-attention's and flash-attn's, where installed")
    p.add_argument("--only", action="append", choices=kernels.__all__, help="this mechanism; may be given again")
    p.add_argument("--shape", default="4,8192,16,128", help="B,T,H,K (4,8192,16,128; half of the tokens for attention)")
    p.add_argument("--runs", type=int, default=20, help="of each, whose median is told (20)")
    p.add_argument("--without-guard", action="store_true", help="time fla's gradients where it refuses them")
    p.add_argument("--format", choices=("text", "json"), default="text")
    p.add_argument("-o", "--output", type=pathlib.Path, metavar="PAGE.md", help="write a page; it keeps its rows of mechanisms that are not run")
    p.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg")
    return p


def shape_of(text, mechanism):
    try:
        batch, tokens, heads, dim = map(int, text.split(","))
    except ValueError:
        raise InputError(f"--shape: expected B,T,H,K, got {text}") from None
    return batch, tokens // 2 if mechanism in kernels.ATTENTION else tokens, heads, dim


def measured(options):
    try:
        import torch
    except ImportError:
        raise InputError("assay bench kernels: needs torch") from None
    if not torch.cuda.is_available():
        raise InputError("assay bench kernels: torch finds no GPU here")
    if options.without_guard:
        without_guard()
    ceilings, found = Ceilings(torch.empty(1 << 28, dtype=torch.uint8, device="cuda")), []
    for mechanism in options.only or kernels.__all__:
        print(f"assay: times {mechanism}", file=sys.stderr, flush=True)
        found += times(mechanism, shape_of(options.shape, mechanism), options.peers, options.runs, ceilings)
        torch.cuda.empty_cache()
    return found


def main(args):
    options = parser().parse_args(args)
    try:
        shape_of(options.shape, "")
        if options.runs < 1:
            raise InputError(f"--runs: expected at least 1, got {options.runs}")
        found = measured(options)
    except InputError as refused:
        print(f"assay: {refused}", file=sys.stderr)
        return 2
    if options.plot:
        options.plot.write_text(plot(found))
    if options.output:
        options.output.write_text(page(found, options, options.output.read_text() if options.output.exists() else ""))
    if options.format == "json":
        print(json.dumps([dataclasses.asdict(x) for x in found], indent=2))
    else:
        print(f"{versions()}; medians of {options.runs}, the kernels in turns, the cache flushed before each.\n\n{table(found)}")
    return 0
