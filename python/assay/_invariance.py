"""assay.invariance: whether a kernel answers the same bits however it is asked."""
import dataclasses

import numpy

from . import _graphs
from ._apart import Apart, expected_of
from ._calls import Calls, first_run, frameworks_of
from ._cases import facts_of
from ._checks import Mismatch, judge, require_outputs, tensors_of
from ._kernels import A_NUMBER, Signature
from ._native import InputError
from ._reports import Found
from ._sequences import KEYS, LISTS, NotAsked, Sequences, Unlike, bits, filled, stored, tokens_first

# Below these sizes a case shows nothing: a chunk of published kernels has 64 tokens, blocks flip at 256 (vllm#48271), and keys are not
# split up to 4 blocks of 128 (heuristics of FlashAttention 3).
CHUNK, FLIP, UNSPLIT = 64, 256, 512
# Tokens of a draft: published models guess two to seven.
DRAFT = 4
REQUIRED = ("bits", "right")


@dataclasses.dataclass
class Row:
    """One way to ask: what came of it, or why it was not asked. right: whether the answer passes; case: the number of the case that was asked."""

    way: str
    why: str = ""
    note: str = ""
    same: bool = False
    right: bool = False
    case: int = 1
    apart: list = dataclasses.field(default_factory=list)

    @property
    def asked(self):
        """Whether it was asked at all."""
        return not self.why

    @property
    def verdict(self):
        """same bits, right, FAIL or not asked."""
        return "not asked" if self.why else "same bits" if self.same else "right" if self.right else "FAIL"

    @property
    def page(self):
        """As programs read it."""
        if self.why:
            return {"way": self.way, "verdict": self.verdict, "why": self.why}
        return {"way": self.way, "verdict": self.verdict, "same_bits": self.same, "right": self.right, "case": self.case, "note": self.note,
                "tensors": [one.row() for one in self.apart]}  # fmt: skip

    def __str__(self):
        unlike = [str(one) for one in self.apart if not one.same]
        return self.why or "; ".join([*([f"case {self.case}"] if self.case > 1 else []), *([self.note] if self.note else []), *unlike])


class Invariance(Found):
    """The table. str() is what people read, page what programs do, rows one way to ask after the other; reports the judge's of each case."""

    def __init__(self, kernel, require):
        self.kernel, self.require, self.rows, self.reports = kernel, require, [], []

    @property
    def passed(self):
        """Whether the kernel is right as it is, and every way that was asked has what is required: the same bits, or a right answer."""
        asked = [row.same if self.require == "bits" else row.right for row in self.rows if row.asked]
        return all(asked) and all(report.passed for report in self.reports)

    def __getitem__(self, way):
        for row in self.rows:
            if row.way == way:
                return row
        raise InputError(f"{way}: was not among the ways; there are {', '.join(row.way for row in self.rows)}")

    @property
    def page(self):
        """As programs read it."""
        judged = [{"case": report.case.origin, "verdict": report.verdict} for report in self.reports]
        return {"format": "assay-invariance", "kernel": self.kernel, "require": self.require, "passed": self.passed, "judged": judged,
                "rows": [row.page for row in self.rows]}  # fmt: skip

    def __str__(self):
        lines = [f"invariance of {self.kernel}"]
        lines += [f"case {i}: {report.verdict} as it is; {report.case.origin}" for i, report in enumerate(self.reports, 1)]
        width = max((len(row.way) for row in self.rows), default=0)
        lines += [f"  {row.verdict:<9}  {row.way:<{width}}  {row}".rstrip() for row in self.rows]
        asked = [row for row in self.rows if row.asked]
        counts = [f"{sum(row.same for row in asked)} with the same bits", f"{sum(row.right for row in asked)} right"]
        lines.append("1 apart is as far as two right kernels may be" if any(not row.same for row in asked) else "")
        lines.append(f"{'PASS' if self.passed else 'FAIL'}  {self.require} required; of {len(asked)} ways asked {', '.join(counts)}")
        return "\n".join(filter(None, lines))


def invariance(case, kernel, contract=None, *, require="right", ways=None, rename=None, outputs=None, out=(), inplace=(), arrays=None,
               device=None, raises=True, **how):  # fmt: skip
    """Asks a kernel for the same answer in other ways (docs/guides/invariance.md): an Invariance, raised as an AssertionError unless every way
    has what is required, "right" answers or the same "bits".

    Ways that need arguments or a device that are not there are listed as not asked; where a case is too small to show one, a larger one of the
    same mechanism is drawn. ways=("batch size", "padding") asks in these alone. Outputs are compared, no gradients. The rest is what
    assay.check and assay.judge take.
    """
    __tracebackhide__ = True
    if not callable(kernel):
        raise InputError(f"kernel: expected a function, got {type(kernel).__name__}")
    if require not in REQUIRED:
        raise InputError(f"require: expected {' or '.join(REQUIRED)}, got {require}")
    for one in ways or ():
        if one not in WAYS:
            raise InputError(f"ways: {one}: there is no such way to ask; there are {', '.join(WAYS)}")
    device = device or getattr(case, "device", None)
    frameworks = frameworks_of(case, kernel, arrays, device)
    case, calls = case.forward(), Calls(kernel, device, rename, outputs, out, inplace, False, True)
    ran, framework = first_run(lambda kind: calls.run(case, kind), frameworks)
    found = Invariance(getattr(kernel, "__name__", type(kernel).__name__), require)
    asked, others = Asked(case, calls, framework, found, {"contract": contract, **how}, ran), {}
    found.rows += [row_of(one, WAYS[one], asked, others) for one in ways or WAYS]
    if raises and not found.passed:
        raise Mismatch(found)
    return found


class Asked:
    """A case, and what the kernel answers to it as it is."""

    def __init__(self, case, calls, framework, found, how, ran=None):
        self.case, self.calls, self.framework, self.how, self.known = case, calls, framework, how, {}
        ran = self.ran(case) if ran is None else ran
        left_out = [] if calls.outputs is None else [name for name in case.asked().outputs if name not in (*calls.outputs, *calls.out)]
        require_outputs(case, ran, None, left_out)
        self.answer, self.report = ran.answer, self.judged(ran.answer)
        found.reports.append(self.report)
        self.found, self.number = found, len(found.reports)
        self.expected = {name: expected_of(self.report, name) for name in self.answer}
        try:
            self.sequences, self.without = Sequences(case), ""
        except NotAsked as why:
            self.sequences, self.without = None, str(why)

    def ran(self, case, *byte):
        """The kernel's run on a case. NotAsked where it raises anything."""
        try:
            return self.calls.run(case, self.framework, *byte)
        except Exception as error:
            said = str(error).splitlines() or [type(error).__name__]
            raise NotAsked(f"the kernel refuses it: {said[0]}") from None

    def judged(self, answer):
        return judge(self.case, answer, tensors=tensors_of(self.case, answer), **{"quick": True, **self.how})

    def answers(self, ones, kind=None, **pages):
        """The sequences of the kernel's answer to a case of these."""
        case = self.sequences.posed(ones, kind, **pages)
        return Sequences(case).all(self.ran(case).answer)

    def row(self, way, ask):
        """The result of a way, which may have two names."""
        if ask not in self.known:
            row = self.known[ask] = Row(way, case=self.number)
            try:
                answer, row.note = ask(self)
                judged = self.case.asked().judged
                row.apart = [Apart(name, was, answer[name], [self.expected[name]] * 2, self.case, judged.get(name))
                             for name, was in self.answer.items() if name in answer]  # fmt: skip
                row.same = all(one.same for one in row.apart)
                row.right = (self.report if row.same else self.judged({**self.answer, **answer})).passed
            except Unlike as unlike:
                row.note = str(unlike)
            except NotAsked as why:
                row.why = str(why)
        return dataclasses.replace(self.known[ask], way=way)

    def sizes(self):
        """How many sequences there are, and how many keys and queries the longest has."""
        s = self.sequences
        return s.count, max(end - first for _, first, end in s.keys), max(end - first for _, first, end in s.queries)


def row_of(way, ask, asked, others):
    """A way's row: of the case, or of a larger one where that cannot show it."""
    if asked.sequences is None and ask.shows is not always:
        return Row(way, why=asked.without)
    hidden = ""
    try:
        hidden, shape = ask.shows(asked)
        if not hidden:
            return asked.row(way, ask)
        if shape not in others:
            others[shape] = Asked(larger(asked.case, *shape), asked.calls, asked.framework, asked.found, asked.how)
        row = others[shape].row(way, ask)
    except NotAsked as why:
        return Row(way, why=str(why))
    except InputError as error:
        return Row(way, why=f"{hidden}; {error}")
    return dataclasses.replace(row, note="; ".join(filter(None, [hidden, row.note])))


def larger(case, batch, tokens):
    """A case of the same mechanism with so many sequences and tokens ("1/1024": a query on 1024 keys)."""
    from .audits.tasks import task_of

    if case.has_arguments or case.layout != "bthd" or "q" not in case:
        raise InputError("give a larger case: assay draws none with arguments or in other layouts")
    task = task_of(case)
    one = task.draw(int(case.metadata.get("seed", 0)), shape=[str(batch), str(tokens), *task.shape[2:]])
    dropped = [name for name in one.inputs if name not in case]
    one = one.without(*dropped) if dropped else one
    if set(one.inputs) != set(case.inputs):
        raise InputError(f"give a larger case: assay draws none with {', '.join(sorted(set(case.inputs) - set(one.inputs)))}")
    return one


# Needs of a way: "", or why the case cannot show it, and the shape of one that does.


def always(asked):
    return "", None


def a_batch(asked):
    batch, keys, queries = asked.sizes()
    return ("", None) if batch > 1 else ("one sequence has no others", (2, keys if queries == keys else f"{queries}/{keys}"))


def a_flip(asked):
    batch, tokens, _ = asked.sizes()
    return ("", None) if tokens <= FLIP < batch * tokens else (f"{tokens} and {batch} x {tokens} tokens lie on one side of {FLIP}", (2, FLIP // 2 + CHUNK // 2))


def chunks(asked):
    batch, _, queries = asked.sizes()
    return ("", None) if queries >= 2 * CHUNK else (f"{queries} tokens are not two chunks of {CHUNK}", (max(batch, 2), 2 * CHUNK))


def a_batch_of_chunks(asked):
    batch, _, queries = asked.sizes()
    return chunks(asked) if batch > 1 else ("one sequence has no others", (2, max(2 * CHUNK, queries)))


def keys_to_split(asked):
    batch, keys, _ = asked.sizes()
    attends(asked)
    return ("", None) if keys > UNSPLIT and batch > 1 else (f"{keys} keys are never split", (2, f"1/{2 * UNSPLIT}"))


def sequences(asked):
    return "", None


def way(shows=always):
    def named(ask):
        ask.shows = shows
        return ask

    return named


# The ways. Each gives an answer to the case, or to part of its tensors, and a note.


@way()
def again(asked):
    """Once more, with other numbers in memory that it has not written."""
    return asked.ran(asked.case, A_NUMBER).answer, ""


@way(a_batch)
def alone(asked):
    """Every sequence in a call of its own."""
    return one_by_one(asked), ""


def one_by_one(asked, kind=None):
    """The answers to all sequences but empty ones, a call for each."""
    s = asked.sequences
    found = s.all(asked.answer)
    for n, one in enumerate(s.all()):
        if len(one[s.lead][1]):
            (found[n],) = asked.answers([one], kind)
    return s.joined(asked.answer, found)


@way(a_flip)
def alone_across_a_flip(asked):
    """The same where the batch has more than 256 tokens, and a sequence has not."""
    return alone(asked)


@way(a_batch)
def backwards(asked):
    """The sequences of the batch in the other order."""
    return asked.sequences.joined(asked.answer, asked.answers(asked.sequences.all()[::-1])[::-1]), ""


@way(a_batch)
def beside_copies(asked):
    """The first sequence that has rows, the last and the shortest, each in a batch of copies of it: others are no longer and no shorter."""
    s, ones, found = asked.sequences, asked.sequences.all(), asked.sequences.all(asked.answer)
    lengths = [end - first for _, first, end in s.keys]
    some = [n for n, one in enumerate(ones) if len(one[s.lead][1])]
    for n in {some[0], some[-1], min(some, key=lambda n: lengths[n])}:
        found[n] = asked.answers([ones[n]] * len(ones))[n]
    return s.joined(asked.answer, found), ""


@way(sequences)
def packed(asked):
    """The sequences after one another in place of side by side; or side by side, each in a call of its own for a kernel without lengths."""
    s = asked.sequences
    if s.table is not None or not (s.packs or takes(asked.calls, "cu_seqlens")):
        raise NotAsked("the keys are in pages" if s.table is not None else "the kernel takes no cu_seqlens")
    if s.packs and not takes(asked.calls, "lengths"):
        return one_by_one(asked, "slots"), ""
    return s.joined(asked.answer, asked.answers(s.all(), "slots" if s.packs else "packed")), ""


def takes(calls, name):
    """Whether a kernel has an argument of this name of ours."""
    kernel = calls.kernel
    return name in kernel.tensors if hasattr(kernel, "call_ours") else Signature(kernel).names_one(calls.rename.get(name, name))


@way(sequences)
def other_padding(asked):
    """Ordinary numbers in rows outside of every sequence."""
    s, tensors = asked.sequences, {}
    if s.table is not None:
        return in_pages(asked, byte=A_NUMBER)
    for name in (name for name in s.case.inputs if name not in LISTS and s.has_rows(name, s.case.tensors[name][1])):
        dtype, whole = s.case.tensors[name][0], bits(s.case.tensors[name]).copy()
        rows = tokens_first(whole, s.layout)
        outside = numpy.ones(rows.shape[:2], bool)
        for slot, first, end in s.keys if name in KEYS else s.queries:
            outside[slot, first:end] = False
        if outside.any():
            rows[outside] = filled((), whole.dtype, A_NUMBER)
            tensors[name] = stored(dtype, whole)
    if not tensors:
        raise NotAsked("the case has no padding")
    return asked.ran(s.case._changed({**s.case.tensors, **tensors}, "")).answer, ""


@way(sequences)
def pages_backwards(asked):
    """The pages of keys and values in the other order."""
    return in_pages(asked, backwards=True)


@way(sequences)
def smaller_pages(asked):
    """Two pages for each, of half as many rows."""
    rows = asked.sequences.paged(asked.case.tensors["k"]).shape[1] if asked.sequences.table is not None else 0
    if rows % 2:
        raise NotAsked(f"pages of {rows} rows have no halves")
    return in_pages(asked, rows=rows // 2)[0], f"{rows // 2} rows and not {rows}"


def in_pages(asked, **pages):
    if asked.sequences.table is None:
        raise NotAsked("the case has no pages")
    return asked.sequences.joined(asked.answer, asked.answers(asked.sequences.all(), **pages)), ""


@way(chunks)
def in_two(asked):
    """Half of the tokens, whole chunks of them, and in another call the rest."""
    return continued(asked, lambda n: [0, middle(n), n])


@way(chunks)
def all_but_one(asked):
    """All tokens but one, and in another call the last."""
    return continued(asked, lambda n: [0, n - 1, n])


@way(chunks)
def by_token(asked):
    """Decoded: every token in a call of its own."""
    return continued(asked, lambda n: range(n + 1))[0], ""


@way(a_batch_of_chunks)
def after_one_prefix(asked):
    """The longest sequence: its first half alone, and then in a batch whose other sequences share that and go on otherwise."""
    s, ones, found = asked.sequences, asked.sequences.all(), asked.sequences.all(asked.answer)
    lengths = [len(one[s.lead][1]) for one in ones]
    states, at, n = continuation(asked), lengths.index(max(lengths)), max(lengths)
    one, cut = ones.pop(at), middle(n)
    (before,) = asked.answers([piece(s, one, 0, cut, states)])
    rest = [piece(s, one, cut, n, states, before)]
    for other in ones:
        if len(other[s.lead][1]) == n:
            shared = {name: (x[0], numpy.concatenate([one[name][1][:cut], x[1][cut:]])) if s.has_rows_in_case(name) else x for name, x in other.items()}
            rest.append(piece(s, shared, cut, n, states, before))
    found[at] = glued(s, asked.answer, [before, asked.answers(rest)[0]])
    return s.joined(asked.answer, found), f"{cut} + {n - cut}"


@way(chunks)
def after_drafts(asked):
    """Half of the tokens, then a draft whose first tokens are right and others are not, and what follows those from where they end. A kernel
    that says no states of tokens has its drafts rejected as a whole."""
    states, s = continuation(asked), asked.sequences
    found, some = s.all(asked.answer), list(states) == ["initial_state"] and takes(asked.calls, "state_at")
    kept = []
    for i, one in enumerate(s.all()):
        n = len(one[s.lead][1])
        cut = middle(n)
        if not cut:
            continue
        kept.append(1 + i % (DRAFT - 1) if some and n - cut > DRAFT else 0)
        (before,) = asked.answers([piece(s, one, 0, cut, states)])
        parts, state = drafted(asked, one, cut, kept[-1], states, before)
        found[i] = glued(s, asked.answer, [before, *parts, *asked.answers([piece(s, one, cut + kept[-1], n, states, state)])])
    return s.joined(asked.answer, found), f"{' and '.join(map(str, sorted(set(kept))))} of {DRAFT} accepted" if some else "no token accepted"


def drafted(asked, one, cut, kept, states, before):
    """A draft after the first `cut` tokens of a sequence, of which so many are right: the rows of these, and the state after them."""
    s, end = asked.sequences, min(cut + DRAFT, len(one[asked.sequences.lead][1]))

    def spoiled(array):
        """The sequence's first tokens in place of those that are to be rejected."""
        return numpy.concatenate([array[: cut + kept], array[: end - cut - kept], array[end:]])

    other = {name: (dtype, spoiled(array)) if s.has_rows_in_case(name) else (dtype, array) for name, (dtype, array) in one.items()}
    draft = piece(s, other, cut, end, states, before)
    if not kept:
        asked.answers([draft])
        return [], before
    answer = asked.ran(s.posed([{**draft, "state_at": ("I32", numpy.array(kept - 1, numpy.uint32))}])).answer
    if "states_at" not in answer:
        raise NotAsked("the kernel takes state_at, and answers no states_at")
    rows = {name: (x[0], tokens_first(bits(x), s.layout)[0, :kept]) for name, x in answer.items() if name in asked.answer and s.has_rows(name, asked.answer[name][1])}
    return [rows], {states["initial_state"]: (answer["states_at"][0], bits(answer["states_at"])[0])}


@way(keys_to_split)
def last_query_alone(asked):
    """The last query of every sequence in a call of its own, for which kernels split the keys."""
    s, found = asked.sequences, asked.sequences.all(asked.answer)
    for i, one in enumerate(s.all()):
        n = len(one[s.lead][1])
        if n:
            (last,) = asked.answers([piece(s, one, n - 1, n, {})])
            found[i] = glued(s, asked.answer, [{name: (kind, array[: n - 1]) for name, (kind, array) in found[i].items()}, last])
    return s.joined(asked.answer, found), ""


@way()
def another_stream(asked):
    """On a stream of CUDA that is not the default one."""
    torch = _graphs.cuda_of(asked.framework, asked.calls.device)
    with torch.cuda.stream(_graphs.side_stream(torch)):
        return asked.ran(asked.case).answer, ""


@way()
def replayed(asked):
    """Captured as a graph of CUDA with other inputs, and replayed."""
    torch = _graphs.cuda_of(asked.framework, asked.calls.device)
    try:
        return _graphs.replay(torch, asked.calls, asked.case)[0], ""
    except RuntimeError as error:
        raise NotAsked(f"cannot be captured: {str(error).splitlines()[0]}") from None


WAYS = {
    "again": again, "batch size": alone, "batch over 256 tokens": alone_across_a_flip, "place in the batch": backwards, "beside copies": beside_copies,
    "packing": packed, "padding": other_padding, "order of pages": pages_backwards, "page size": smaller_pages, "split in two": in_two,
    "split off the last": all_but_one, "token by token": by_token, "prefix reuse": after_one_prefix, "rejected drafts": after_drafts, "splits of keys": last_query_alone,
    "another stream": another_stream, "graph replay": replayed,
}  # fmt: skip


# Calls that go on where others have ended.


def middle(n):
    """Half of n, whole chunks if there are any."""
    return n // 2 // CHUNK * CHUNK or n // 2


def continuation(asked):
    """{initial state: the final one} of a recurrence, {} of attention. NotAsked where a call cannot go on."""
    case, facts = asked.case, facts_of(asked.case.mechanism)
    known = [field["name"] for field in facts["inputs"]]
    usual = "same_step" if case.mechanism == "deltanet" else None
    if "k_carry" in known and case.params.get("alignment", usual) != "same_step":
        raise NotAsked(f"{case.mechanism} takes over more than its state")
    if case.params.get("normalization") == "count":
        raise NotAsked("normalization=count counts from the first token")
    states = {name.replace("final_", "initial_", 1): name for name in case.asked().outputs if name.startswith("final_")}
    for name, final in states.items():
        if name not in known or final not in asked.answer:
            raise NotAsked(f"{final}: " + (f"{case.mechanism} does not take it back" if name not in known else "the kernel does not answer it"))
    return states or attends(asked)


def attends(asked):
    """{} where queries see keys, whose rows can be taken apart. NotAsked elsewhere."""
    case = asked.case
    if any(field["name"].startswith("final_") for field in facts_of(case.mechanism)["outputs"]):
        raise NotAsked(f"{case.mechanism} has a state and no keys")
    if not {"q", "k", "v"} <= set(case.inputs) or case.params.get("causal_align") == "start":
        raise NotAsked(f"assay does not know how a call of {case.mechanism} goes on")
    return {}


def piece(s, one, a, b, states, before=None):
    """Tokens a .. b - 1 of a sequence, after the answer to those before; attention sees all keys up to them, and lists name no others."""
    found = {}
    for name, (dtype, array) in one.items():
        if not states and name in KEYS:
            hidden = 0 if s.case.params.get("causal") is False else len(one[s.lead][1]) - b
            found[name] = dtype, array[: len(array) - hidden]
        else:
            found[name] = dtype, array[a:b] if s.has_rows_in_case(name) else array
    if "topk_indices" in found:  # bits, of which those of -1 are the largest number
        dtype, entries = found["topk_indices"]
        keys = -(-len(found["k"][1]) // int(s.case.params.get("topk_block_size", 1)))
        found["topk_indices"] = dtype, numpy.where(entries < keys, entries, ~entries.dtype.type(0))
    return {**found, **{initial: before[final] for initial, final in states.items() if before is not None}}


def glued(s, answer, parts):
    """Answers to parts of a sequence as one: rows after one another, states of the last."""
    found = {}
    for name, (dtype, last) in parts[-1].items():
        if name.startswith("final_"):
            found[name] = dtype, last
        elif name in answer and s.has_rows(name, answer[name][1]):
            if any(part[name][0] != dtype for part in parts):
                raise Unlike(f"{name} is {dtype} at the end, and {parts[0][name][0]} before")
            found[name] = dtype, numpy.concatenate([part[name][1] for part in parts])
    return found


def continued(asked, cuts):
    """All sequences, cut where `cuts` of their number of tokens says: one call for each part, which goes on where the last has ended."""
    states, s = continuation(asked), asked.sequences
    ones = s.all()
    ends, done = [list(cuts(len(one[s.lead][1]))) for one in ones], [[] for _ in ones]
    for i in range(max(map(len, ends)) - 1):
        going = [n for n in range(len(ones)) if i + 1 < len(ends[n]) and ends[n][i] < ends[n][i + 1]]
        pieces = [piece(s, ones[n], *ends[n][i : i + 2], states, done[n][-1] if done[n] and states else None) for n in going]
        for n, answer in zip(going, asked.answers(pieces)):
            done[n].append(answer)
    sizes = " + ".join(str(b - a) for a, b in zip(ends[0], ends[0][1:]))
    found = [glued(s, asked.answer, parts) if parts else was for parts, was in zip(done, s.all(asked.answer))]
    return s.joined(asked.answer, found), sizes
