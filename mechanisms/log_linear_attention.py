from assay.language import cumsum, exp, iota, mechanism, scan, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", log_decay="T", level="T {levels} : weight", scale=RSQRT)
def log_linear_attention(q, k, v, log_decay, level, scale, levels=8):
    """o_t = scale sum_j level_{t, l(t, j)} exp(sum of log_decay over j+1..t) (q_t.k_j) v_j: a state for each block of a Fenwick tree.

    Guo et al., Log-Linear Attention, 2025, arXiv 2506.04761, equation (4): l(t, t) = 0, else one more than the highest bit in which t
    and j differ. For up to 2^(levels-1) tokens.
    """
    total, j = cumsum(log_decay), iota("T")

    def halves(i, bit):
        """The number of the block of 2^bit tokens that i is in, times its length."""
        found, rest = 0 * i, i
        for b in reversed(range(bit, levels - 1)):
            part = where(2**b <= rest, 2**b, 0)
            found, rest = found + part, rest - part
        return found

    def row(_, q, c, level, i):
        weight = where(i == j, level[0], 0)
        for n in range(1, levels):
            here = (halves(i, n) == halves(j, n)) & ~(halves(i, n - 1) == halves(j, n - 1))
            weight = where(here, level[n], weight)
        decay = where(j <= i, exp(where(j <= i, c - total, 0)), 0)
        return None, scale * ((weight * decay * (k @ q)) @ v)

    return {"o": scan(row, None, q, total, level, j)[1]}
