from assay.language import const, exp, logsumexp, mechanism, scan, sigmoid, softmax, softplus, solve, where
from common import attention, by_token, diagonal, largest


@attention(q="T K", k="S K", v="S V", sink=" : logit = 0", has_sink=" = 0")
def softmax_attention(scores, q, k, v, sink, has_sink):
    """o_i = sum_j p_ij v_j, p_ij = e^{s_ij} / Z_i, Z_i = sum_j e^{s_ij} + e^sink, lse_i = ln Z_i."""

    def row(_, q, *where_it_is):
        s, seen = scores.of(k @ q, *where_it_is)
        total, sunk = logsumexp(s, seen), 0 < has_sink
        lse, empty = scores.lse(where(sunk, total + softplus(sink - total), total), seen)
        some = empty < 1
        lse, empty = where(some | ~sunk, lse, scores.in_base(sink)), where(sunk, 0, empty)
        share = where(some & sunk, sigmoid(total - sink), 1)
        return None, (share * (softmax(s, seen) @ v), lse, empty)

    o, lse, empty = scan(row, None, q, *scores.rows())[1]
    return {"o": o, "lse": lse, "empty": empty}


@attention(q="T K", k="S K", v="S V", rho="T K")
def parallax(scores, q, k, v, rho):
    """o_i = vbar_i - Cov_p(v, k) rho_i with the weights of softmax_attention. Parallax, equation (8)."""

    def row(_, q, rho, *where_it_is):
        s, seen = scores.of(k @ q, *where_it_is)
        p, t = softmax(s, seen), k @ rho
        return None, ((p * (1 + p @ t - t)) @ v, *scores.lse(logsumexp(s, seen), seen))

    o, lse, empty = scan(row, None, q, rho, *scores.rows())[1]
    return {"o": o, "lse": lse, "empty": empty}


@attention(q="T K", k="S K", v="S V", lam="T K")
def lla(scores, q, k, v, lam, lambda_mode=("mass", "absolute", "max")):
    """Local linear attention by elimination: mechanisms/lla.py with these scores and a ridge for every channel."""

    def row(_, q, lam, *where_it_is):
        s, seen = scores.of(k @ q, *where_it_is)
        p, total = softmax(s, seen), logsumexp(s, seen)
        log_unit = {"mass": total, "absolute": const(0), "max": largest(s, seen)}[lambda_mode]
        eps = lam if lambda_mode == "mass" else lam * exp(log_unit - total)
        z, centered = p @ k - q, k - p @ k
        y = solve((p[:, None] * centered).T @ centered + diagonal(eps, "K"), z, definite=True)
        lse, empty = scores.lse(total, seen)
        return None, (where(empty < 1, (p * (1 - centered @ y)) @ v, 0), lse, empty)

    o, lse, empty = scan(row, None, q, lam, *scores.rows())[1]
    return {"o": o, "lse": lse, "empty": empty}


@mechanism(x="T D : layer_input", w_r="K D : weight", w_g="D : weight")
def probe(x, w_r, w_g):
    """The probe that a layer forms: rho_i = sigmoid(w_g.x_i) W_R x_i. Parallax, section 3."""
    gate = sigmoid(x @ w_g)
    return {"rho": gate[:, None] * (x @ w_r.T), "gate": gate}


@mechanism(bandwidth="")
def inverse_bandwidth(bandwidth):
    """The scale of scores that are divided by a bandwidth."""
    return {"scale": 1 / bandwidth}


@mechanism(x="R C", factor="R C")
def dequantized(x, factor):
    """Codes times their scales."""
    return {"y": x * factor}
