from assay.language import iota, mechanism, round, scan, softmax
from chunks import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", rho="T K", bandwidth="", causal="bool = true", window=UNLIMITED)
def parallax_moments(q, k, v, rho, bandwidth, causal, window):
    """Parallax by the sums that one pass over the keys can make: of p v, of p t and of p t v, t = rho.k.

    o = (1 + E t) E v - E(t v). Weights and their products with t are rounded as operands. Parallax, arXiv 2605.29157.
    """

    def row(_, q, rho, i):
        p, t = softmax((k @ q) / bandwidth, visible(i, causal, window)), k @ rho
        return None, (1 + p @ t) * (round(p, "P") @ v) - round(p * t, "pT") @ v

    return {"o": scan(row, None, q, rho, iota("T"))[1]}
