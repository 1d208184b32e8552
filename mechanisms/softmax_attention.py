from assay.language import iota, mechanism, scan, softmax
from common import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", bandwidth="", causal="bool = true", window=UNLIMITED)
def softmax_attention(q, k, v, bandwidth, causal, window):
    """o_i = sum_j softmax_j(q_i.k_j / h) v_j over the visible keys.

    Vaswani et al., Attention Is All You Need, 2017, arXiv 1706.03762, equation (1), with h = sqrt(K).
    """

    def row(_, q, i):
        return None, softmax((k @ q) / bandwidth, visible(i, causal, window)) @ v

    return {"o": scan(row, None, q, iota("T"))[1]}
