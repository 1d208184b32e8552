"""The sequences of a case, each by itself, and cases made of sequences: other ways to ask for the same answer."""
import numpy

from ._arrays import SIZES, bits
from ._cases import COMPONENTS, facts_of

# Arguments that all sequences share, and those that have a row for every token (docs/arguments.md).
SHARED = ("sink", "alibi_slopes", "a_log", "dt_bias", "rate", "skip")
LISTS = ("topk_indices", "topk_length")
ROWS = ("a", "b", "dt", "z", *LISTS)
KEYS = ("k", "v")
# Arguments that say where sequences lie.
PLACES = ("cu_seqlens", "lengths", "page_table")
# Tensors of a sequence that have no rows, by how their names begin.
STATES = ("initial_", "final_", "tail_", "k_carry")
TOKENS = {"bthd": 1, "bhtd": 2, "thd": 0}


class NotAsked(Exception):
    """Why a way to ask says nothing about this case or this kernel."""


class Unlike(Exception):
    """An answer that is not even of the dtype or shape of the one beside it."""


def stored(dtype, array):
    """Unsigned integers as (dtype, shape, bytes)."""
    return dtype, tuple(array.shape), numpy.ascontiguousarray(array).tobytes()


def integers(tensor):
    return bits(tensor).view(f"i{SIZES[tensor[0]]}").astype(int)


def filled(shape, kind, byte=0xFF):
    """Memory full of a byte; that one is NaN in every format."""
    return numpy.full(shape, int.from_bytes(bytes([byte]) * kind.itemsize, "little"), kind)


def tokens_first(array, layout):
    """[B, T, H, ...] out of an array of that layout, or back: a view."""
    return array[None] if layout == "thd" else array.swapaxes(1, 2) if layout == "bhtd" else array


class Sequences:
    """How the sequences of a case lie: in slots of one length, packed after one another, or keys in pages.

    A sequence is {name: (dtype, bits)}: what has a row for every token has tokens first, states have heads first.
    """

    def __init__(self, case):
        self.case, self.layout, self.axis = case, case.layout, TOKENS[case.layout]
        self.lead = next((name for name in ("q", "x") if name in case), None)
        if self.lead is None:
            raise NotAsked(f"assay does not know the sequences of {case.mechanism}")
        self.shared = (*SHARED, *(("weight", "bias") if case.mechanism in COMPONENTS else ()))
        own = [field["name"] for field in facts_of(case.mechanism)["inputs"]]
        for name in case.inputs:
            if name not in (*own, *self.shared, *ROWS) and not name.startswith(PLACES):
                raise NotAsked(f"the case has {name}, which is of all sequences together")
            if name in LISTS and self.layout == "bhtd" and len(case.tensors[name][1]) == 3 - LISTS.index(name):
                raise NotAsked(f"the case has {name} that all heads share, in layout bhtd")
        self.places = {name: integers(x) for name, x in case.tensors.items() if name.startswith(PLACES)}
        self.table = self.places.get("page_table")
        self.packs = any(name.startswith("cu_seqlens") for name in self.places)
        self.queries = self.spans(self.lead, "_q")
        self.keys = self.spans("k", "_k") if "k" in case else self.queries
        self.count = len(self.queries)
        if len(self.keys) != self.count:
            raise NotAsked(f"the case has {self.count} sequences of queries and {len(self.keys)} of keys")

    def spans(self, name, part):
        """(slot, first row, end) of every sequence."""
        lengths = self.places.get("lengths", self.places.get("lengths" + part))
        if part == "_k" and self.table is not None:
            return [(n, 0, int(end)) for n, end in enumerate(lengths)]
        starts = self.places.get("cu_seqlens", self.places.get("cu_seqlens" + part))
        if starts is not None:
            return [(0, int(first), int(end)) for first, end in zip(starts, starts[1:])]
        batch, rows = tokens_first(bits(self.case.tensors[name]), self.layout).shape[:2]
        return [(n, 0, int(rows if lengths is None else lengths[n])) for n in range(batch)]

    def has_rows(self, name, shape):
        """Whether a tensor of the case or of an answer has a row for every token."""
        if name in (self.lead, *KEYS, *ROWS):
            return True
        lead = self.case.tensors[self.lead][1]
        alike = len(shape) >= (2 if self.layout == "thd" else 3) and (shape[0], shape[self.axis]) == (lead[0], lead[self.axis])
        return alike and name not in self.shared and not name.startswith(STATES)

    def has_rows_in_case(self, name):
        """Whether an input has a row for every token."""
        return self.has_rows(name, self.case.tensors[name][1] if name in self.case else ())

    def of(self, tensors, n):
        """Sequence n of inputs or of an answer."""
        found = {}
        for name, one in tensors.items():
            if name in self.shared or name.startswith(PLACES) or not one[1]:
                continue
            slot, first, end = (self.keys if name in KEYS else self.queries)[n]
            if self.table is not None and name in KEYS:
                pages = self.paged(one)
                rows = pages[self.table[n][: -(-end // pages.shape[1])]]
                found[name] = one[0], rows.reshape(-1, *rows.shape[2:])[:end]
            elif self.has_rows(name, one[1]):
                found[name] = one[0], tokens_first(bits(one), self.layout)[slot, first:end]
            elif one[1][0] == self.count:
                found[name] = one[0], bits(one)[n]
            else:
                raise NotAsked(f"{name} is of all sequences together")
        return found

    def paged(self, tensor):
        """[pages, rows, H, d]."""
        return bits(tensor).swapaxes(1, 2) if self.layout == "bhtd" else bits(tensor)

    def all(self, tensors=None):
        """The sequences, of the case's inputs or of an answer."""
        tensors = {name: self.case.tensors[name] for name in self.case.inputs} if tensors is None else tensors
        return [self.of(tensors, n) for n in range(self.count)]

    def joined(self, answer, ones):
        """The answer with these sequences' in place of its own; what lies outside of every sequence stays as it is."""
        found = dict(answer)
        for name, was in answer.items():
            if name not in ones[0]:
                continue
            whole = bits(was).copy()
            for n, one in enumerate(ones):
                dtype, array = one[name]
                slot, first, end = self.queries[n]
                place = tokens_first(whole, self.layout)[slot, first:end] if self.has_rows(name, was[1]) else whole[n]
                if dtype != was[0] or array.shape != place.shape:
                    raise Unlike(f"{name} is {dtype} {list(array.shape)}, and was {was[0]} {list(place.shape)}")
                place[...] = array
            found[name] = stored(was[0], whole)
        return found

    def posed(self, ones, kind=None, **pages):
        """A case of these sequences, which lie as those of this case do; or side by side ("slots"), or after one another ("packed")."""
        paged = self.table is not None and kind is None
        kind = kind or ("packed" if self.packs else "slots")
        layout = "bthd" if kind == "slots" and self.layout == "thd" else self.layout
        tensors = {name: x for name, x in self.case.tensors.items() if name in self.shared or not x[1]}
        for name, (dtype, _) in ones[0].items():
            arrays = [one[name][1] for one in ones]
            if not self.has_rows_in_case(name):
                tensors[name] = stored(dtype, numpy.stack(arrays))
            elif not (paged and name in KEYS):
                whole = numpy.concatenate(arrays)[None] if kind == "packed" else slots(arrays)
                tensors[name] = stored(dtype, whole[0] if layout == "thd" else tokens_first(whole, layout))
        if paged:
            tensors |= self.pages_of(ones, **pages)
        tensors |= self.placed(ones, kind, paged)
        return self.case._changed(tensors, "", **({"layout": layout} if layout != self.layout else {}))

    def placed(self, ones, kind, paged):
        """Where these sequences lie: starts of those after one another, lengths of those side by side."""
        lengths = {"_q": [len(one[self.lead][1]) for one in ones], "_k": [len(one["k"][1]) for one in ones] if "k" in ones[0] else None}
        together = not paged and lengths["_k"] in (None, lengths["_q"]) and not any(name.endswith(("_q", "_k")) for name in self.places)
        found = {}
        for part in ("",) if together else ("_q", "_k"):
            n = lengths[part or "_q"]
            if kind == "packed" and not (paged and part == "_k"):
                found["cu_seqlens" + part] = stored("I32", numpy.cumsum([0, *n]).astype(numpy.int32))
            elif len(set(n)) > 1 or {"lengths", "lengths" + part} & set(self.places):
                found["lengths" + part] = stored("I32", numpy.array(n, numpy.int32))
        return found

    def pages_of(self, ones, rows=None, backwards=False, byte=0xFF):
        """Keys and values in pages of so many rows, which lie in their order or backwards; what is no row is full of that byte."""
        found = {}
        for name in (name for name in KEYS if name in ones[0]):
            whole = self.paged(self.case.tensors[name])
            each = rows or whole.shape[1]
            counts = [-(-len(one[name][1]) // each) for one in ones]
            places = numpy.arange(sum(counts))[:: -1 if backwards else 1]
            pages, table = filled((sum(counts), each, *whole.shape[2:]), whole.dtype, byte), numpy.zeros((len(ones), max(counts)), numpy.int32)
            for n, p in ((n, p) for n in range(len(ones)) for p in range(counts[n])):
                table[n, p] = places[sum(counts[:n]) + p]
                part = ones[n][name][1][p * each : (p + 1) * each]
                pages[table[n, p], : len(part)] = part
            found[name] = stored(ones[0][name][0], pages.swapaxes(1, 2) if self.layout == "bhtd" else pages)
            found["page_table"] = stored("I32", table)
        return found


def slots(arrays):
    """Sequences side by side, with NaN after those that are shorter."""
    whole = filled((len(arrays), max(len(a) for a in arrays), *arrays[0].shape[1:]), arrays[0].dtype)
    for n, a in enumerate(arrays):
        whole[n, : len(a)] = a
    return whole
