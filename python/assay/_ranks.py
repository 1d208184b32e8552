"""assay.check(ranks=...): a case that the ranks of torch.distributed compute together, each some of its tokens."""
import hashlib

import numpy

from ._apart import errors_of, expected_of, ratio
from ._arrays import doubles, tensor_of
from ._bits import changed_bits, changed_inputs
from ._checks import passed
from ._kernels import A_NUMBER, Ran
from ._native import InputError
from ._reports import PASSES
from ._sequences import NotAsked, Sequences, bits, stored, tokens_first

SPLITS = ("contiguous", "zigzag")


class Ranks:
    """How the tokens of a case lie on ranks: one piece after the other, or of twice as many pieces the first with the last."""

    def __init__(self, case, split):
        self.case, self.split, self.dist = case, split, initialised()
        self.rank, self.count = self.dist.get_rank(), self.dist.get_world_size()
        if split not in SPLITS:
            raise InputError(f"ranks: expected {' or '.join(SPLITS)}, got {split}")
        try:
            sequences = Sequences(case)
        except NotAsked as why:
            raise InputError(f"ranks: {why}") from None
        if sequences.places or sequences.keys != sequences.queries:
            raise InputError("ranks: expected sequences of one length side by side, with as many keys as queries")
        self.tokens, pieces = sequences.queries[0][2], self.count if split == "contiguous" else 2 * self.count
        if self.tokens % pieces:
            raise InputError(f"ranks: {self.tokens} tokens are not {pieces} pieces of one length")
        self.piece, self.sequences = self.tokens // pieces, sequences
        self.parts = Sequences(self.part(0))

    def rows(self, rank):
        """The tokens of a rank."""
        pieces = [rank] if self.split == "contiguous" else [rank, 2 * self.count - 1 - rank]
        return numpy.concatenate([numpy.arange(p * self.piece, (p + 1) * self.piece) for p in pieces])

    @property
    def last(self):
        """The rank that has the last token."""
        return self.count - 1 if self.split == "contiguous" else 0

    def part(self, rank):
        """The case of a rank. What has no rows is every rank's; the cotangent of a final state is that of the rank with the last token."""
        tensors = {}
        for name, one in self.case.tensors.items():
            if self.sequences.has_rows(name.removeprefix("d_"), one[1]):
                rows = tokens_first(bits(one), self.case.layout)[:, self.rows(rank)]
                tensors[name] = stored(one[0], tokens_first(rows, self.case.layout))
            elif name.startswith("d_") and rank != self.last:
                tensors[name] = stored(one[0], numpy.zeros_like(bits(one)))
            else:
                tensors[name] = one
        return self.case._changed(tensors, "")

    def run(self, calls, same_bits):
        """The kernel's run on its part here; on rank 0 with all, as a Ran and its faults. Or the exception that was raised."""
        own, error, faults, ran = self.part(self.rank), None, [], Ran({}, {}, [])
        try:
            ran = calls.run(own, "torch")
            faults = changed_inputs(own, ran, calls.inplace)
            faults += changed_bits(own, ran.answer, calls.run(own, "torch", A_NUMBER).answer) if same_bits else []
        except Exception as raised:  # whatever a kernel raises: the others must hear of it
            error = raised
        told = [None] * self.count if self.rank == 0 else None
        failed = f"{type(error).__name__}: {error}" if error else ""
        self.dist.gather_object((digest(self.case), failed, faults, ran.answer, ran.cotangents), told)
        if error or self.rank:
            return error, []
        for rank, (case, failed, *_) in enumerate(told):
            if failed or case != told[0][0]:
                return InputError(f"ranks: rank {rank} " + (f"raises {failed}" if failed else "has another case")), []
        try:
            answer = self.merged([answer for *_, answer, _ in told])
        except InputError as unlike:
            return unlike, []
        faults = [f"rank {rank}: {fault}" for rank, (_, _, faults, *_) in enumerate(told) for fault in faults]
        return Ran(answer, {}, [name for name in ran.cotangents if all(name in took for *_, took in told)]), faults

    def merged(self, answers):
        """The ranks' answers as one: rows where their tokens are, gradients of what every rank has summed, states of the last token."""
        found = {}
        for name in dict.fromkeys(name for answer in answers for name in answer):
            has = [rank for rank, answer in enumerate(answers) if name in answer]
            kinds = {answers[rank][name][:2] for rank in has}
            if len(kinds) > 1:
                raise InputError(f"{name}: ranks answer " + " and ".join(f"{dtype} {list(shape)}" for dtype, shape in sorted(kinds)))
            ((dtype, shape),) = kinds
            if self.parts.has_rows(name.removeprefix("d_"), shape):
                if len(has) < self.count:
                    raise InputError(f"{name}: ranks {', '.join(str(r) for r in range(self.count) if r not in has)} do not answer it")
                found[name] = self.joined([answer[name] for answer in answers])
            elif name.startswith("d_"):
                found[name] = tensor_of(sum(doubles(answers[rank][name]) for rank in has), dtype)
            else:
                found[name] = answers[self.last if self.last in has else has[0]][name]
        return found

    def joined(self, parts):
        """Rows of all ranks in the order of the tokens."""
        order = numpy.argsort(numpy.concatenate([self.rows(rank) for rank in range(self.count)]))
        rows = numpy.concatenate([tokens_first(bits(part), self.case.layout) for part in parts], 1)[:, order]
        return stored(parts[0][0], tokens_first(rows, self.case.layout))

    def wrong(self, report):
        """{rank: the tensors in which rows of its tokens are beyond what they may err}: of outputs, whose gradients follow on other ranks, too;
        of gradients where all outputs pass."""
        found, names = {}, [row["tensor"] for row in report.rows if row["verdict"] not in PASSES]
        outputs = [name for name in names if not name.startswith("d_")]
        for name in outputs or names:
            expected, shape = expected_of(report, name), report.answer[name][1]
            if expected is None or not self.sequences.has_rows(name.removeprefix("d_"), shape) or expected.value.shape != tuple(shape):
                continue
            beyond = tokens_first(ratio(errors_of(doubles(report.answer[name]), expected), expected.limit) > 1, self.case.layout)
            for rank in range(self.count):
                if beyond[:, self.rows(rank)].any():
                    found.setdefault(rank, []).append(name)
        return dict(sorted(found.items()))

    def named(self, report):
        """The report with the ranks that are wrong."""
        report.ranks = self.wrong(report)
        report.notes += [f"rank {rank} of {self.count} is wrong in {', '.join(names)}" for rank, names in report.ranks.items()]
        return report


def together(case, split, calls, same_bits, verdict, raises):
    """A case that all ranks compute: rank 0 judges, with verdict(ran, faults), and has the report; elsewhere it is None. All raise what it raises."""
    __tracebackhide__ = True
    ranks, report, error = Ranks(case, split), None, None
    ran, faults = ranks.run(calls, same_bits)
    if ranks.rank == 0 and not isinstance(ran, Exception):
        try:
            report = ranks.named(verdict(ran, faults))
        except Exception as raised:  # the others wait for what is said
            error = raised
    error = ran if isinstance(ran, Exception) else error
    said = [(str(error or ""), "" if report is None or report.passed else report.explanation())]
    ranks.dist.broadcast_object_list(said)
    if error:
        raise error
    if ranks.rank == 0:
        return passed(report, raises)
    refused, wrong = said[0]
    if refused:
        raise InputError(refused)
    if wrong and raises:
        raise AssertionError(wrong)
    return None


def initialised():
    """torch.distributed, where it has ranks."""
    try:
        import torch.distributed as dist
    except ImportError:
        raise InputError("ranks: torch is not installed here") from None
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("ranks: torch.distributed has no ranks here: torchrun starts them, and init_process_group(\"gloo\") joins each")
    return dist


def digest(case):
    """The digest of all bits of a case."""
    found = hashlib.sha256(repr(sorted(case.metadata.items())).encode())
    for name, (dtype, shape, data) in sorted(case.tensors.items()):
        found.update(f"{name} {dtype} {list(shape)} ".encode())
        found.update(bytes(memoryview(data).cast("B")))
    return found.hexdigest()
