from assay.language import contract, mechanism, outer, scan, softmax, where
from common import RSQRT


@mechanism(
    q="T K", k="T M K", v="T M V", shared_k="T K : key", shared_v="T V : value", router="T M : logit", chosen="T M : logit",
    initial_state="M K V : state = 0", initial_shared="K V : state = 0", scale=RSQRT,
)  # fmt: skip
def mom(q, k, v, shared_k, shared_v, router, chosen, initial_state, initial_shared, scale):
    """Mixture of memories: chosen ones write, S^m_t = S^m_{t-1} + k^m_t v^m_t^T, others stay; o_t = scale (sum_m g_m S^m_t + S'_t)^T q_t.

    g = softmax(router) over the chosen memories; the shared memory S' always writes its own keys and values. Du et al., MoM: Linear
    Sequence Modeling with Mixture-of-Memories, 2025, arXiv 2502.13685, with linear attention's update. Memories with positive numbers
    are chosen. Which these are comes in: the router's top-k is no formula.
    """

    def step(state, q, k, v, sk, sv, router, chosen):
        S, shared = state
        S = S + where((0 < chosen)[:, None, None], contract("mk,mv->mkv", k, v), 0)
        shared = shared + outer(sk, sv)
        mixed = contract("m,mkv->kv", softmax(router, 0 < chosen), S) + shared
        return (S, shared), scale * (q @ mixed)

    (S, shared), o = scan(step, (initial_state, initial_shared), q, k, v, shared_k, shared_v, router, chosen)
    return {"o": o, "final_state": S, "final_shared": shared}
