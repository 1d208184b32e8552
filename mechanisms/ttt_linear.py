from assay.language import mechanism, outer, scan, size, sqrt


@mechanism(
    q="T K", k="T K", v="T K", eta="T", gain="K : weight", bias="K : weight", initial_state="K K = 0", initial_offset="K : state = 0",
    eps="param = 1e-6",
)  # fmt: skip
def ttt_linear(q, k, v, eta, gain, bias, initial_state, initial_offset, eps, residual=("query", "read")):
    """A linear model W, b trained at test time, one gradient step a token: f(x) = x + LN(x W + b), loss |f(k) - v|^2 / 2, o = f(q).

    Sun et al., Learning to (Learn at Test Time), 2024, arXiv 2407.04620, section 2.3, with mini-batches of one token; LN has gain and bias.
    The residual is the query or, as flash-linear-attention has it, the read q W + b.
    """

    def normalized(z):
        z = z - z.sum() / size("K")
        deviation = sqrt((z * z).sum() / size("K") + eps)
        return z / deviation, deviation

    def step(state, q, k, v, eta):
        W, b = state
        n, deviation = normalized(k @ W + b)
        d = gain * (k + gain * n + bias - v)
        d = eta * (d - d.sum() / size("K") - n * (d * n).sum() / size("K")) / deviation
        W, b = W - outer(k, d), b - d
        z = q @ W + b
        return (W, b), (q if residual == "query" else z) + gain * normalized(z)[0] + bias

    (W, b), o = scan(step, (initial_state, initial_offset), q, k, v, eta)
    return {"o": o, "final_state": W, "final_offset": b}
