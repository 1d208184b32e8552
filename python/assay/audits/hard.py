"""Tasks of kernelbench.com: reference.py of 02_kda_cutlass, 03_paged_attention and 02_deepseek_nsa, whose solution is a class Model."""
import pathlib

import numpy

from .._arrays import bits, doubles, tensor_of
from .._native import InputError
from .._truth import expect
from .tasks import Argument, HeadsFirst, Task, constants, in_full_caches, read, reshaped, with_axes

SCORES = str(pathlib.Path(__file__).with_name("block_scores.py"))


def is_hard(source):
    return "OP_TYPE" in source and "SUPPORTED_PRECISIONS" in source


def of_file(path, **axes):
    """By the numbers that the file assigns."""
    numbers = constants(read(path), path)
    task = next((task for task in (Kda, PagedDecode, ChosenBlocks) if {*task.sizes, *task.numbers} <= set(numbers)), None)
    if task is None:
        known = [task.task for task in (Kda, PagedDecode, ChosenBlocks)]
        raise InputError(f"{path}: assay judges kernelbench.com's {', '.join(known[:-1])} and {known[-1]}, and this is none of them")
    return task(path, with_axes({name: numbers[name] for name in task.sizes}, axes, path) | {name: numbers[name] for name in task.numbers})


class Hard(Task):
    """In bf16, with the sizes that the file assigns; the class is made with them, in their order, and knows the file's other numbers."""

    init, numbers, parameters = (), (), {}

    def __init__(self, mechanism, shape, **settings):
        super().__init__(mechanism, shape, "bf16", outputs=["o"], fixed=True, **settings)
        self.title = self.task


class Kda(Hard):
    """A KDA that starts at zero."""

    task, sizes = "02_kda_cutlass", ("B", "T", "H", "K", "V", "CHUNK_SIZE")

    def __init__(self, path, size):
        super().__init__("kda", "{B},{T},{H},{K},{V}".format(**size))
        self.block = size["CHUNK_SIZE"]

    def draw(self, seed, shape=None):
        return super().draw(seed, shape).without("initial_state")

    def shaped_init(self, problem):
        return [*problem.tensors["q"][1], problem.tensors["v"][1][3], self.block]

    def arguments(self, problem):
        decays = tensor_of(doubles(problem.tensors["log_decay"]), "F32")
        return [Argument(None, decays if name == "log_decay" else problem.tensors[name]) for name in ("q", "k", "v", "log_decay", "beta")]


class PagedDecode(Hard):
    """Pages that hold ordinary numbers behind a sequence, as the benchmark's do."""

    task, sizes = "03_paged_attention", ("BATCH", "NUM_HEADS", "NUM_KV_HEADS", "HEAD_DIM", "SEQ_LEN", "PAGE_SIZE")

    def __init__(self, path, size):
        self.page = size["PAGE_SIZE"]
        shape = "{BATCH},1/{SEQ_LEN},{NUM_HEADS}/{NUM_KV_HEADS},{HEAD_DIM},{HEAD_DIM}".format(**size)
        super().__init__("softmax_attention", shape, page_table=self.page)

    def draw(self, seed, shape=None):
        return in_full_caches(super().draw(seed, shape), seed)

    def shaped_init(self, problem):
        (batch, _, heads, K), v = problem.tensors["q"][1], problem.tensors["v"][1]
        return [batch, heads, v[2], K, int(problem["lengths_k"].max()), self.page]

    def arguments(self, problem):
        batch, _, heads, K = problem.tensors["q"][1]
        k, v = (doubles(problem.tensors[name]) for name in ("k", "v"))
        cache = tensor_of(numpy.concatenate([k, v], -1), problem.tensors["k"][0])
        ints = (tensor_of(problem[name], "I32") for name in ("page_table", "lengths_k"))
        return [Argument(None, x) for x in (reshaped(problem.tensors["q"], batch, heads, K), cache, *ints)]

    def expected(self, problem):
        return [("o", "BF16", problem.tensors["q"][1])]

    def given(self, problem):
        batch, _, heads, K = problem.tensors["q"][1]
        return [("o", "BF16", (batch, heads, K))]

    def ours(self, name, tensor, problem):
        return reshaped(tensor, *problem.tensors["q"][1])


class ChosenBlocks(HeadsFirst, Hard):
    """Softmax attention over the blocks of the highest scores and a window, which the candidate chooses itself."""

    task, sizes, numbers = "02_deepseek_nsa", ("B", "H", "S", "D"), ("BLOCK_SIZE", "TOP_N_BLOCKS", "SLIDING_WINDOW")

    def __init__(self, path, size):
        self.width, self.most, self.window = (size[name] for name in self.numbers)
        if size["S"] <= self.width * self.most:
            raise InputError(
                f"S: {size['S']} keys are at most {self.most} blocks of {self.width}, which every row reads: a kernel that chooses wrongly is right"
                f' there; axes={{"S": {self.width * self.most + self.width + 1}}} or more shows it'
            )
        super().__init__("softmax_attention", "{B},{S},{H},{D},{D}".format(**size))

    def shaped_init(self, problem):
        batch, tokens, heads, K = problem.tensors["q"][1]
        return [batch, heads, tokens, K]

    def settled(self, problem, answer):
        """The choice by exact scores is a mask; a row whose choice is open reads nothing, and answers nothing."""
        reads, is_open = self.reads(problem)
        mask = ("BOOL", reads.shape, reads.tobytes())
        rows = bits(answer["o"]).copy()
        rows[is_open] = 0
        settled = {"o": (*answer["o"][:2], rows.tobytes())}
        posed = problem._changed({**problem.tensors, "mask": mask}, f"{problem.origin} with the blocks of the highest scores")
        if not is_open.any():
            return posed, settled, None
        first = "".join(f"[{i}]" for i in numpy.argwhere(is_open)[0])
        said = f"{is_open.sum()} of {is_open.size} rows are NOT JUDGED, o{first} first: a right kernel's scores may choose other blocks there"
        return posed, settled, said

    def reads(self, problem):
        """Which keys each row reads, [B, H, T, T], and whose choice is open, [B, T, H]: some block left out is not below a chosen one by
        more than both scores may err. Such rows read none."""
        q, k = (doubles(problem.tensors[name]).astype(numpy.float32) for name in "qk")
        batch, tokens, heads, K = q.shape
        count = -(-tokens // self.width)
        keys = numpy.pad(k, ((0, 0), (0, count * self.width - tokens), (0, 0), (0, 0))).reshape(batch, count, self.width, heads, K)
        score = expect(SCORES, inputs={"q": q, "k": keys.transpose(0, 3, 1, 2, 4)}, precision="fp32")["score"]
        t = numpy.arange(tokens)
        seen = numpy.broadcast_to((numpy.arange(count) * self.width <= t[:, None])[:, None], score.value.shape)
        best = numpy.argsort(-numpy.where(seen, score.value, -numpy.inf), axis=-1, kind="stable")[..., : self.most]
        chosen = numpy.zeros(seen.shape, bool)
        numpy.put_along_axis(chosen, best, True, -1)
        highest = numpy.where(seen & ~chosen, score.value + score.limit, -numpy.inf).max(-1)
        is_open = highest >= numpy.where(seen & chosen, score.value - score.limit, numpy.inf).min(-1)
        near = t[:, None] - self.window < t
        reads = (chosen[..., t // self.width] | near[:, None]) & (t <= t[:, None])[:, None]
        reads[is_open] = False
        return numpy.ascontiguousarray(reads.transpose(0, 2, 1, 3)), is_open
