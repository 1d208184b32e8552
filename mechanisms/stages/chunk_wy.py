from assay.language import mechanism, scan, where
from chunks import before, decays


@mechanism(
    k="N {chunk} K : key unit=K", v="N {chunk} V", beta="N {chunk}", log_decay="N {chunk} {gate}",
    inverse="N {chunk} {chunk} : weight low=-0.25 high=0.25",
)  # fmt: skip
def chunk_wy(k, v, beta, log_decay, inverse, chunk=64, gate=("", "K")):
    """w = X diag(beta) (e^c k), u = X diag(beta) v: the WY form of a chunk's writes, u - w S; of X its lower triangle.

    c = cumsum(log_decay) of the chunk, X = (1 + A)^-1 given: recompute_w_u_fwd of flash-linear-attention. Yang et al., Gated Delta
    Networks, 2024, arXiv 2412.06464, section 3.3; with a decay for every channel Kimi Linear, 2025, arXiv 2510.26692.
    """

    def one(_, k, v, b, g, X):
        X = where(before(chunk).T, 0, X)
        return None, (X @ (b[:, None] * decays(g)[0] * k), X @ (b[:, None] * v))

    w, u = scan(one, None, k, v, beta, log_decay, inverse)[1]
    return {"w": w, "u": u}
