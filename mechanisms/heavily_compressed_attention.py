from assay.language import exp, iota, mechanism, scan
from common import RSQRT, read_entries


@mechanism(
    q="T K", kv="T K : key", a="N {block} K : key", a_weight="N {block} K : logit", a_bias="{block} K : logit", chosen="T N : logit",
    sink=": logit", window="int = 128", scale=RSQRT,
)  # fmt: skip
def heavily_compressed_attention(q, kv, a, a_weight, a_bias, chosen, sink, window, scale, block=(4, 2)):
    """HCA: o_t = sum_x e^{s_tx} x / (e^sink + sum_x e^{s_tx}), s_tx = scale q_t.x, x over entries and the last `window` tokens kv.

    Entry n is the mean of block n of a, channel by channel with weights exp(weight + bias). DeepSeek-AI, DeepSeek-V4, 2026, arXiv
    2606.19348, section 2.3.2, with blocks of 128 there: entries are keys and values. Those with positive numbers are read, if
    their block is complete.
    """
    t, n = iota("T"), iota("N")
    weight = exp(a_weight + a_bias)
    entries = (weight * a).sum(1) / weight.sum(1)

    def row(_, q, chosen, i):
        whole = (n + 1) * block <= i + 1
        return None, read_entries(q, entries, (0 < chosen) & whole, kv, (t <= i) & (i - window < t), sink, scale)

    return {"o": scan(row, None, q, chosen, t)[1]}
