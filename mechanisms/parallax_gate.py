from assay.language import iota, mechanism, scan, sigmoid, softmax
from common import UNLIMITED, visible


@mechanism(
    q="T K", k="S K", v="S V", x="T D : layer_input", w_r="K D : weight", w_g="D : weight", bandwidth="", causal="bool = true",
    window=UNLIMITED,
)  # fmt: skip
def parallax_gate(q, k, v, x, w_r, w_g, bandwidth, causal, window):
    """Parallax with the probe that a layer forms: rho_i = sigmoid(w_g.x_i) W_R x_i.

    Parallax, arXiv 2605.29157, section 3.
    """
    gate = sigmoid(x @ w_g)
    rho = gate[:, None] * (x @ w_r.T)

    def row(_, q, rho, i):
        p = softmax((k @ q) / bandwidth, visible(i, causal, window))
        t = k @ rho
        return None, (p * (1 + p @ t - t)) @ v

    return {"o": scan(row, None, q, rho, iota("T"))[1], "rho": rho, "gate": gate}
