from assay.language import contract, iota, maximum, mechanism, scan, size, softmax, where
from common import RSQRT


@mechanism(
    q="T K", k="S K", v="S V", index_q="T M K : query", index_k="S K : key", index_weight="T M : weight", chosen="T S : logit",
    scale=RSQRT,
)  # fmt: skip
def deepseek_sparse_attention(q, k, v, index_q, index_k, index_weight, chosen, scale):
    """DSA: softmax attention over the tokens that an indexer chooses by its scores I_ts = sum_j w_tj ReLU(q'_tj.k'_s), s <= t.

    DeepSeek-AI, DeepSeek-V3.2, 2025, arXiv 2512.02556, equations (1) and (2). The scores go out, zero where nothing is seen, and tokens
    with positive numbers are chosen: which these are comes in, a top-k of scores is no formula.
    """

    def row(_, q, index_q, weight, chosen, i):
        seen = iota("S") <= i + size("S") - size("T")
        index = contract("m,ms->s", weight, maximum(index_q @ index_k.T, 0))
        return None, (softmax(scale * (k @ q), seen & (0 < chosen)) @ v, where(seen, index, 0))

    o, index = scan(row, None, q, index_q, index_weight, chosen, iota("T"))[1]
    return {"o": o, "index": index}
