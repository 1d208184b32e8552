import functools
import operator

from assay.language import const, dot, exp, iota, logsumexp, mechanism, outer, scan, size, softmax, solve, where
from common import UNLIMITED, by_token, diagonal, largest, visible


@mechanism(q="T K", k="S K", v="S V", lam="{ridge}", bandwidth="", causal="bool = true", window=UNLIMITED)
def lla(
    q, k, v, lam, bandwidth, causal, window, lambda_mode=("mass", "absolute", "max"), block_form=("centered", "sigma"), blocks=1,
    ridge=("T K", "T", ""),
):  # fmt: skip
    """Local linear attention: the intercept at q_i of the softmax-weighted ridge regression of v on k.

    o_i = vbar_i - X_i y_i, y_i = (C_i + eps_i)^{-1} (kbar_i - q_i), C = Cov_p(k), X = Cov_p(v, k), eps = lambda in the unit of
    lambda_mode. Block form sigma: rho = (C + eps + z z^T)^{-1} z on its diagonal blocks, y = rho / (1 - rho.z). Zuo et al., Local
    Linear Attention, 2025, arXiv 2510.01450, equations (7) to (9). The system is solved; conjugate gradients are another
    mechanism's gradients.
    """

    def block_diagonal(A):
        if blocks == 1:
            return A
        K, c = size("K"), iota("K")
        inside = [(b * K <= blocks * c) & (blocks * c < (b + 1) * K) for b in range(blocks)]
        return where(functools.reduce(operator.or_, [f[:, None] & f for f in inside]), A, 0)

    def row(_, q, lam, i):
        s, seen = (k @ q) / bandwidth, visible(i, causal, window)
        p, lse = softmax(s, seen), logsumexp(s, seen)
        log_unit = {"mass": lse, "absolute": const(0), "max": largest(s, seen)}[lambda_mode]  # of lambda, times exp(-lse)
        eps = lam if lambda_mode == "mass" else lam * exp(log_unit - lse)
        z, centered = p @ k - q, k - p @ k
        C = (p[:, None] * centered).T @ centered + diagonal(eps, "K")
        C = C + outer(z, z) if block_form == "sigma" else C
        y = solve(block_diagonal(C), z, definite=True)
        y = y / (1 - dot(y, z)) if block_form == "sigma" else y
        return None, where(0 < where(seen, 1, 0).sum(), (p * (1 - centered @ y)) @ v, 0)

    return {"o": scan(row, None, q, by_token(lam, ridge), iota("T"))[1]}
