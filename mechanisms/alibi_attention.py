from assay.language import iota, mechanism, scan, size, softmax
from common import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", bandwidth="", slope=": weight", causal="bool = true", window=UNLIMITED)
def alibi_attention(q, k, v, bandwidth, slope, causal, window):
    """Softmax attention with a penalty for distance: s_ij = q_i.k_j / h - slope (i - j).

    Press, Smith, Lewis, Train Short, Test Long, 2021, arXiv 2108.12409, section 3; i counts from the end as the mask does.
    """

    def row(_, q, i):
        distance = i + size("S") - size("T") - iota("S")
        return None, softmax((k @ q) / bandwidth - slope * distance, visible(i, causal, window)) @ v

    return {"o": scan(row, None, q, iota("T"))[1]}
