from assay.language import mechanism, scan, size, softmax, sqrt


@mechanism(x="T M D : layer_input", w="D : query", gain="D : gain", eps="param = 1e-6")
def attention_residuals(x, w, gain, eps):
    """h = sum_i softmax_i(w.RMSNorm(x_i)) x_i over the outputs x_i of the layers before, in place of their sum; token by token.

    Kimi Team, Attention Residuals, 2026, arXiv 2603.15031: w is the layer's pseudo-query, gain the norm's weight, and blocks may stand
    for layers.
    """

    def token(_, x):
        return None, softmax((x @ (w * gain)) / sqrt((x * x).sum(-1) / size("D") + eps)) @ x

    return {"o": scan(token, None, x)[1]}
