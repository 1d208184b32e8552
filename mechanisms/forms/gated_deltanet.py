from assay.language import mechanism, scan
from chunks import RSQRT, STATE, decays_of_logs, delta_rule


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk}", initial_state=STATE, scale=RSQRT
)
def gated_deltanet_chunks(
    q, k, v, beta, log_decay, initial_state, scale, error=("decayed", "undecayed"), chunk=(16, 32, 64)
):
    """The gated delta rule in chunks: c = cumsum(log_decay), weights e^{c_r - c_s}, the old state decayed by e^c.

    Yang, Kautz, Hatamizadeh, Gated Delta Networks, 2024, section 3.3.
    """

    def step(S, q, k, v, b, g):
        return delta_rule(S, q, k, k, v, b, decays_of_logs(g, error, chunk), chunk, scale)

    S, o = scan(step, initial_state, q, k, v, beta, log_decay)
    return {"o": o, "final_state": S}
