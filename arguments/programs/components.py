"""Components of layers that are mechanisms of their own."""
from assay.language import iota, mechanism, outer, scan, sigmoid, size, sqrt, where


def activated(u, activation):
    return {"silu": lambda: u * sigmoid(u), "sigmoid": lambda: sigmoid(u), "none": lambda: u}[activation]()


@mechanism(x="T D", weight="D W", bias="D = 0", initial_state="D P = 0")
def short_conv(x, weight, bias, initial_state, activation=("silu", "none")):
    """o_tc = act(bias_c + sum_w weight_cw x_{t-W+1+w,c}); the state is the last P = W - 1 inputs, oldest first.

    A step has a window of W inputs, of which the first falls out.
    """
    later = where(iota("P")[:, None] + 1 == iota("W"), 1, 0)  # places the state in a window, behind the input that falls out
    moved = where(iota("W")[:, None] == iota("W") + 1, 1, 0)
    last = where(iota("W") == size("W") - 1, 1, 0)

    def step(window, x):
        window = window @ moved + outer(x, last)
        return window, activated(bias + (weight * window).sum(-1), activation)

    window, o = scan(step, initial_state @ later, x)
    return {"o": o, "final_state": window @ later.T}


@mechanism(x="T R C", z="T R C", weight="R C = 1", eps="param", norm_before_gate="bool = true")
def gated_rmsnorm(x, z, weight, eps, norm_before_gate, activation=("silu", "sigmoid")):
    """N(x) weight act(z), or N(x act(z)) weight, N(u) = u / sqrt(mean u^2 + eps) over R groups of C channels."""
    gate = activated(z, activation)
    u = where(norm_before_gate, x, x * gate)
    n = u / sqrt((u * u).sum(-1) / size("C") + eps)[:, :, None]
    return {"o": n * weight * where(norm_before_gate, gate, 1)}
