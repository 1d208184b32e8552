"""Tasks of kernelbench.com: reference.py of 02_kda_cutlass and of 03_paged_attention, whose solution is a class Model."""
from .._arrays import doubles
from .._native import InputError
from .tasks import Argument, Task, constants, in_full_caches, read, reshaped, tensor_of, with_axes

KDA = ("B", "T", "H", "K", "V", "CHUNK_SIZE")
PAGED = ("BATCH", "NUM_HEADS", "NUM_KV_HEADS", "HEAD_DIM", "SEQ_LEN", "PAGE_SIZE")


def is_hard(source):
    return "OP_TYPE" in source and "SUPPORTED_PRECISIONS" in source


class Hard(Task):
    """In bf16, with the sizes that the file assigns; the class is made with them, in their order."""

    def __init__(self, path, **axes):
        numbers = constants(read(path), path)
        self.names = next((names for names in (KDA, PAGED) if set(names) <= set(numbers)), None)
        if self.names is None:
            raise InputError(f"{path}: assay judges kernelbench.com's 02_kda_cutlass and 03_paged_attention, and this is neither")
        size = with_axes({name: numbers[name] for name in self.names}, axes, path)
        self.last = size[self.names[-1]]  # of a chunk, or of a page
        if self.names is KDA:
            super().__init__("kda", ",".join(str(size[name]) for name in KDA[:-1]), "bf16", outputs=["o"], fixed=True)
            self.block = self.last
        else:
            shape = "{BATCH},1/{SEQ_LEN},{NUM_HEADS}/{NUM_KV_HEADS},{HEAD_DIM},{HEAD_DIM}".format(**size)
            super().__init__("softmax_attention", shape, "bf16", outputs=["o"], fixed=True, page_table=self.last)
        self.title = "02_kda_cutlass" if self.names is KDA else "03_paged_attention"
        self.init, self.parameters = (), {}

    def draw(self, seed, shape=None):
        """A KDA that starts at zero; pages that hold ordinary numbers behind a sequence, as the benchmark's do."""
        problem = super().draw(seed, shape)
        return problem.without("initial_state") if self.names is KDA else in_full_caches(problem, seed)

    def shaped_init(self, problem):
        (batch, tokens, heads, K), v = problem.tensors["q"][1], problem.tensors["v"][1]
        if self.names is KDA:
            return [batch, tokens, heads, K, v[3], self.last]
        return [batch, heads, v[2], K, int(problem["lengths_k"].max()), self.last]

    def arguments(self, problem):
        import numpy

        if self.names is KDA:
            decays = tensor_of(doubles(problem.tensors["log_decay"]), "F32")
            return [Argument(None, decays if name == "log_decay" else problem.tensors[name]) for name in ("q", "k", "v", "log_decay", "beta")]
        batch, _, heads, K = problem.tensors["q"][1]
        k, v = (doubles(problem.tensors[name]) for name in ("k", "v"))
        cache = tensor_of(numpy.concatenate([k, v], -1), problem.tensors["k"][0])
        ints = (tensor_of(problem[name], "I32") for name in ("page_table", "lengths_k"))
        return [Argument(None, x) for x in (reshaped(problem.tensors["q"], batch, heads, K), cache, *ints)]

    def expected(self, problem):
        if self.names is KDA:
            return super().expected(problem)
        return [("o", "BF16", problem.tensors["q"][1])]

    def given(self, problem):
        ((name, dtype, shape),) = self.expected(problem)
        return [(name, dtype, shape if self.names is KDA else (shape[0], *shape[2:]))]

    def ours(self, name, tensor, problem):
        return reshaped(tensor, *self.expected(problem)[0][2])
