from assay.language import cumsum, iota, maximum, mechanism, shift, softmax, where
from common import RSQRT


@mechanism(q="T K", k="T K", v="T V", qs="T K : query", ks="T K : key", scale=RSQRT)
def selective_attention(q, k, v, qs, ks, scale):
    """Softmax attention where tokens mask others for all later ones: s_ij - F_ij, F_ij = sum_{l<i} max(scale qs_l.ks_j, 0), j < l.

    Leviathan, Kalman, Matias, Selective Attention Improves Transformer, 2024, arXiv 2410.02703: nobody masks itself or the first token.
    """
    t = iota("T")
    masked = where((t < t[:, None]) & (0 < t), maximum(scale * (qs @ ks.T), 0), 0)
    return {"o": softmax(scale * (q @ k.T) - shift(cumsum(masked)), t <= t[:, None]) @ v}
