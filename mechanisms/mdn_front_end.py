from assay.language import exp, mechanism, outer, scan, sqrt, where
from common import RSQRT, STATE


@mechanism(
    q="T K", k="T K", v="T V", log_alpha="T", log_mu="T", beta="T", eta="T", initial_state=STATE, initial_momentum=STATE,
    log_d=": logit = log(0)", scale=RSQRT, l2_eps="param : regularizer = 1e-6",
)  # fmt: skip
def mdn_front_end(q, k, v, log_alpha, log_mu, beta, eta, initial_state, initial_momentum, log_d, scale, l2_eps):
    """Momentum DeltaNet from raw queries and keys: q^ = N(q - e^{log_D} k), k^ = N(k), p = alpha k^, N(x) = x / sqrt(|x|^2 + eps).

    Momentum DeltaNet, arXiv 2605.05838, the default layer. Without log_d nothing is taken off the query. N(0) = 0.
    """

    def unit(x):
        squares = (x * x).sum(-1)[:, None] + l2_eps
        return where(squares == 0, 0, x / sqrt(squares))

    k, q = unit(k), unit(q - exp(log_d) * k)

    def step(state, q, k, v, a, m, b, n):
        S, M = state
        M = exp(m) * M - outer(n * k, v - exp(a) * (k @ S))
        S = exp(a) * S - b * M
        return (S, M), scale * (q @ S)

    (S, M), o = scan(step, (initial_state, initial_momentum), q, k, v, log_alpha, log_mu, beta, eta)
    return {"o": o, "final_state": S, "final_momentum": M}
