from assay.language import dot, iota, mechanism, outer, scan, size, where, zeros
from common import RAW, STATE, gain, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T : gain", lam="T", initial_state=STATE, k_carry="K = 0", tail_k="P K : key = 0",
    tail_v="P V : value = 0", eps="param = 0", decay_floor=RAW, sequence_start="bool = true", window='int = size("T") + size("P")',
)  # fmt: skip
def falcon3(
    q, k, v, beta, lam, initial_state, k_carry, tail_k, tail_v, eps, decay_floor, sequence_start, window,
    alignment=("next_latent", "same_step"), ridge_coupling=("raw", "live", "detach"),
    pairs=("newest", "all"),
):  # fmt: skip
    """S_t = gamma_t S_{t-1} + eta_t / B_t sum_{j in I_t} x_j (v_j - S_{t-1}^T x_j)^T over the newest `window` pairs I_t.

    FALCON, equations (4.9) to (4.15), algorithm 3; eta and gamma from the mean energy over I_t; o_t = S_t^T q_t. The pairs still in the
    window come in as a tail; the tail going out has a length that depends on numbers, and is no output.
    pairs="all" is without a window: sums of all pairs, which grow.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)
    j, m, ones = iota("T"), iota("P") - size("P"), zeros("T") + 1

    def newest(S, q, b, lam, t):
        near = where((j <= t) & (t < j + window), only(writes, ones), 0)
        tail = where(t < m + window, 1, 0)
        count = near.sum() + tail.sum()
        mean = lambda a, of_tail: where(count == 0, 0, (a + of_tail) / count)
        energy = mean(near @ (x * x).sum(-1), tail @ (tail_k * tail_k).sum(-1))
        eta, gamma = gain(energy, b, lam, eps, decay_floor, ridge_coupling)
        write = mean((near[:, None] * x).T @ (v - x @ S), (tail[:, None] * tail_k).T @ (tail_v - tail_k @ S))
        S = gamma * S + eta * write
        return S, q @ S

    def growing(state, q, b, lam, x, v, count):
        S, C, A, energy = state
        C, A, energy = C + outer(x, v), A + outer(x, x), energy + dot(x, x)
        mean = lambda a: where(count == 0, 0, a / count)
        eta, gamma = gain(mean(energy), b, lam, eps, decay_floor, ridge_coupling)
        S = gamma * S + eta * mean(C - A @ S)
        return (S, C, A, energy), q @ S

    b = only(writes, beta)
    if pairs == "newest":
        S, o = scan(newest, initial_state, q, b, lam, j)
    else:
        state = initial_state, tail_k.T @ tail_v, tail_k.T @ tail_k, (tail_k * tail_k).sum(-1).sum()
        fresh = where(sequence_start, 1, 0) if alignment == "next_latent" else 0
        (S, _, _, _), o = scan(growing, state, q, b, lam, x, v, j + 1 + size("P") - fresh)
    return {"o": o, "final_state": S}
