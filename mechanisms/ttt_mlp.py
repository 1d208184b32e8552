from assay.language import const, mechanism, outer, scan, tanh


@mechanism(q="T K", k="T K", v="T K", eta="T", first="K D : weight", second="D K : weight")
def ttt_mlp(q, k, v, eta, first, second):
    """A network trained at test time, one gradient step a token: f(x) = x + gelu(x A) B, loss |f(k) - v|^2 / 2, o = f(q).

    Sun et al., Learning to (Learn at Test Time), 2024, arXiv 2407.04620, without layer norm; gelu by tanh.
    """

    def gelu(x):
        """gelu and its slope."""
        c, a = const("0.79788456"), const("0.044715")
        u = tanh(c * (x + a * x**3))
        return x * (1 + u) / 2, (1 + u) / 2 + x * (1 - u * u) * c * (1 + 3 * a * x**2) / 2

    def step(state, q, k, v, eta):
        A, B = state
        h, slope = gelu(k @ A)
        e = k + h @ B - v
        A, B = A - eta * outer(k, (B @ e) * slope), B - eta * outer(h, e)
        return (A, B), q + gelu(q @ A)[0] @ B

    (A, B), o = scan(step, (first, second), q, k, v, eta)
    return {"o": o, "final_first": A, "final_second": B}
