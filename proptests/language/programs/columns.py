"""A recurrence whose value channels have decays and write strengths of their own, and keys that are written beside those that are read."""
from assay.language import mechanism, outer, scan


@mechanism(q="T K", k="T K", p="T K", v="T V", g="T V : decay_fraction", b="T V : write_strength", initial_state="K V = 0")
def columns(q, k, p, v, g, b, initial_state):
    def step(S, q, k, p, v, g, b):
        S = (1 - g / 32) * S + outer(p, (v - k @ S) * b / 64)
        return S, q @ S

    S, o = scan(step, initial_state, q, k, p, v, g, b)
    return {"o": o, "final_state": S}
