"""`assay demo`: a kernel that is wrong, judged; what the verdict means; and the kernel mended."""
import argparse
import inspect

import numpy as np

from ._cases import case
from ._checks import check

CASE = ("softmax_attention", (1, 64, 2, 16), "fp32")


def attention(q, k, v):
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


def mended(q, k, v):
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


def code(text):
    return ["    " + line for line in text.splitlines()]


def shown(report, *starts):
    """The lines of a verdict that start so."""
    lines = [*str(report).splitlines(), *report.explanation().splitlines()]
    return [f"    {next(line for line in lines if line.startswith(start))}" for start in starts]


def parts():
    """The demo: headings, and the lines below each."""
    problem = case(*CASE, cotangents=False)
    wrong, right = (check(problem, kernel, raises=False) for kernel in (attention, mended))
    row = wrong["o"]
    (added,) = [line for line in inspect.getsource(mended).splitlines() if line not in inspect.getsource(attention)][1:]
    yield "A kernel of softmax attention, in NumPy", code(inspect.getsource(attention))
    yield "It is judged", [
        f"    case = {problem.origin}",
        "    assay.check(case, attention)",
        "",
        *shown(wrong, "FAIL", "looks like", "o: "),
    ]
    yield "What that says", [
        f"- Wrong: the error of o is {row['relative_error']:.0%} of o, {row['model_excess']:.1g} times what fp32 excuses on these very numbers,",
        "  whatever the algorithm. Nobody typed a tolerance, and what it is compared with is proven.",
        f"- Where: {row['where'].split(';')[0]}. The last query is right: it sees all keys anyway.",
        "- Why: of the mistakes that assay knows one explains the whole error: the causal mask is missing.",
    ]
    yield "It is mended, by a line", [f"    {added.strip()}", "", *shown(right, "PASS", "detects")]
    yield "What that PASS is worth", [
        f"- An output that is too large by {right['o']['smallest_gain']:.1g} of itself would have failed on this case,",
        "  and so would a mask that is one key short, or sums in tf32: what it `detects`.",
    ]
    yield "Your own kernel, in torch, NumPy or JAX", [
        '    case = assay.case("gated_deltanet", shape=(2, 100, "8/4", 64), dtype="bf16")',
        "    assay.check(case, your_kernel)",
        "",
        "- `assay list` names the mechanisms, help(assay.check) says what else it takes.",
    ]


def main(args):
    """Prints it. Exit code 0; 2 for arguments, of which it has none."""
    argparse.ArgumentParser(prog="assay demo", description="A kernel that is wrong, judged; what the verdict means; and the kernel mended.").parse_args(args)
    for i, (heading, lines) in enumerate(parts(), 1):
        print(f"{i}. {heading}\n", *lines, "", sep="\n")
    return 0
