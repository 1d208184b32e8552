from assay.language import mechanism, scan, solve, where
from chunks import before, identity


@mechanism(A="N {chunk} {chunk} : weight low=-0.25 high=0.25")
def chunk_inverse(A, chunk=64):
    """X = (1 + A)^-1 of every chunk, of A what is below its diagonal.

    Every chunk form of a delta rule inverts it: solve_tril of flash-linear-attention. Yang et al., Parallelizing Linear
    Transformers with the Delta Rule, 2024, arXiv 2406.06484, equation (10).
    """
    return {"inverse": scan(lambda _, A: (None, solve(identity(chunk) + where(before(chunk), A, 0), identity(chunk))), None, A)[1]}
