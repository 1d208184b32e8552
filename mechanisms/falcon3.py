from assay.language import dot, iota, mechanism, outer, scan, where
from common import RAW, STATE, count_of_pairs, gain, newest_pairs, only, write_features


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
    means = newest_pairs(window, writes, x, v, tail_k, tail_v)

    def newest(S, q, b, lam, t):
        energy, write = means(t, lambda x, v: v - x @ S)
        eta, gamma = gain(energy, b, lam, eps, decay_floor, ridge_coupling)
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
        S, o = scan(newest, initial_state, q, b, lam, iota("T"))
    else:
        state = initial_state, tail_k.T @ tail_v, tail_k.T @ tail_k, (tail_k * tail_k).sum(-1).sum()
        (S, _, _, _), o = scan(growing, state, q, b, lam, x, v, count_of_pairs(sequence_start, alignment))
    return {"o": o, "final_state": S}
