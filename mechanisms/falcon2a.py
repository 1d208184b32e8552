from assay.language import contract, dot, mechanism, outer, scan, where
from common import RAW, STATE, gain, only, write_features


@mechanism(
    q="T K", k="T K", v="T V", beta="T : gain", lam="T", initial_state=STATE, initial_normalizer="K = 0", k_carry="K = 0",
    eps="param = 0", eps_normalizer="param : regularizer = 0", decay_floor=RAW, sequence_start="bool = true",
)  # fmt: skip
def falcon2a(
    q, k, v, beta, lam, initial_state, initial_normalizer, k_carry, eps, eps_normalizer, decay_floor, sequence_start,
    alignment=("next_latent", "same_step"), ridge_coupling=("raw", "live", "detach"), normalization=("none", "features"),
):  # fmt: skip
    """S_t = gamma_t S_{t-1} + eta_t x_t v_t^T, z_t = gamma_t z_{t-1} + eta_t x_t, o_t = S_t^T q_t, divided by z_t.q_t + eps_normalizer.

    FALCON, equations (4.1), (4.7) and (4.8): FALCON-1's gain and decay, an associative write.
    """
    x, writes = write_features(k, k_carry, sequence_start, alignment)

    def step(state, q, x, v, b, lam):
        S, z = state
        eta, gamma = gain(dot(x, x), b, lam, eps, decay_floor, ridge_coupling)
        S, z = gamma * S + outer(x, eta * v), gamma * z + eta * x
        n, read = dot(q, z) + eps_normalizer, q @ S
        begun = b + dot(z, z) + contract("kv,kv->", S, S)  # zero in the first row of a fresh sequence, which writes nothing
        return (S, z), read if normalization == "none" else where(n == 0, where(begun == 0, 0, read / n), read / n)

    (S, z), o = scan(step, (initial_state, initial_normalizer), q, x, v, only(writes, beta), lam)
    return {"o": o, "final_state": S, **({"final_normalizer": z} if normalization == "features" else {})}
