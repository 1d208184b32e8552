from assay.language import dot, iota, mechanism, outer, scan, size, where, zeros
from common import RAW, STATE, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T : gain", alpha="T : decay_fraction", initial_state=STATE, k_carry="K = 0",
    tail_k="P K : key = 0", tail_v="P V : value = 0", eps="param = 0", decay_floor=RAW, sequence_start="bool = true",
    window='int = size("T") + size("P")',
)  # fmt: skip
def falcon3a(
    q, k, v, beta, alpha, initial_state, k_carry, tail_k, tail_v, eps, decay_floor, sequence_start, window,
    alignment=("next_latent", "same_step"), pairs=("newest", "all"),
):  # fmt: skip
    """S_t = (1 - alpha_t) S_{t-1} + rho_t / B_t sum_{j in I_t} x_j v_j^T over the newest `window` pairs I_t, rho = beta / (E + eps).

    FALCON, equations (4.18) to (4.20); E is the mean energy over I_t, o_t = S_t^T q_t. decay_floor only bounds what alpha may be.
    Without energy and eps a step does nothing. The outgoing tail is no output: its length depends on numbers.
    pairs="all" is without a window: one sum of all pairs, which grows.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)
    j, m, ones = iota("T"), iota("P") - size("P"), zeros("T") + 1

    def newest(S, q, b, a, t):
        near = where((j <= t) & (t < j + window), only(writes, ones), 0)
        tail = where(t < m + window, 1, 0)
        count = near.sum() + tail.sum()
        mean = lambda a, of_tail: where(count == 0, 0, (a + of_tail) / count)
        D = mean(near @ (x * x).sum(-1), tail @ (tail_k * tail_k).sum(-1)) + eps
        write = mean((near[:, None] * x).T @ v, (tail[:, None] * tail_k).T @ tail_v)
        S = where(D == 0, S, (1 - a) * S + b / D * write)
        return S, q @ S

    def growing(state, q, b, a, x, v, count):
        S, C, energy = state
        C, energy = C + outer(x, v), energy + dot(x, x)
        D = where(count == 0, 0, energy / count) + eps
        S = where(D == 0, S, (1 - a) * S + where(count == 0, 0, b / D / count) * C)
        return (S, C, energy), q @ S

    b, a = only(writes, beta), only(writes, alpha)
    if pairs == "newest":
        S, o = scan(newest, initial_state, q, b, a, j)
    else:
        state = initial_state, tail_k.T @ tail_v, (tail_k * tail_k).sum(-1).sum()
        fresh = where(sequence_start, 1, 0) if alignment == "next_latent" else 0
        (S, _, _), o = scan(growing, state, q, b, a, x, v, j + 1 + size("P") - fresh)
    return {"o": o, "final_state": S}
