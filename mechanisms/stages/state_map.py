from assay.language import mechanism, scan, zeros
from chunks import decayed, decays, identity


@mechanism(
    k="N {chunk} K : key unit=K", w="N {chunk} K : key low=-0.0625 high=0.0625", u="N {chunk} V : value", log_decay="N {chunk} {gate}"
)
def state_map(k, w, u, log_decay, chunk=64, gate=("", "K")):
    """[bias; transition] of a range of tokens, so that S_after = transition S_before + bias: products and sums over its chunks.

    Of a chunk the transition is diag(e^c_last) - (e^(c_last - c) k)^T w, the bias (e^(c_last - c) k)^T u; c = cumsum(log_decay). Ranks
    of a context-parallel run exchange these: chunk_gated_delta_rule_fwd_h_pre_process of flash-linear-attention. Yang et al., Gated
    Delta Networks, 2024, arXiv 2412.06464, section 3.3; with a decay for every channel Kimi Linear, 2025, arXiv 2510.26692.
    """

    def step(state, k, w, u, g):
        bias, M = state
        _, to_end, last = decays(g)
        written = (to_end * k).T
        return (decayed(last, bias) + written @ (u - w @ bias), decayed(last, M) - written @ (w @ M)), None

    (bias, M), _ = scan(step, (zeros("K", "V"), identity("K")), k, w, u, log_decay)
    return {"bias": bias, "transition": M}
