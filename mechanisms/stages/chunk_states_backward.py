from assay.language import mechanism, scan
from chunks import decayed, decays


@mechanism(
    q="N {chunk} K : query unit=K", k="N {chunk} K : key unit=K", w="N {chunk} K : key low=-0.0625 high=0.0625", do="N {chunk} V : value",
    dv="N {chunk} V : value", log_decay="N {chunk} {gate}", dht="K V : state = 0", scale='param = 1 / sqrt(size("K"))',
)  # fmt: skip
def chunk_states_backward(q, k, w, do, dv, log_decay, dht, scale, chunk=64, gate=("", "K")):
    """From the last chunk to the first: dh = D, du = dv + (e^(c_last - c) k) D, D <- e^c_last D + scale (e^c q)^T do - w^T du.

    dh is the gradient of the state behind every chunk, D of the last one dht; dv what reads inside of a chunk give its writes, du the
    whole: chunk_gated_delta_rule_bwd_dhu of flash-linear-attention. The adjoint of chunk_states and of reads e^c q S. Yang et al.,
    Gated Delta Networks, 2024, arXiv 2412.06464, section 3.3; with a decay for every channel Kimi Linear, 2025, arXiv 2510.26692.
    """

    def step(D, q, k, w, do, dv, g):
        up, to_end, last = decays(g)
        du = dv + (to_end * k) @ D
        return decayed(last, D) + scale * ((up * q).T @ do) - w.T @ du, (D, du)

    dh0, (dh, du) = scan(step, dht, q, k, w, do, dv, log_decay, reverse=True)
    return {"dh": dh, "du": du, "dh0": dh0}
