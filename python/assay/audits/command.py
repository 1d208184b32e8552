"""`assay audit`: the audit from a shell. Exit code 0: passed; 1: not; 2: bad use."""
import argparse
import json
import sys


def parser():
    p = argparse.ArgumentParser(prog="assay audit", description="Whether a candidate computes its task, or what passes for it (docs/audit.md).")
    p.add_argument("task", help="a mechanism (with --shape), a definition of flashinfer-bench or SOL-ExecBench (.json), or a KernelBench task (.py)")
    p.add_argument("candidate", help="file.py:function, module:function, a file of KernelBench (its ModelNew), or a solution of a definition (.json)")
    p.add_argument("--shape", help="B,T,H,K or B,T,H,K,V; H as 8/4 are 8 heads that share 4")
    p.add_argument("--precision", default="bf16", help="of q, k and v (bf16)")
    p.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a setting of the mechanism")
    p.add_argument("--rename", action="append", default=[], metavar="OURS=THEIRS", help="what the candidate calls an input")
    p.add_argument("--outputs", help="what it returns, in order: o,final_state")
    p.add_argument("--out", help="outputs that are arguments, which it writes into: o,final_state")
    p.add_argument("--inplace", help="states that it may overwrite, which then are the final ones: initial_state")
    p.add_argument("--axis", action="append", default=[], metavar="NAME=N", help="a size of a task; workload=N: sizes of line N of workload.jsonl")
    p.add_argument("--contract", help="that decides, in place of the precision's")
    p.add_argument("--arrays", choices=("numpy", "torch"))
    p.add_argument("--device", help="cuda, for example")
    p.add_argument("--again", type=int, default=100, metavar="N", help="calls more on one of the inputs (100)")
    p.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for one step (600)")
    p.add_argument("--seed", type=int, help="makes the audit the same again; without, nobody knows it before")
    p.add_argument("--format", choices=("text", "json"), default="text")
    return p


def pairs(words, flag, convert=lambda x: x):
    from .._native import InputError

    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        try:
            if not equals or not name:
                raise ValueError
            found[name] = convert(value)
        except ValueError:
            raise InputError(f"{flag}: expected NAME=VALUE, got {word}") from None
    return found


def setting(word):
    """A count, a switch, a number, or a word."""
    if word in ("true", "false"):
        return word == "true"
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            pass
    return word


def main(args):
    options = parser().parse_args(args)
    from .._native import InputError
    from .audit import audit

    try:
        task = options.task
        if not task.endswith((".json", ".py")):
            if not options.shape:
                raise InputError("shape: a mechanism needs --shape B,T,H,K")
            outputs, out, inplace = (words.split(",") if words else () for words in (options.outputs, options.out, options.inplace))
            task = {"mechanism": task, "shape": options.shape, "dtype": options.precision, "outputs": outputs, "out": out, "inplace": inplace,
                    "rename": pairs(options.rename, "rename"), **pairs(options.param, "param", setting)}  # fmt: skip
        found = audit(task, options.candidate, options.contract, arrays=options.arrays, device=options.device, again=options.again,
                      timeout=options.timeout, seed=options.seed, raises=False, axes=pairs(options.axis, "axis", int))  # fmt: skip
    except InputError as error:
        print(f"assay: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found.page, indent=1) if options.format == "json" else found)
    return 0 if found.passed else 1
