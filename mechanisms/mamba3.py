from assay.language import exp, iota, mechanism, outer, scan, where
from common import RSQRT


@mechanism(
    q="T 2 K", k="T 2 K", v="T V", log_decay="T", dt="T : gain", part="T : decay_fraction", cosine="T K : weight low=-1 high=1",
    sine="T K : weight low=-1 high=1", initial_state="2 K V : state = 0", initial_key="2 K : key = 0", initial_value="V : value = 0",
    scale=RSQRT,
)  # fmt: skip
def mamba3(q, k, v, log_decay, dt, part, cosine, sine, initial_state, initial_key, initial_value, scale):
    """h_t = a R_t (h_{t-1} + (1 - part) dt k_{t-1} v_{t-1}^T) + part dt k_t v_t^T, o_t = scale Re(q* h): complex, in pairs.

    Mamba-3, 2025, arXiv 2603.15569, the trapezoidal rule with rotations R of every channel's pair, which come as cosines and sines.
    """

    def step(state, q, k, v, g, dt, part, c, s):
        h, before, old = state
        re, im = (h[n] + outer((1 - part) * dt * before[n], old) for n in range(2))
        turned = c[:, None] * re - s[:, None] * im, s[:, None] * re + c[:, None] * im
        re, im = (exp(g) * turned[n] + outer(part * dt * k[n], v) for n in range(2))
        return (where((iota(2) == 0)[:, None, None], re, im), k, v), scale * (q[0] @ re + q[1] @ im)

    start = initial_state, initial_key, initial_value
    (h, key, value), o = scan(step, start, q, k, v, log_decay, dt, part, cosine, sine)
    return {"o": o, "final_state": h, "final_key": key, "final_value": value}
