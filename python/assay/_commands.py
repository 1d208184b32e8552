"""`assay audit`, `assay choose`, `assay invariance` and `assay pair` from a shell. Exit code 0: as required; 1: not; 2: bad use."""
import argparse
import json
import pathlib
import sys
import traceback

import numpy

from . import _cases, _native
from ._arrays import numpy_array
from ._cases import ANSWER, CASE, case, load
from ._native import InputError


class Parser(argparse.ArgumentParser):
    """Refuses flags of other programs, as --dtype and --rtol, in the words of the program's verbs, which know them."""

    def parse_args(self, args=None, namespace=None):
        self.typed = args or []
        return super().parse_args(args, namespace)

    def error(self, message):
        for flag in (word.partition("=")[0] for word in self.typed if word.startswith("--")):
            try:
                _cases.said("list", flag)
            except InputError as refused:
                if str(refused).startswith(f"there is no {flag}: "):
                    self.exit(2, f"assay: {str(refused).partition('; ')[0]}\n")  # behind it is a flag that only `check` has
        super().error(message)


def parser(verb, about, page="guides/invariance", seed="of a mechanism's numbers (0)"):
    """The parser with the options of all these verbs."""
    p = Parser(prog=f"assay {verb}", description=f"{about} (docs/{page}.md).")
    p.add_argument("--shape", help="of a mechanism: B,T,H,K or B,T,H,K,V; H as 8/4 are 8 heads that share 4")
    p.add_argument("--precision", default="bf16", help="of q, k and v of a mechanism (bf16)")
    p.add_argument("--seed", type=int, default=0, help=seed)
    p.add_argument("--rename", action="append", default=[], metavar="OURS=THEIRS", help="what the kernel calls an input")
    p.add_argument("--contract", help="that decides")
    p.add_argument("--arrays", choices=("numpy", "torch", "jax"))
    p.add_argument("--device", help="cuda, for example")
    p.add_argument("--format", choices=("text", "json"), default="text")
    return p


def with_outputs(p):
    """The same, and where the outputs of a kernel are."""
    words = lambda text: text.split(",")
    p.add_argument("--outputs", type=words, help="what it returns, in order: o,final_state")
    p.add_argument("--out", type=words, default=(), help="outputs that are arguments, which it writes into: o")
    p.add_argument("--inplace", type=words, default=(), help="states that it may overwrite, which then are the final ones: initial_state")
    return p


def case_of(word, options):
    """The case of a file or folder, or of a mechanism."""
    if options.shape:
        return case(word, options.shape, options.precision, seed=options.seed, cotangents=False)
    path = pathlib.Path(word)
    if not path.exists() and not path.suffix:
        raise InputError(f"{word}: there is no such file; a mechanism needs --shape B,T,H,K")
    return load(path / CASE if path.is_dir() else path)


def kernel_of(word):
    """The function that "file.py:function" or "module:function" names."""
    from .audits.child import candidate_of
    from .audits.runner import where_of

    place, _, name = word.rpartition(":")
    if not place or not name:
        raise InputError(f'kernel: expected "file.py:function" or "module:function", got {word}')
    where, _ = where_of(word, None)
    sys.path.insert(0, "")
    try:
        return candidate_of(where)
    except Exception as error:  # whatever an import raises
        is_missing = isinstance(error, AttributeError) and error.name in name.split(".")
        raise InputError(f"kernel: {place} has no {name}" if is_missing else f"kernel: {place}: {type(error).__name__}: {error}") from None


def answer_of(word):
    """A kernel, or the tensors of an answer's file."""
    path = pathlib.Path(word)
    if not path.is_dir() and path.suffix != ".safetensors":
        return kernel_of(word)
    return tensors_of(path / ANSWER if path.is_dir() else path)


def tensors_of(path):
    try:
        return _native.parse(path.read_bytes(), str(path))[0]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def head_of(path):
    try:
        return numpy.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"head: {path}: is no array of NumPy: {error}") from None


def shared(options):
    """The settings of the kernel's calls."""
    return {"outputs": options.outputs, "out": options.out, "inplace": options.inplace, **called(options)}


def called(options):
    return {"rename": pairs(options.rename, "rename"), "arrays": options.arrays, "device": options.device, "raises": False}


def pairs(words, flag, convert=lambda x: x):
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


def audit(args):
    p = with_outputs(parser("audit", "Whether a candidate computes its task, or what passes for it", "audit", "makes the audit the same again"))
    p.add_argument("task", help="a mechanism (with --shape), a definition of flashinfer-bench or SOL-ExecBench (.json), or a KernelBench task (.py)")
    p.add_argument("candidate", help="file.py:function, module:function, a file of KernelBench (its ModelNew), or a solution of a definition (.json)")
    p.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="a setting of the mechanism")
    p.add_argument("--axis", action="append", default=[], metavar="NAME=N", help="a size of a task; workload=N: sizes of line N of workload.jsonl")
    p.add_argument("--again", type=int, default=100, metavar="N", help="calls more on one of the inputs (100)")
    p.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for one step (600)")
    p.set_defaults(seed=None)
    options = p.parse_args(args)

    def asked():
        from .audits.audit import audit as ask

        task, how = options.task, shared(options)
        own = {name: how.pop(name) for name in ("outputs", "out", "inplace", "rename")}
        if not task.endswith((".json", ".py")):
            if not options.shape:
                raise InputError("shape: a mechanism needs --shape B,T,H,K")
            task = {"mechanism": task, "shape": options.shape, "dtype": options.precision, **own, **pairs(options.param, "param", setting)}
        return ask(task, options.candidate, options.contract, again=options.again, timeout=options.timeout, seed=options.seed,
                   axes=pairs(options.axis, "axis", int), **how)  # fmt: skip

    return said(asked, options.format)


def choose(args):
    p = parser("choose", "Whether a top-k, a choice of blocks or of experts is one that a right kernel may make", "guides/choices")
    p.add_argument("case", help="a case file, or a mechanism whose output are scores (with --shape)")
    p.add_argument("chosen", nargs="?", help="a safetensors file with chosen, -1 for none, and perhaps length")
    p.add_argument("--kernel", help="file.py:function or module:function that chooses, in place of the file")
    p.add_argument("--mechanism", help="the program of a case file, where that is Python")
    p.add_argument("-k", type=int, help="how many there should be (as many as chosen is wide)")
    p.add_argument("--scores", metavar="PRECISION", help="of the scores' products and sums (fp32)")
    options = p.parse_args(args)

    def asked():
        from ._choices import check_choice
        from ._programs import read

        if (options.chosen is None) == (options.kernel is None):
            raise InputError("choose: expected a file of what is chosen, or --kernel; " + ("neither" if options.kernel is None else "not both"))
        if options.mechanism:
            read(options.mechanism)
        one = case_of(options.case, options)
        chosen, length = choice_of(options.chosen) if options.kernel is None else (kernel_of(options.kernel), None)
        return check_choice(one, chosen, options.contract, length=length, k=options.k, precision=options.scores, **called(options))

    return said(asked, options.format)


def choice_of(path):
    """`chosen` and `length` of a file."""
    tensors = tensors_of(pathlib.Path(path))
    if "chosen" not in tensors:
        raise InputError(f"{path}: expected chosen, and perhaps length; it has {', '.join(tensors)}")
    return [numpy_array(tensors[name]) if name in tensors else None for name in ("chosen", "length")]


def invariance(args):
    p = with_outputs(parser("invariance", "Whether a kernel answers the same bits, or right ones, however it is asked"))
    p.add_argument("case", help="a case file, or a mechanism (with --shape)")
    p.add_argument("--kernel", required=True, help="file.py:function or module:function")
    p.add_argument("--require", choices=("bits", "right"), default="right", help="of every way: the same bits, or a right answer (right)")
    p.add_argument("--ways", help="these alone: batch size,padding")
    options = p.parse_args(args)

    def asked():
        from ._invariance import invariance as ask

        one, kernel = case_of(options.case, options), kernel_of(options.kernel)
        found = ask(one, kernel, options.contract, require=options.require, ways=options.ways and options.ways.split(","), **shared(options))
        found.kernel = options.kernel
        return found

    return said(asked, options.format)


def pair(args):
    p = with_outputs(parser("pair", "Two kernels, each against the truth, and how far they are apart"))
    p.add_argument("a", help="file.py:function, module:function, an answer file, or a folder that assay.capture has written")
    p.add_argument("b", help="the same")
    p.add_argument("--case", help="a case file, or a mechanism (with --shape); without, that of A's folder")
    p.add_argument("--logits", metavar="TENSOR", help="whose last axis are logits: o")
    p.add_argument("--head", metavar="FILE.npy", help="[channels, vocabulary]: what makes logits of it")
    options = p.parse_args(args)

    def asked():
        from ._pairs import pair as judge_both

        where = options.case or (options.a if pathlib.Path(options.a).is_dir() else None)
        if where is None:
            raise InputError("case: expected --case, a file or a mechanism; a folder of assay.capture has its own")
        one, head = case_of(where, options), head_of(options.head) if options.head else None
        logits = options.logits or ("o" if head is not None else None)
        found = judge_both(one, answer_of(options.a), answer_of(options.b), options.contract, logits=logits, head=head, **shared(options))
        found.names = [options.a, options.b]
        return found

    return said(asked, options.format)


def said(asked, form):
    try:
        found = asked()
    except InputError as error:
        print(f"assay: {error}", file=sys.stderr)
        return 2
    except Exception:  # the kernel's: no verdict, and whoever wrote it needs to see where
        traceback.print_exc()
        return 2
    print(json.dumps(found.page, indent=1) if form == "json" else found)
    return 0 if found.passed else 1
