from assay.language import iota, mechanism, scan, softmax, solve
from chunks import identity


@mechanism(q="T K", k="T K", lam="T : ridge", bandwidth='param = sqrt(size("K"))')
def local_solve(q, k, lam, bandwidth):
    """y_i = (C_i + lambda_i)^-1 (kbar_i - q_i): C the covariance of the keys that query i sees, kbar their mean, by softmax weights.

    Local linear attention solves this for every query before it reads values: lla of the library, its lambda in units of mass.
    Zuo et al., Local Linear Attention, 2025, arXiv 2510.01450, equations (7) to (9).
    """

    def row(_, q, lam, i):
        p = softmax((k @ q) / bandwidth, iota("T") <= i)
        centered = k - p @ k
        C = (p[:, None] * centered).T @ centered + lam * identity("K")
        return None, solve(C, p @ k - q, definite=True)

    return {"y": scan(row, None, q, lam, iota("T"))[1]}
