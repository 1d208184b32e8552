"""`assay demo`: a kernel that is wrong, judged; what the verdict means; and the kernel mended."""
import argparse
import inspect
import re
import textwrap

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
    """The lines of a verdict that start so, each with those that it goes on in."""
    text = f"{report}\n{report.explanation()}\n"
    found = (re.search(rf"^{start}.*\n(?:      (?!where: ).*\n)*", text, re.MULTILINE)[0] for start in starts)
    whole = (re.sub(r"\n +", " ", lines) for lines in found)
    return [f"    {line}" for words in whole for line in textwrap.wrap(words, 96, subsequent_indent="  ", break_on_hyphens=False)]


def said(words):
    """A point of the explanation, in lines."""
    return textwrap.wrap(f"- {words}", 100, subsequent_indent="  ", break_on_hyphens=False)


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
        *said(f"Wrong: the error of o is {row['relative_error']:.0%} of o, {row['model_excess']:.1g} times what fp32 excuses on these very "
              "numbers, whatever the algorithm. Nobody typed a tolerance, and what it is compared with is proven."),
        *said(f"Where: {row['where'].split(';')[0]}. The last query is right: it sees all keys anyway."),
        *said("Why: of the mistakes that assay knows one explains the whole error: the causal mask is missing."),
    ]
    yield "It is mended, by a line", [f"    {added.strip()}", "", *shown(right, "PASS", "detects")]
    yield "What that PASS is worth", [
        *said(f"An output that is too large by {right['o']['smallest_gain']:.1g} of itself would have failed on this case, and so would a "
              "mask that is one key short, or sums in tf32: what it `detects`."),
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
