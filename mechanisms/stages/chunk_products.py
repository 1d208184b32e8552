from assay.language import cumsum, exp, iota, mechanism, scan, where
from chunks import rows


@mechanism(k="N {chunk} K : key unit=K", beta="N {chunk}", log_decay="N {chunk} {gate}")
def chunk_products(k, beta, log_decay, chunk=64, gate=("", "K")):
    """A_rs = beta_r sum_i k_ri k_si e^(c_ri - c_si) for s < r, zero elsewhere; c = cumsum(log_decay) of a chunk.

    The strictly lower triangle that the delta rule inverts: chunk_scaled_dot_kkt_fwd of flash-linear-attention. Yang et al.,
    Gated Delta Networks, 2024, arXiv 2412.06464, section 3.3; with a decay for every channel Kimi Linear, 2025, arXiv 2510.26692.
    """

    def one(_, k, b, g):
        c = cumsum(g)

        def row(_, at, b, up, r):
            earlier = iota(chunk) < r
            weight = exp(where(rows(earlier) if gate else earlier, up - c, 0))
            return None, where(earlier, b * ((rows(weight) * k) @ at), 0)

        return None, scan(row, None, k, b, c, iota(chunk))[1]

    return {"A": scan(one, None, k, beta, log_decay)[1]}
