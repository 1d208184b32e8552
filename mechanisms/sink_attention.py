from assay.language import iota, logsumexp, mechanism, scan, sigmoid, softmax
from common import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", bandwidth="", sink=": logit", causal="bool = true", window=UNLIMITED)
def sink_attention(q, k, v, bandwidth, sink, causal, window):
    """Softmax attention with one more logit in the denominator, which has no value: o_i = sum_j e^{s_ij} v_j / (e^sink + sum_j e^{s_ij}).

    gpt-oss, 2025, arXiv 2508.10925; Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023, arXiv 2309.17453.
    """

    def row(_, q, i):
        s, seen = (k @ q) / bandwidth, visible(i, causal, window)
        return None, sigmoid(logsumexp(s, seen) - sink) * (softmax(s, seen) @ v)

    return {"o": scan(row, None, q, iota("T"))[1]}
