from assay.language import iota, mechanism, scan, softmax
from common import RSQRT, blocks, tokens_of


@mechanism(q="T K", k="T K", v="T V", gates="T 3 : decay_fraction", chosen="T N : logit", block="int = 16", window="int = 64", scale=RSQRT)
def native_sparse_attention(q, k, v, gates, chosen, block, window, scale):
    """Three attentions, gated: o_t = sum_c g_tc Attn(q_t, K_c, V_c) over means of whole blocks, tokens of chosen blocks, and a window.

    Yuan et al., Native Sparse Attention, 2025, arXiv 2502.11089, equation (5), with means for the compression of equation (7). Blocks
    with positive numbers are chosen. Which these are comes in: a top-n of scores is no formula.
    """
    t, (member, _, last) = iota("T"), blocks(block)
    K, V = member @ k / block, member @ v / block

    def row(_, q, g, chosen, i):
        s = scale * (k @ q)
        whole = softmax(scale * (K @ q), last <= i) @ V
        picked = softmax(s, tokens_of(0 < chosen, member) & (t <= i)) @ v
        return None, g[0] * whole + g[1] * picked + g[2] * (softmax(s, (t <= i) & (i - window < t)) @ v)

    return {"o": scan(row, None, q, gates, chosen, t)[1]}
