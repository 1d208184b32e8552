from assay.language import exp, log, maximum, mechanism, scan, sigmoid, softplus, tanh, zeros


@mechanism(
    z="T D : logit", i="T D : logit", f="T D : logit", o="T D : logit", rz="D D : weight", ri="D D : weight", rf="D D : weight",
    ro="D D : weight",
)  # fmt: skip
def slstm(z, i, f, o, rz, ri, rf, ro):
    """c_t = f c_{t-1} + i tanh(z), n_t = f n_{t-1} + i, h_t = sigmoid(o) c / n; gates see R h_{t-1}: f a sigmoid, i an exponential.

    Beck et al., xLSTM, 2024, arXiv 2405.04517, equations (8) to (18), stabilised by m_t = max(log f + m_{t-1}, i_t).
    """

    def step(state, z, i, f, o):
        c, n, h, m = state
        z, i, lf, o = tanh(z + rz @ h), i + ri @ h, -softplus(-f - rf @ h), sigmoid(o + ro @ h)
        top = maximum(lf + m, i)
        keep, write = exp(lf + m - top), exp(i - top)
        c, n = keep * c + write * z, keep * n + write
        h = o * c / n
        return (c, n, h, top), h

    nothing = zeros("D")
    return {"h": scan(step, (nothing, nothing, nothing, log(nothing)), z, i, f, o)[1]}
