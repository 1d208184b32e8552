from assay.language import mechanism, size, sqrt


@mechanism(x="T D : layer_input", eps="param = 0")
def rmsnorm(x, eps):
    """y = x / (r + eps), r = |x| / sqrt(D).

    Zhang and Sennrich, Root Mean Square Layer Normalization, 2019, arXiv 1910.07467; eps outside of the root.
    """
    return {"y": x / (sqrt((x * x).sum(-1) / size("D")) + eps)[:, None]}
