from assay.language import mechanism
from chunks import FALCON, falcon_rule


@mechanism(**FALCON)
def falcon1_chunks(
    q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, chunk=(16, 32, 64)
):  # fmt: skip
    """FALCON-1 in chunks. FALCON, appendix E."""
    return falcon_rule(q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, chunk)
