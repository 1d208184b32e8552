"""Scores of blocks as kernelbench.com's 02_deepseek_nsa has them: a program, for its choice (docs/guides/choices.md)."""
from assay.language import const, contract, iota, maximum, mechanism, scan, size, where


@mechanism(q="T K", k="N C K : key", scale='param = 1 / sqrt(size("K"))')
def block_scores(q, k, scale):
    """s_tn, the mean of scale q_t.k_j over those keys of block n, C keys each, with j <= t; 0 where there is none."""
    key = iota("N")[:, None] * size("C") + iota("C")

    def row(_, q, t):
        seen = where(key <= t, const(1), const(0))
        return None, (seen * (scale * contract("nck,k->nc", k, q))).sum(1) / maximum(seen.sum(1), 1)

    return {"score": scan(row, None, q, iota("T"))[1]}
