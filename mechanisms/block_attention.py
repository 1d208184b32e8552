from assay.language import iota, mechanism, scan, softmax
from common import RSQRT, blocks, tokens_of


@mechanism(q="T K", k="T K", v="T V", chosen="T N : logit", block="int = 16", scale=RSQRT)
def block_attention(q, k, v, chosen, block, scale):
    """MoBA: softmax attention over the tokens of chosen blocks and of the query's own, o_i = softmax(scale q_i K[I_i]^T) V[I_i].

    Lu et al., MoBA: Mixture of Block Attention, 2025, arXiv 2502.13189, equations (2) and (3). Blocks with positive numbers are
    chosen. Which these are comes in: the gate's top-k is no formula.
    """
    t, (member, first, last) = iota("T"), blocks(block)

    def row(_, q, chosen, i):
        own = (first <= i) & (i <= last)
        return None, softmax(scale * (k @ q), tokens_of((0 < chosen) | own, member) & (t <= i)) @ v

    return {"o": scan(row, None, q, chosen, t)[1]}
