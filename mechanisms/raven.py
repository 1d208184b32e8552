from assay.language import exp, mechanism, outer, scan, sigmoid, softmax, where


@mechanism(
    q="T K", k="T K", v="T V", log_decay="T", router="T M : logit", chosen="T M : logit", initial_keys="M K : state = 0",
    initial_values="M V : state = 0", alpha="param = 1", scale="param = 1",
)  # fmt: skip
def raven(q, k, v, log_decay, router, chosen, initial_keys, initial_values, alpha, scale):
    """Slots that keep what they have until they are chosen: A_t = f_t A_{t-1} + (1 - f_t) k_t^T, f_t = exp(log_decay_t r_t), r sparse.

    B_t likewise with v_t, o_t = B_t^T softmax(scale A_t q_t); r = alpha g / sum(g), g = sigmoid(router) of chosen slots. Afzal, Bick et
    al., Raven: High-Recall Sequence Modeling with Sparse Memory Routing, 2026, equations (18) and (20). Slots with positive numbers are
    chosen. Which these are comes in: a top-k is no formula.
    """

    def step(state, q, k, v, a, router, chosen):
        A, B = state
        g = where(0 < chosen, sigmoid(router), 0)
        f = exp(where(0 < chosen, a * alpha * g / g.sum(), 0))
        A, B = f[:, None] * A + outer(1 - f, k), f[:, None] * B + outer(1 - f, v)
        return (A, B), softmax(scale * (A @ q)) @ B

    (A, B), o = scan(step, (initial_keys, initial_values), q, k, v, log_decay, router, chosen)
    return {"o": o, "final_keys": A, "final_values": B}
