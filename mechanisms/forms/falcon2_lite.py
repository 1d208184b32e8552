from assay.language import mechanism
from chunks import RAW, STATE, falcon_rule


@mechanism(
    q="N {chunk} K", k="N {chunk} K", v="N {chunk} V", beta="N {chunk} : gain", lam="N {chunk}", initial_state=STATE, k_carry="K = 0",
    eps="param = 0", decay_floor=RAW, sequence_start="bool = true",
)  # fmt: skip
def falcon2_lite_chunks(
    q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, chunk=(16, 32, 64)
):  # fmt: skip
    """FALCON-2 lite in chunks. FALCON, appendix E."""
    return falcon_rule(q, k, v, beta, lam, initial_state, k_carry, eps, decay_floor, sequence_start, chunk)
