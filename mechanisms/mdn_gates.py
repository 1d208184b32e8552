from assay.language import exp, log, maximum, mechanism, sigmoid, softplus


@mechanism(
    a="T : logit", b="T : logit", m="T : logit", e="T : logit", a_log=": logit", dt_bias=": logit", mu_log=": logit", mu_bias=": logit",
    log_factor=": logit", tau="param : temperature", min_log_mu="param : log_floor = log(0)",
)  # fmt: skip
def mdn_gates(a, b, m, e, a_log, dt_bias, mu_log, mu_bias, log_factor, tau, min_log_mu):
    """Momentum DeltaNet's gates from raw projections, arXiv 2605.05838:

    eta = 1 + tanh(e / tau), phi = eta e^{log_factor}, beta = phi^2 / (1 + phi^2) sigmoid(b),
    log alpha = -log(1 + phi^2) - e^{A_log} softplus(a + dt_bias), log mu = max(-e^{Mu_log} softplus(m + mu_bias), min_log_mu).
    """
    eta = 2 * sigmoid(2 * e / tau)
    square = (eta * exp(log_factor)) ** 2
    return {
        "eta": eta,
        "beta": square / (1 + square) * sigmoid(b),
        "log_alpha": -log(1 + square) - exp(a_log) * softplus(a + dt_bias),
        "log_mu": maximum(min_log_mu, -exp(mu_log) * softplus(m + mu_bias)),
    }
