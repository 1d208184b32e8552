from assay.language import const, exp, iota, mechanism, outer, scan, size, softmax, sqrt, where
from common import RSQRT


@mechanism(
    q="T K", k="T K", v="T V", beta="T", log_decay="T", cosine="T N : weight low=-1 high=1", sine="T N : weight low=-1 high=1",
    even="M N : weight", odd="M N : weight", initial_keys="2 N K : state = 0", initial_values="2 N V : state = 0", scale=RSQRT,
)  # fmt: skip
def cyclic_attention(q, k, v, beta, log_decay, cosine, sine, even, odd, initial_keys, initial_values, scale):
    """CyFA: a ring of M slots that goes on by delta_t, A_t = alpha_t P(delta_t) A_{t-1} + beta_t e_0 k_t^T, B_t likewise with v_t.

    o_t = (R B_t)^T softmax(scale R A_t q_t): P is a fractional cyclic shift, R the readout. States are in N = (M + 1) / 2 frequencies,
    even and odd parts, which a shift turns. Cosines and sines of 2 pi n delta_t / M come in, and R by its even and odd parts. Chen,
    Yang, Hu, CyFA: Linear Sequence Modeling with Relative-Time-Partitioned Memory, 2026, arXiv 2609.36259.
    """
    newest = where(iota("N") == 0, 1, sqrt(const(2))) / sqrt(size("M"))  # slot 0, in frequencies

    def step(state, q, k, v, b, g, c, s):
        def aged(S, x):
            re, im = exp(g) * S[0], exp(g) * S[1]
            turned = c[:, None] * re - s[:, None] * im + outer(b * newest, x), s[:, None] * re + c[:, None] * im
            return where((iota(2) == 0)[:, None, None], *turned)

        A, B = aged(state[0], k), aged(state[1], v)
        p = softmax(scale * (even @ (A[0] @ q) + odd @ (A[1] @ q)))
        return (A, B), (p @ even) @ B[0] + (p @ odd) @ B[1]

    (A, B), o = scan(step, (initial_keys, initial_values), q, k, v, beta, log_decay, cosine, sine)
    return {"o": o, "final_keys": A, "final_values": B}
