from assay.language import const, iota, log, maximum, mechanism, scan, softmax, where, zeros
from common import RSQRT, blocks, tokens_of


@mechanism(
    q="T K", k="T K", v="T V", index_q="T K : query", index_k="T K : key", chosen="T N : logit", block="int = 16", scale=RSQRT
)
def minimax_sparse_attention(q, k, v, index_q, index_k, chosen, block, scale):
    """MSA: softmax attention over the tokens of chosen blocks and of the query's own, by scores I_tb = max_s scale q'_t.k'_s, s of b, s <= t.

    Lai et al., MiniMax Sparse Attention, 2026, arXiv 2606.13392, with blocks of 128 there, and an index query for every group of
    heads. The scores go out, zero where nothing is seen, and blocks with positive numbers are chosen: which these are comes in, a
    top-k of scores is no formula.
    """
    t, (member, first, last) = iota("T"), blocks(block)
    of_block, none = 0 < member.T, log(const(0)) + zeros("N")

    def row(_, q, index_q, chosen, i):
        seen = of_block & (t <= i)[:, None]
        highest = scan(lambda m, s, c: (where(c, maximum(s, m), m), None), none, scale * (index_k @ index_q), seen)[0]
        own = (first <= i) & (i <= last)
        o = softmax(scale * (k @ q), tokens_of((0 < chosen) | own, member) & (t <= i)) @ v
        return None, (o, where(first <= i, highest, 0))

    o, index = scan(row, None, q, index_q, chosen, t)[1]
    return {"o": o, "index": index}
