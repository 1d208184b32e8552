from assay.language import mechanism, scan
from chunks import RSQRT, STATE, decays_of_logs, delta_rule


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", p="N {chunk} K", beta="N {chunk}", log_decay="N {chunk}", initial_state=STATE,
    scale=RSQRT,
)  # fmt: skip
def comba_chunks(q, k, v, p, beta, log_decay, initial_state, scale, chunk=(16, 32, 64)):
    """Comba in chunks: the delta rule whose errors are taken by keys p on the state before its decay.

    Hu et al., Comba, 2025, arXiv 2506.02475.
    """

    def step(S, q, k, v, p, b, g):
        return delta_rule(S, q, k, p, v, b, decays_of_logs(g, "undecayed", chunk), chunk, scale)

    S, o = scan(step, initial_state, q, k, v, p, beta, log_decay)
    return {"o": o, "final_state": S}
