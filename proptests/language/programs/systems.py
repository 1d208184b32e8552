"""Systems of linear equations: what `solve` answers, and what is left of the equations."""
from assay.language import iota, mechanism, solve, where


@mechanism(A="K K", b="K", B="K V")
def general(A, b, B):
    x, X = solve(A, b), solve(A, B)
    return {"x": x, "X": X, "left": A @ x - b, "lefts": A @ X - B}


@mechanism(u="T K", b="K", B="K V", r="K : ridge")
def definite(u, b, B, r):
    A = u.T @ u + where(iota("K")[:, None] == iota("K"), r, 0)
    return {"x": solve(A, b, definite=True), "X": solve(A, B, definite=True)}


@mechanism(u="T K", b="K", B="K V", r="K : ridge")
def definite_left(u, b, B, r):
    A = u.T @ u + where(iota("K")[:, None] == iota("K"), r, 0)
    return {"left": A @ solve(A, b, definite=True) - b, "lefts": A @ solve(A, B, definite=True) - B}


@mechanism(A="T K K", b="T K")
def several(A, b):
    """A system of every token."""
    return {"x": solve(A, b)}


@mechanism(A="K K", b="K")
def indefinite(A, b):
    return {"x": solve((A + A.T) / 2, b, definite=True)}
