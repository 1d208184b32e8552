"""The formulas of mechanisms as anyone would write them in torch, differentiated by autograd, and mistakes that people make."""
import torch
from cases import repeated

# The bugs planted in each mechanism, and the number of tokens from which on they show.
ATTENTION_BUGS = {"scale_squared": 2, "mask_one_short": 3, "mask_one_long": 2, "token_late": 2, "softmax_base2": 2}
RECURRENCE_BUGS = {"scale_squared": 1, "read_before_write": 1, "initial_state_ignored": 1, "token_late": 2, "final_state_late": 2}
DECAY_BUGS = {"log2_decay": 1, "state_not_decayed": 1}


def bugs_of(mechanism):
    """Names of bugs, each with the tokens that it needs."""
    if mechanism == "softmax_attention":
        return ATTENTION_BUGS
    decays = mechanism in ("mamba2", "gla", "gated_deltanet", "kda", "comba")
    return RECURRENCE_BUGS | (DECAY_BUGS if decays else {})


def late(o):
    """Every token's output a token later."""
    return torch.cat([o[:, :1], o[:, :-1]], 1)


def attention(case, dtype, bug):
    """Softmax attention with all scores at once."""
    q, k, v = (x.to(dtype) for x in case.shared("q", "k", "v"))
    scale = case.scale**2 if bug == "scale_squared" else case.scale
    scores = torch.einsum("bihd,bjhd->bhij", q * scale, k)
    if bug == "softmax_base2":
        scores = scores * 0.6931471805599453
    seen = case.visible({"mask_one_short": -1, "mask_one_long": 1}.get(bug, 0))
    scores = scores.masked_fill(~seen, float("-inf"))
    o = torch.einsum("bhij,bjhd->bihd", torch.softmax(scores, -1), v)
    return {"o": (late(o) if bug == "token_late" else o).to(case["q"].dtype)}


def decays_of(case, dtype, bug):
    """exp of the log decays, [B, T, H, K or 1], or None."""
    if "log_decay" not in case.inputs:
        return None
    g = case["log_decay"].to(dtype)
    g = {"log2_decay": g * 0.6931471805599453, "state_not_decayed": g * 0}.get(bug, g)
    return torch.exp(g if g.dim() == 4 else g[..., None])


def recurrence(case, dtype, bug):
    """Linear attention and the delta rules, one token after the other."""
    heads, delta = case.heads, case.mechanism in ("deltanet", "gated_deltanet", "kda", "comba")
    q, k, v = (repeated(case[name].to(dtype), heads) for name in ("q", "k", "v"))
    p = repeated(case["p"].to(dtype), heads) if case.mechanism == "comba" else k
    decay, scale = decays_of(case, dtype, bug), case.scale ** (2 if bug == "scale_squared" else 1)
    state = case["initial_state"].to(dtype) * (0 if bug == "initial_state_ignored" else 1)
    outputs = []
    for t in range(q.shape[1]):
        decayed = state if decay is None else state * decay[:, t, :, :, None]
        written = v[:, t]
        if delta:
            read = state if case.mechanism == "comba" else decayed
            written = written - torch.einsum("bhkv,bhk->bhv", read, p[:, t])
            written = written * case["beta"].to(dtype)[:, t, :, None]
        before, state = state, decayed + k[:, t, :, :, None] * written[:, :, None, :]
        seen = decayed if bug == "read_before_write" else state
        outputs.append(scale * torch.einsum("bhkv,bhk->bhv", seen, q[:, t]))
    o = torch.stack(outputs, 1)
    o = (late(o) if bug == "token_late" else o).to(case["v"].dtype)
    return {"o": o, "final_state": (before if bug == "final_state_late" else state).float()}


MECHANISMS = ("softmax_attention", "linear_attention", "mamba2", "gla", "deltanet", "gated_deltanet", "kda", "comba")


def textbook(case, bug=None, dtype=torch.float32):
    """The answer, every operation in `dtype`, rounded at the end."""
    formula = attention if case.mechanism == "softmax_attention" else recurrence
    return case.answer(formula(case, dtype, bug))
