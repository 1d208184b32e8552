from assay.language import iota, mechanism, scan, size, where, zeros
from common import RAW, STATE, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T : gain", alpha="T : decay_fraction", initial_state=STATE, k_carry="K = 0",
    tail_k="P K : key = 0", tail_v="P V : value = 0", eps="param = 0", decay_floor=RAW, sequence_start="bool = true",
    window='int = size("T") + size("P")',
)  # fmt: skip
def falcon3a(
    q, k, v, beta, alpha, initial_state, k_carry, tail_k, tail_v, eps, decay_floor, sequence_start, window,
    alignment=("next_latent", "same_step"),
):  # fmt: skip
    """S_t = (1 - alpha_t) S_{t-1} + rho_t / B_t sum_{j in I_t} x_j v_j^T over the newest `window` pairs I_t, rho = beta / (E + eps).

    FALCON, equations (4.18) to (4.20); E is the mean energy over I_t, o_t = S_t^T q_t. decay_floor only bounds what alpha may be.
    Without energy and eps a step does nothing. The outgoing tail is no output: its length depends on numbers.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)
    j, m, ones = iota("T"), iota("P") - size("P"), zeros("T") + 1

    def step(S, q, b, a, t):
        near = where((j <= t) & (t < j + window), only(writes, ones), 0)
        tail = where(t < m + window, 1, 0)
        count = near.sum() + tail.sum()
        mean = lambda a, of_tail: where(count == 0, 0, (a + of_tail) / count)
        D = mean(near @ (x * x).sum(-1), tail @ (tail_k * tail_k).sum(-1)) + eps
        write = mean((near[:, None] * x).T @ v, (tail[:, None] * tail_k).T @ tail_v)
        S = where(D == 0, S, (1 - a) * S + b / D * write)
        return S, q @ S

    S, o = scan(step, initial_state, q, only(writes, beta), only(writes, alpha), j)
    return {"o": o, "final_state": S}
