from assay.language import exp, iota, mechanism, scan, shift
from common import RSQRT, read_entries


@mechanism(
    q="T K", kv="T K : key", a="N {block} K : key", b="N {block} K : key", a_weight="N {block} K : logit", b_weight="N {block} K : logit",
    a_bias="{block} K : logit", b_bias="{block} K : logit", chosen="T N : logit", sink=": logit", window="int = 128", scale=RSQRT,
)  # fmt: skip
def compressed_sparse_attention(q, kv, a, b, a_weight, b_weight, a_bias, b_bias, chosen, sink, window, scale, block=(4, 2)):
    """CSA: o_t = sum_x e^{s_tx} x / (e^sink + sum_x e^{s_tx}), s_tx = scale q_t.x, x over chosen entries and the last `window` tokens kv.

    Entry n is the mean of block n of a and block n - 1 of b, channel by channel with weights exp(weight + bias) of both. DeepSeek-AI,
    DeepSeek-V4, 2026, arXiv 2606.19348, section 2.3.1: entries are keys and values. Those with positive numbers are chosen, if
    their block is complete. Which these are comes in: a top-k is no formula.
    """
    t, n = iota("T"), iota("N")
    of_a, of_b = exp(a_weight + a_bias), exp(b_weight + b_bias)
    entries = ((of_a * a).sum(1) + shift((of_b * b).sum(1))) / (of_a.sum(1) + shift(of_b.sum(1)))

    def row(_, q, chosen, i):
        whole = (n + 1) * block <= i + 1
        return None, read_entries(q, entries, (0 < chosen) & whole, kv, (t <= i) & (i - window < t), sink, scale)

    return {"o": scan(row, None, q, chosen, t)[1]}
