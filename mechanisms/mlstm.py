from assay.language import const, dot, exp, log, maximum, mechanism, outer, scan, softplus, zeros
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", i="T : logit", f="T : logit", scale=RSQRT)
def mlstm(q, k, v, i, f, scale):
    """C_t = f C_{t-1} + i k v^T, n_t = f n_{t-1} + i k, h_t = scale C^T q / max(|scale n.q|, 1): f a sigmoid, i an exponential.

    Beck et al., xLSTM, 2024, arXiv 2405.04517, equations (19) to (27), stabilised by m_t = max(log f + m_{t-1}, i_t).
    """

    def step(state, q, k, v, i, lf):
        C, n, m = state
        top = maximum(lf + m, i)
        keep, write = exp(lf + m - top), exp(i - top)
        C, n = keep * C + write * outer(k, v), keep * n + write * k
        return (C, n, top), scale * (q @ C) / maximum(abs(scale * dot(n, q)), exp(-top))

    start = zeros("K", "V"), zeros("K"), log(const(0))
    (C, n, m), h = scan(step, start, q, k, v, i, -softplus(-f))
    return {"h": h, "final_state": exp(m) * C, "final_normalizer": exp(m) * n}
