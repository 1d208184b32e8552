from assay.language import iota, maximum, mechanism, scan, softmax, where
from common import RSQRT, blocks, tokens_of


@mechanism(
    q="T K", k="T K", v="T V", index_q="T M K : query", index_k="T K : key", chosen="T N : logit", block="int = 4", scale=RSQRT
)
def qwen_sparse_attention(q, k, v, index_q, index_k, chosen, block, scale):
    """QSA: softmax attention over chosen whole blocks and the tokens after the last whole one, by scores I_tb = scale sum_j ReLU(q'_tj.k'_b).

    k'_b is the mean of the index keys of block b. Qwen team, Qwen3.8-Next, 2026; norms and rotations of q' and k'_b stand before it.
    The scores go out, zero where a block is not whole, and blocks with positive numbers are chosen: which these are comes in, a top-k
    of scores is no formula.
    """
    t, (member, first, last) = iota("T"), blocks(block)
    means = member @ index_k / block

    def row(_, q, index_q, chosen, i):
        index = scale * maximum(index_q @ means.T, 0).sum(0)
        read = ((0 < chosen) & (last <= i)) | ((first <= i) & (i < last))
        o = softmax(scale * (k @ q), tokens_of(read, member) & (t <= i)) @ v
        return None, (o, where(last <= i, index, 0))

    o, index = scan(row, None, q, index_q, chosen, t)[1]
    return {"o": o, "index": index}
