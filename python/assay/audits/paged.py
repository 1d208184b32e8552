"""Definitions of flashinfer-bench whose keys lie in pages: grouped heads, latent keys, and latent keys that every row has a list of."""
import numpy

from .._arrays import bits, tensor_of
from .._native import InputError
from .tasks import Argument, FlashInferBench, in_full_caches, reshaped, scale_of

LATENT = {"q_nope", "q_pe", "ckv_cache", "kpe_cache", "sm_scale"}
PAGES = {"kv_indptr", "kv_indices", "kv_last_page_len"}
# The inputs that an op_type may have.
PAGED = {
    "gqa_paged": {"q", "k_cache", "v_cache", "qo_indptr", "sm_scale"} | PAGES,
    "mla_paged": LATENT | {"qo_indptr"} | PAGES,
    "dsa_paged": LATENT | {"sparse_indices"},
}
BEFORE_ABSORPTION = 128  # channels of a query that has no position, of which the published scales are


class Paged(FlashInferBench):
    """Its caches hold ordinary numbers where no sequence has keys, as the benchmark's do."""

    def known(self, kind):
        self.lists, self.latent = kind == "dsa_paged", "q_nope" in self.definition["inputs"]
        self.page, self.last = self.size("page_size"), "kv_last_page_len" in self.definition["inputs"]
        return "softmax_attention", PAGED[kind]

    def size(self, axis, otherwise=None):
        value = self.axes.get(axis) or otherwise
        if value is None:
            raise InputError(f"{axis}: {self.definition['name']} does not say it")
        return value

    def our_settings(self, mechanism):
        if self.lists:
            tensors = {"with_": [f"topk_indices={self.size('topk')}", "lse"], "causal": False}
        else:
            tensors = {"with_": [f"page_table={self.page}", "lse"], "causal": "causal" in self.definition["name"]}
        latent = {"value_dim": self.value, "scale": (BEFORE_ABSORPTION + self.rope) ** -0.5} if self.latent else {}
        return {**tensors, **latent, "lse_base": 2}

    def our_shape(self):
        heads = self.size("num_qo_heads")
        if self.latent:
            self.value, self.rope = self.size("head_dim_ckv"), self.size("head_dim_kpe")
            own = f"{heads}/1,{self.value + self.rope},{self.value}"
        else:
            own = f"{heads}/{self.size('num_kv_heads')},{self.size('head_dim')},{self.size('head_dim')}"
        if self.lists:
            self.block = self.page
            pages = self.size("num_pages", -(-2 * self.size("topk") // self.page))
            return f"1,{self.size('num_tokens', 4)}/{pages * self.page},{own}"
        starts = self.axes.get("len_indptr")
        batch = self.size("batch_size", starts - 1 if starts else 2)
        queries = 1 if self.decodes else max(1, self.size("total_q", 5 * batch) // batch)
        keys = max(queries, self.size("num_kv_indices", batch * -(-100 // self.page)) // batch * self.page)
        return f"{batch},{queries}/{keys},{own}"

    def another_shape(self, rng):
        """One more sequence and some more keys; of lists, which are of one sequence, one more row and a page more."""
        batch, tokens, *rest = super().another_shape(rng)
        if self.lists:
            queries, _, keys = tokens.partition("/")
            batch, tokens = self.shape[0], f"{int(queries) + 1}/{keys}"
        return [batch, tokens, *rest]

    def draw(self, seed, shape=None):
        """A case whose sequences are as long as its shape says, so that all calls have the same shapes."""
        problem, tensors = super().draw(seed, shape), {}
        if not self.lists:
            keys, (batch, queries) = int((shape or self.shape)[1].partition("/")[2]), problem.tensors["q"][1][:2]
            lengths = numpy.array([max(queries, keys - 3 * n - (n % 2) * keys // 2) for n in range(batch)])
            tensors["lengths_k"] = tensor_of(lengths if self.last else -(-lengths // self.page) * self.page, "I32")
        return in_full_caches(problem, seed, tensors)

    def arguments(self, problem):
        made = self.made(problem)
        return [Argument(None, value=made[name]) if name == "sm_scale" else Argument(None, made[name]) for name in self.definition["inputs"]]

    def made(self, problem):
        """{name in the definition: tensor, or number}."""
        batch, queries, heads, K = problem.tensors["q"][1]
        k = problem.tensors["k"]
        made = {"q": reshaped(problem.tensors["q"], batch * queries, heads, K), "k_cache": k, "v_cache": problem.tensors.get("v")}
        if self.latent:
            made["q_nope"], made["q_pe"] = cut(made["q"], self.value)
            made["ckv_cache"], made["kpe_cache"] = cut(reshaped(k, *self.pages(k), K), self.value)
        made["sm_scale"] = scale_of(problem)
        if self.lists:
            made["sparse_indices"] = reshaped(problem.tensors["topk_indices"], queries, problem.tensors["topk_indices"][1][-1])
            return made
        lengths, table = problem["lengths_k"], problem["page_table"]
        counts = -(-lengths // self.page)
        ints = lambda a: tensor_of(numpy.asarray(a), "I32")
        made["qo_indptr"] = ints(numpy.arange(batch + 1) * queries)
        made["kv_indptr"] = ints(numpy.concatenate([[0], numpy.cumsum(counts)]))
        made["kv_indices"] = ints(numpy.concatenate([row[:n] for row, n in zip(table, counts)]))
        made["kv_last_page_len"] = ints(lengths - (counts - 1) * self.page)
        return made

    def pages(self, k):
        """How many, and of how many tokens."""
        return (k[1][1] // self.page, self.page) if self.lists else k[1][:2]

    def expected(self, problem):
        batch, queries, heads, _ = problem.tensors["q"][1]
        v = self.value if self.latent else problem.tensors["v"][1][3]
        shapes = {"o": (batch, queries, heads, v), "lse": (batch, queries, heads)}
        stored = {"o": problem.tensors["q"][0], "lse": "F32"}
        return [(name, stored[name], shapes[name]) for name in self.outputs]

    def given(self, problem):
        return [(name, dtype, (shape[0] * shape[1], *shape[2:])) for name, dtype, shape in self.expected(problem)]


def cut(tensor, at):
    """The first channels, and the others."""
    a = bits(tensor)
    return [(tensor[0], part.shape, part.tobytes()) for part in (a[..., :at], a[..., at:])]
