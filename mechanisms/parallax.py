from assay.language import iota, mechanism, scan, softmax
from common import UNLIMITED, visible


@mechanism(q="T K", k="S K", v="S V", rho="T K", bandwidth="", causal="bool = true", window=UNLIMITED)
def parallax(q, k, v, rho, bandwidth, causal, window):
    """Softmax attention less its value-key covariance along a probe: o_i = vbar_i - Cov_p(v, k) rho_i.

    o_i = sum_j p_ij (1 + tbar_i - t_ij) v_j,  t_ij = rho_i.k_j: Parallax, arXiv 2605.29157, equation (8).
    """

    def row(_, q, rho, i):
        p = softmax((k @ q) / bandwidth, visible(i, causal, window))
        t = k @ rho
        return None, (p * (1 + p @ t - t)) @ v

    return {"o": scan(row, None, q, rho, iota("T"))[1]}
