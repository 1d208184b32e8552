from assay.language import dot, iota, mechanism, outer, scan, where
from common import RAW, STATE, count_of_pairs, newest_pairs, only, write_features


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
    means = newest_pairs(window, writes, x, v, tail_k, tail_v)

    def newest(S, q, b, a, t):
        energy, write = means(t, lambda x, v: v)
        D = energy + eps
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
        S, o = scan(newest, initial_state, q, b, a, iota("T"))
    else:
        state = initial_state, tail_k.T @ tail_v, (tail_k * tail_k).sum(-1).sum()
        (S, _, _), o = scan(growing, state, q, b, a, x, v, count_of_pairs(sequence_start, alignment))
    return {"o": o, "final_state": S}
