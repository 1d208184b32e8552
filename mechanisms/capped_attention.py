from assay.language import iota, mechanism, scan, softmax, tanh
from common import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", bandwidth="", cap="param = 50", causal="bool = true", window=UNLIMITED)
def capped_attention(q, k, v, bandwidth, cap, causal, window):
    """Softmax attention with scores kept within the cap: s <- cap tanh(s / cap).

    Gemma 2, 2024, arXiv 2408.00118, section 2.
    """

    def row(_, q, i):
        s = cap * tanh((k @ q) / bandwidth / cap)
        return None, softmax(s, visible(i, causal, window)) @ v

    return {"o": scan(row, None, q, iota("T"))[1]}
