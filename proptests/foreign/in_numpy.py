"""The formulas of mechanisms as anyone would write them in NumPy, in fp32, outputs alone."""
import numpy
import torch


def arrays(case, heads):
    """Inputs in fp32, what heads share once for each of them."""
    given = {name: x.detach().float().numpy() for name, x in case.inputs.items()}
    return {
        name: numpy.repeat(x, heads // x.shape[2], axis=2) if x.ndim > 2 and name in "qkvp" and x.shape[2] != heads else x
        for name, x in given.items()
    }


def attention(case):
    """softmax(scale q k^T) v, all scores at once."""
    x = arrays(case, case.heads)
    scores = numpy.einsum("bihd,bjhd->bhij", x["q"], x["k"]) * numpy.float32(case.scale)
    scores = numpy.where(case.visible().numpy(), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return {"o": numpy.einsum("bhij,bjhd->bihd", weights, x["v"])}


def recurrence(case):
    """Linear attention and the delta rules, one token after the other."""
    x, delta = arrays(case, case.heads), case.mechanism in ("deltanet", "gated_deltanet", "kda", "comba")
    state, read = x["initial_state"].copy(), x["p" if case.mechanism == "comba" else "k"]
    outputs = []
    for t in range(x["q"].shape[1]):
        decayed = state
        if "log_decay" in x:
            g = numpy.exp(x["log_decay"][:, t])
            decayed = state * (g if g.ndim == 3 else g[..., None])[..., None]
        written = x["v"][:, t]
        if delta:
            error = written - numpy.einsum("bhkv,bhk->bhv", state if case.mechanism == "comba" else decayed, read[:, t])
            written = error * x["beta"][:, t, :, None]
        state = decayed + x["k"][:, t, :, :, None] * written[:, :, None, :]
        outputs.append(numpy.float32(case.scale) * numpy.einsum("bhkv,bhk->bhv", state, x["q"][:, t]))
    return {"o": numpy.stack(outputs, 1), "final_state": state}


def textbook(case):
    """The outputs; o in the values' dtype, states in fp32."""
    found = (attention if case.mechanism == "softmax_attention" else recurrence)(case)
    answer = {name: torch.from_numpy(numpy.ascontiguousarray(y)) for name, y in found.items()}
    return answer | {"o": answer["o"].to(case["v"].dtype)}
