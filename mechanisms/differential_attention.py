from assay.language import dot, exp, iota, mechanism, scan, size, softmax, sqrt
from common import RSQRT


@mechanism(q="T 2 K", k="T 2 K", v="T V", lq="2 K : weight", lk="2 K : weight", gain="V : weight", start="param = 0.8", eps="param = 1e-5",
           scale=RSQRT)  # fmt: skip
def differential_attention(q, k, v, lq, lk, gain, start, eps, scale):
    """The difference of two softmaxes, o = (1 - start) gain N((A_1 - lambda A_2) v), lambda = e^{lq_1.lk_1} - e^{lq_2.lk_2} + start.

    Ye et al., Differential Transformer, 2024, arXiv 2410.05258, one head; N divides by the root of the mean square.
    """
    weight = exp(dot(lq[0], lk[0])) - exp(dot(lq[1], lk[1])) + start

    def row(_, q, i):
        first, second = (softmax(scale * (k[:, n] @ q[n]), iota("T") <= i) for n in range(2))
        o = (first - weight * second) @ v
        return None, (1 - start) * gain * o / sqrt(dot(o, o) / size("V") + eps)

    return {"o": scan(row, None, q, iota("T"))[1]}
