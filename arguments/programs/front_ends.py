"""What stands before and behind a recurrence: gates, write strength, normalisation, mamba-2's step, skip and gate of the output."""
from assay.language import exp, mechanism, sigmoid, softplus, sqrt, where


def raw_gate(a, dt_bias):
    return a + dt_bias


@mechanism(
    a="T {channels} : logit", a_log=" : logit", dt_bias="{channels} : logit = 0", has_threshold="bool = false",
    softplus_threshold="param = 0",
)  # fmt: skip
def gate_softplus(a, a_log, dt_bias, has_threshold, softplus_threshold, channels=("", "K")):
    """log_decay = -e^a_log softplus(a + dt_bias); above softplus_threshold, where there is one, x itself stands for softplus(x)."""
    x = raw_gate(a, dt_bias)
    return {"log_decay": -exp(a_log) * where(has_threshold & (softplus_threshold < x), x, softplus(x))}


@mechanism(a="T {channels} : logit", a_log=" : logit = 0", dt_bias="{channels} : logit = 0", lower_bound="param")
def gate_bounded(a, a_log, dt_bias, lower_bound, channels=("", "K")):
    """log_decay = L sigmoid(e^a_log (a + dt_bias))."""
    return {"log_decay": lower_bound * sigmoid(exp(a_log) * raw_gate(a, dt_bias))}


@mechanism(
    a="T {channels} : logit", dt_bias="{channels} : logit = 0", gate_normalizer="param = 1", has_minimum="bool = false",
    gate_min="param = 0",
)  # fmt: skip
def gate_logsigmoid(a, dt_bias, gate_normalizer, has_minimum, gate_min, channels=("", "K")):
    """log_decay = max(ln sigmoid(a + dt_bias) / n, gate_min); at the minimum itself gradients pass."""
    g = -softplus(-raw_gate(a, dt_bias)) / gate_normalizer
    return {"log_decay": where(has_minimum & (g < gate_min), gate_min, g)}


@mechanism(b="T : logit", beta_scale="param = 1")
def write_strength(b, beta_scale):
    """beta = beta_scale sigmoid(b)."""
    return {"beta": beta_scale * sigmoid(b)}


@mechanism(x="T K", l2_eps="param")
def unit(x, l2_eps, kind=("root", "sum", "max")):
    """x over its length: sqrt(n^2 + eps), n + eps, or max(n, eps). Nothing over nothing is nothing."""
    squares = (x * x).sum(-1)
    n = sqrt(squares)
    if kind == "root":
        divisor = sqrt(squares + l2_eps)
    elif kind == "sum":
        divisor = n + l2_eps
    else:
        divisor = where(l2_eps * l2_eps <= squares, n, l2_eps)  # squares: n is exact where eps is
    nothing = (squares == 0) & (l2_eps == 0)
    return {"y": where(nothing[:, None], 0, x / divisor[:, None])}


@mechanism(
    dt="T : logit", dt_bias=" : logit = 0", rate="", x="T V", dt_softplus="bool = false", dt_min="param = 0", has_maximum="bool = false",
    dt_max="param = 0",
)  # fmt: skip
def step_size(dt, dt_bias, rate, x, dt_softplus, dt_min, has_maximum, dt_max):
    """Delta = min(max(y, dt_min), dt_max), y = softplus(u) or u, u = dt + dt_bias; log_decay = Delta A, written = Delta x.

    Beyond the limits there is no gradient; at a limit there is.
    """
    u = dt + dt_bias
    y = where(dt_softplus, softplus(u), u)
    delta = where(y < dt_min, dt_min, where(has_maximum & (dt_max < y), dt_max, y))
    return {"log_decay": delta * rate, "written": delta[:, None] * x}


@mechanism(a_log=" : logit")
def rate_of_log(a_log):
    """A = -e^a_log."""
    return {"rate": -exp(a_log)}


@mechanism(o="T V", x="T V", skip="V = 0")
def skip_added(o, x, skip):
    return {"y": o + skip * x}


@mechanism(o="T V", z="T V")
def gated_output(o, z):
    """o silu(z)."""
    return {"y": o * z * sigmoid(z)}
