from assay.language import mechanism, scan
from chunks import STATE, decayed, decays


@mechanism(
    k="N {chunk} K : key unit=K", w="N {chunk} K : key low=-0.0625 high=0.0625", u="N {chunk} V : value", log_decay="N {chunk} {gate}",
    initial_state=STATE,
)  # fmt: skip
def chunk_states(k, w, u, log_decay, initial_state, chunk=64, gate=("", "K")):
    """From chunk to chunk: h = S, written = u - w S, S <- e^c_last S + (e^(c_last - c) k)^T written; c = cumsum(log_decay) of a chunk.

    h is the state before every chunk: chunk_gated_delta_rule_fwd_h of flash-linear-attention, whose v_new is `written`. Yang et al.,
    Gated Delta Networks, 2024, arXiv 2412.06464, section 3.3; with a decay for every channel Kimi Linear, 2025, arXiv 2510.26692.
    """

    def step(S, k, w, u, g):
        _, to_end, last = decays(g)
        written = u - w @ S
        return decayed(last, S) + (to_end * k).T @ written, (S, written)

    S, (h, written) = scan(step, initial_state, k, w, u, log_decay)
    return {"h": h, "written": written, "final_state": S}
