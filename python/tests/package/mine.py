"""A mechanism of one's own, whose outputs are returned in another order than the alphabet's."""
from assay.language import mechanism, outer, scan


@mechanism(q="T K", k="T K", v="T V", beta="T", initial_state="K V = 0", scale='param = 1 / sqrt(size("K"))', gain="param = 0.75")
def mine(q, k, v, beta, initial_state, scale, gain, twice=True):
    def step(S, q, k, v, b):
        S = S + outer(k, b * (v - k @ S))
        return S, scale * (q @ S)

    S, o = scan(step, initial_state, q, k, v, beta)
    return {"o": o, "final_state": S, "again": (2 if twice else 1) * gain * o}
