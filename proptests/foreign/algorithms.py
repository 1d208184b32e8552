"""Algorithms of kernels, written once more over a tape of NumPy arrays: token by token, in chunks, all at once, in tiles.

A kernel is a string of settings: `chunk=32 form=wy decay=products operands=bf16`. `chunk`, tokens in a chunk or keys in a tile: 1 is token
by token, 0 all at once. `form`, `decay` and `solver` say how a step is made where there are several ways. States and sums are in fp32.
Shapes: N heads of all sequences side by side, [N, T, K] for queries and keys, [N, T] for gates, [N, K, V] for states."""
import functools
import json
import math
import pathlib
import struct
import sys

import numpy as np
from recordings import read_header
from tape import ROUNDINGS, Tape, by_factors, concatenate, product, solve, stack, substituted, turned

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}
SOLVERS = {"elimination": np.linalg.solve, "factors": by_factors}
DELTA = ("deltanet", "gated_deltanet", "kda", "comba", "falcon1", "falcon2_lite")
RECURRENCES = ("linear_attention", "retnet", "mamba2", "gla", *DELTA, "falcon2a")
ATTENTIONS = ("softmax_attention", "parallax", "lla")
MECHANISMS = (*RECURRENCES, *ATTENTIONS, "mdn", "mesanet", "rls")
TOKENS = (1, 2, 3, 5, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 66, 96, 100, 127, 128, 129, 130)
STYLES = """normal unit_keys correlated_keys nearly_parallel_keys repeated_keys outlier_channels rising_scores long_memory dead_memory
    gate_ends cancelling_values subnormals integers ill_conditioned dyadic slow_writes predicted_values mixed_gates""".split()


class Problem:
    """The case in a file: inputs on a tape, by name, with one row of heads, and the answer."""

    def __init__(self, path, operands):
        data, self.tape, self.leaves, self.cotangents = path.read_bytes(), Tape(operands), {}, {}
        self.header, start = read_header(data)
        metadata = self.header.pop("__metadata__")
        self.mechanism, self.params = metadata["mechanism"], json.loads(metadata.get("params", "{}"))
        for name, entry in self.header.items():
            begin, end = entry["data_offsets"]
            array = np.frombuffer(data[start + begin : start + end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            if entry["dtype"] == "BF16":
                array = (array.astype(np.uint32) << 16).view(np.float32)
            if name.startswith("d_"):
                self.cotangents[name[2:]] = array
            else:
                self.leaves[name] = self.tape.put(array)
        if "bandwidth" in self.params:
            self.leaves["bandwidth"] = self.tape.put(float(self.params["bandwidth"]))
            self.header["bandwidth"] = {"dtype": "F32"}
        self.batch, self.heads = self.leaves["q"].shape[0], max(self.leaves[name].shape[2] for name in "qv")

    def __contains__(self, name):
        return name in self.leaves

    def __getitem__(self, name):
        """The input of every head of the output, [N, ...]."""
        leaf, by_token = self.leaves[name], not name.startswith("initial_") and self.leaves[name].value.ndim > 2
        if name == "bandwidth":
            return leaf
        shared = leaf.shape[2 if by_token else 1]
        x = np.repeat(np.moveaxis(leaf.value, 2, 1) if by_token else leaf.value, self.heads // shared, 1)

        def back(g):
            g = g.reshape(self.batch, shared, -1, *g.shape[1:]).sum(2)
            return np.moveaxis(g, 1, 2) if by_token else g

        return leaf.of(x.reshape(-1, *x.shape[2:]), back)

    def answer(self, outputs):
        """Arrays by the names and in the layout of an answer: outputs, and gradients if the case has cotangents."""
        answer = {}
        for name, y in outputs.items():
            whole = y.reshape(self.batch, self.heads, *y.shape[1:])
            answer[name] = np.moveaxis(whole.value, 1, 2) if name in ("o", "lse") else whole.value
            if name in self.cotangents:
                given = np.moveaxis(self.cotangents[name], 2, 1) if name in ("o", "lse") else self.cotangents[name]
                whole.give(..., given)
        self.tape.pull()
        return answer | {f"d_{name}": leaf.gradient for name, leaf in self.leaves.items() if leaf.gradient is not None}

    def write(self, path, answer, kernel):
        """The answer as a safetensors file: o as wide as v, gradients as their inputs, the rest in fp32; all in fp64 if computed in it."""
        of_v, header, body = self.header["v"]["dtype"], {"__metadata__": {"kernel": kernel}}, b""
        for name, array in answer.items():
            dtype = of_v if name == "o" else self.header[name[2:]]["dtype"] if name.startswith("d_") else "F32"
            if self.tape.dtype is np.float64:
                dtype = "F64"
            with np.errstate(over="ignore"):
                raw = ROUNDINGS["bf16"](array).view(np.uint32) >> 16 if dtype == "BF16" else array
                data = raw.astype(DTYPES[dtype]).tobytes()
            header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (len(body), len(body) + len(data))}
            body += data
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def answered(kernel, case, out):
    """Answers the case in one file into the other by the kernel of that name; arguments of `assay check`."""
    settings = dict(word.split("=") for word in kernel.split())
    problem = Problem(case, settings["operands"])
    function = recurrence if problem.mechanism in RECURRENCES else globals()[problem.mechanism]
    with np.errstate(all="ignore"):  # what overflows is judged
        problem.write(out, problem.answer(function(problem, settings)), kernel)
    return []


def pieces(tokens, size):
    """Slices of so many tokens, 0 being all; the last may be shorter."""
    return [slice(begin, min(begin + (size or tokens), tokens)) for begin in range(0, tokens, size or tokens)]


class ByToken:
    """Decays of a chunk, one a token: a table [N, C + 1, C + 1] of what is left after row tokens of what was there after column tokens."""

    def __init__(self, q, log_decay, factors, form):
        heads, tokens = q.shape[:2]
        lower, one = np.tri(tokens + 1, dtype=bool), np.eye(tokens + 1)
        if factors is None:
            self.table = q.tape.put(np.broadcast_to(lower, (heads, tokens + 1, tokens + 1)))
        elif form == "products":
            rows = [factors[:, :1] * 0 + one[0]]
            for t in range(tokens):
                rows.append(rows[-1] * factors[:, t : t + 1] + one[t + 1])
            self.table = stack(rows, 1)
        else:  # differences of running sums
            sums = log_decay.cumsum()
            sums = concatenate([sums[:, :1] * 0, sums], 1)
            self.table = (sums[:, :, None] - sums[:, None, :]).where(lower).exp().where(lower)

    def within(self, a, k, before):
        """a k^T of later rows and earlier or, not before, the same columns; before: with the decay before the row's own."""
        read = self.table[:, :-1, 1:] if before == "undecayed" else self.table[:, 1:, 1:]
        return ((a @ k.turned()) * read).where(np.tri(a.shape[1], k=-1 if before else 0, dtype=bool))

    def from_start(self, a, S, before=None):
        """a read from the state before the chunk."""
        return (a @ S) * (self.table[:, :-1, :1] if before == "undecayed" else self.table[:, 1:, :1])

    def scaled(self, a, before):
        return a * (self.table[:, :-1, :1] if before == "undecayed" else self.table[:, 1:, :1])

    def carried(self, S, k, u):
        """The state after the chunk."""
        return self.table[:, -1:, :1] * S + k.turned() @ (u * self.table[:, -1:, 1:].turned())


class ByChannel:
    """Decays of a chunk for every channel, by running sums [N, C, K]; scores in blocks of 16, anchored at each block's first row."""

    def __init__(self, log_decay):
        self.sums = log_decay.cumsum()

    def within(self, a, k, before):
        tokens, rows = a.shape[1], []
        for rows_of in pieces(tokens, 16):
            first, size = rows_of.start, rows_of.stop - rows_of.start
            here, lower = self.sums[:, rows_of], np.tri(size, k=-1 if before else 0, dtype=bool)[:, :, None]
            decays = (here[:, :, None] - here[:, None, :]).where(lower).exp()
            row = [(a[:, rows_of][:, :, None] * k[:, rows_of][:, None, :] * decays.where(lower)).sum(3)]
            if first:
                anchor, earlier = here[:, :1], slice(0, first)
                row.insert(0, (a[:, rows_of] * (here - anchor).exp()) @ (k[:, earlier] * (anchor - self.sums[:, earlier]).exp()).turned())
            rows.append(concatenate([*row, a[:, rows_of, :1] * np.zeros((1, 1, tokens - rows_of.stop))], 2))
        return concatenate(rows, 1)

    def scaled(self, a, before):
        return a * self.sums.exp()

    def from_start(self, a, S, before=None):
        return self.scaled(a, before) @ S

    def carried(self, S, k, u):
        last = self.sums[:, -1:]
        return last.exp().turned() * S + (k * (last - self.sums).exp()).turned() @ u


def written(decays, S, k, v, read, beta, before, form):
    """What the tokens of a chunk write under a delta rule: the errors of what they read, in the WY form or by substitution."""
    a = decays.within(read, k, before) * beta[:, :, None]
    if form == "substitution":
        return solve(a, (v - decays.from_start(read, S, before)) * beta[:, :, None], substituted)
    inverse = solve(a, a.tape.put(np.broadcast_to(np.eye(a.shape[1]), a.shape)), substituted)
    return inverse @ (v * beta[:, :, None]) - (inverse @ decays.scaled(read * beta[:, :, None], before)) @ S


def stepped(S, q, k, v, read, beta, factor, before):
    """One token: state and read-out, nothing of which is rounded to the operands' format."""
    decayed = S if factor is None else factor * S
    if beta is not None:
        v = (v - ((S if before == "undecayed" else decayed) * read[:, :, None]).sum(1)) * beta[:, None]
    S = decayed + k[:, :, None] * v[:, None, :]
    return S, (S * q[:, :, None]).sum(1)


def features(x):
    """Keys that are written: FALCON's are those of the token before, and the first token writes nothing."""
    k = x["k"]
    if x.mechanism.startswith("falcon") or x.mechanism == "rls":
        return concatenate([k[:, :1] * 0, k[:, :-1]], 1)
    return k


def gains(x, k):
    """FALCON's step and decay of every token; one without energy, ridge and eps does nothing."""
    whole = (k * k).sum(2) + x["lambda"] + float(x.params.get("eps", 0))
    nothing = whole.value == 0
    eta = x["beta"].where((np.arange(k.shape[1]) > 0) & ~nothing) / (whole + nothing)
    return eta, 1 - eta * x["lambda"]


def recurrence(x, settings):
    """Linear attention, its decays and the delta rules."""
    q, k, v, S, chunk = x["q"], features(x), x["v"], x["initial_state"], int(settings["chunk"])
    log_decay, factors, beta = None, None, x["beta"] if "beta" in x else None
    if x.mechanism.startswith("falcon"):
        beta, factors = gains(x, k)
    elif x.mechanism == "retnet":
        per_head = x["log_decay"] if "log_decay" in x else x.tape.put(np.full(len(q.value), math.log1p(-(0.5**5))))
        log_decay = per_head[:, None] + np.zeros(q.shape[1])
    elif "log_decay" in x:
        log_decay = x["log_decay"]
    factors = log_decay.exp() if log_decay is not None else factors
    if x.mechanism == "falcon2a":
        v, beta = v * beta[:, :, None], None
    read = x["p"] if x.mechanism == "comba" else k
    undecayed = x.mechanism == "comba" or x.mechanism.startswith("falcon") or x.params.get("error") == "undecayed"
    before, outputs = "undecayed" if undecayed else "decayed", []
    for at in pieces(q.shape[1], chunk):
        part = [y if y is None else y[:, at] for y in (q, k, v, read, beta, log_decay, factors)]
        if chunk == 1:
            q_, k_, v_, read_, beta_, _, factor = [y if y is None else y[:, 0] for y in part]
            factor = factor if factor is None else factor[:, :, None] if len(factor.shape) == 2 else factor[:, None, None]
            S, o = stepped(S, q_, k_, v_, read_, beta_, factor, before)
            outputs.append(o[:, None])
            continue
        q_, k_, v_, read_, beta_, log_, factors_ = part
        by_channel = log_ is not None and len(log_.shape) == 3
        decays = ByChannel(log_) if by_channel else ByToken(q_, log_, factors_, settings.get("decay"))
        u = v_ if beta_ is None else written(decays, S, k_, v_, read_, beta_, before, settings["form"])
        outputs.append(decays.from_start(q_, S) + decays.within(q_, k_, None) @ u)
        S = decays.carried(S, k_, u)
    o = concatenate(outputs, 1) * float(x.params.get("scale", 1))
    if x.params.get("normalization") == "count":
        o = o / np.arange(1, q.shape[1] + 1)[:, None]
    return {"o": o, "final_state": S}


def momentum_tables(alpha, mu, beta):
    """[N, C + 1, C + 1] each: how much of the momentum after column tokens is in the momentum and in the state after row tokens; and what
    is left of the state before the chunk, [N, C + 1, 1]."""
    one = np.eye(alpha.shape[1] + 1)
    in_momentum, in_state, left = [mu[:, :1] * 0 + one[0]], [mu[:, :1] * 0 * one[0]], [mu[:, :1] * 0 + 1]
    for t in range(alpha.shape[1]):
        here = slice(t, t + 1)
        in_momentum.append(in_momentum[-1] * mu[:, here] + one[t + 1])
        in_state.append(in_state[-1] * alpha[:, here] + in_momentum[-1] * beta[:, here])
        left.append(left[-1] * alpha[:, here])
    return stack(in_momentum, 1), stack(in_state, 1), stack(left, 1)


def mdn(x, settings):
    """The delta rule with momentum."""
    names, S, M, outputs = ("q", "k", "p", "v", "eta", "beta", "log_alpha", "log_mu"), x["initial_state"], x["initial_momentum"], []
    inputs = [x[name] for name in names]
    for at in pieces(inputs[0].shape[1], int(settings["chunk"])):
        q, k, p, v, eta, beta, alpha, mu = (y[:, at] for y in inputs)
        eta, alpha, mu, tokens = eta[:, :, None], alpha.exp(), mu.exp(), q.shape[1]
        if settings["chunk"] == "1":
            error = v[:, 0] - (S * p[:, 0][:, :, None]).sum(1)
            M = M * mu[:, :, None] - (k * eta)[:, 0][:, :, None] * error[:, None, :]
            S = S * alpha[:, :, None] - M * beta[:, :, None]
            outputs.append((S * q[:, 0][:, :, None]).sum(1)[:, None])
            continue
        m, c, left = momentum_tables(alpha, mu, beta)
        a = ((p @ k.turned()) * c[:, :-1, 1:] * eta).where(np.tri(tokens, k=-1, dtype=bool))
        error = v - (p @ S) * left[:, :-1] + (p @ M) * c[:, :-1, :1]
        w = solve(a, error * eta, substituted)
        outputs.append((q @ S) * left[:, 1:] - (q @ M) * c[:, 1:, :1] + ((q @ k.turned()) * c[:, 1:, 1:]) @ w)
        S, M = (
            left[:, -1:] * S - c[:, -1:, :1] * M + k.turned() @ (w * c[:, -1:, 1:].turned()),
            m[:, -1:, :1] * M - k.turned() @ (w * m[:, -1:, 1:].turned()),
        )
    return {"o": concatenate(outputs, 1) * float(x.params["scale"]), "final_state": S, "final_momentum": M}


def visible(x):
    """Whether query i sees key j, [Tq, Tk]."""
    queries, keys = x.leaves["q"].shape[1], x.leaves["k"].shape[1]
    last, key = np.arange(queries)[:, None] + keys - queries, np.arange(keys)
    seen = key <= last if x.params.get("causal", True) in (True, "true") else np.ones((queries, keys), bool)
    return seen & (key > last - int(x.params["window"])) if "window" in x.params else seen


def weights(x, seen):
    """Softmax of all scores at once, their maxima and sums [N, Tq, 1]; zeros where a row sees nothing."""
    scores = (x["q"] @ x["k"].turned()) / x["bandwidth"]
    largest = np.where(seen, scores.value, -np.inf).max(2, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    powers = (scores - largest).where(seen).exp().where(seen)
    total = powers.sum(2)[:, :, None]
    return powers / (total + ~seen.any(1)[:, None]), largest, total


def flash(q, k, v, h, seen, tile):
    """[N, Tq, V + 1], o and lse in tiles of keys with a running maximum; backward from lse and the sum of o times its gradient."""
    r, sees = q.tape.round, seen.any(1)[:, None]
    x, y, z = (r(p.value) for p in (q, k, v))
    largest, total, o = np.full((*q.shape[:2], 1), -np.inf, q.tape.dtype), 0, 0
    scores_of = lambda at: np.where(seen[:, at], x @ turned(y[:, at]) * (1 / h.value), -np.inf)
    for at in pieces(y.shape[1], tile):
        s = scores_of(at)
        new = np.maximum(largest, s.max(2, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0)
        kept, p = np.exp(largest - safe), np.exp(s - safe)
        total, o, largest = total * kept + p.sum(2, keepdims=True), o * kept + r(p) @ z[:, at], new
    o, lse = o / np.where(sees, total, 1), np.where(sees, np.log(np.where(sees, total, 1)) + largest, -np.inf)

    def back(g):
        of_o, of_lse = g[..., :-1], g[..., -1:]
        dq, dk, dv, dh = np.zeros_like(x), np.zeros_like(y), np.zeros_like(z), 0
        for at in pieces(y.shape[1], tile):
            s = np.where(seen[:, at], scores_of(at), 0)
            p = np.where(seen[:, at], np.exp(s - np.where(sees, lse, 0)), 0)
            ds = p * (r(of_o) @ turned(z[:, at]) - (of_o * o).sum(2, keepdims=True) + of_lse)
            dq += r(ds) @ y[:, at] / h.value
            dk[:, at], dv[:, at] = turned(r(ds)) @ x / h.value, turned(r(p)) @ r(of_o)
            dh -= (ds * s).sum() / h.value
        return dq, dk, dv, dh

    return q.tape.put(np.concatenate([o, lse], 2), (q, k, v, h), back)


def softmax_attention(x, settings):
    """Softmax attention, all scores at once or in tiles, with lse if the case asks for its gradient."""
    seen, asked = visible(x), "lse" in x.cotangents
    if int(settings["chunk"]):
        both = flash(x["q"], x["k"], x["v"], x["bandwidth"], seen, int(settings["chunk"]))
        return {"o": both[:, :, :-1]} | ({"lse": both[:, :, -1]} if asked else {})
    p, largest, total = weights(x, seen)
    nothing = ~seen.any(1)[:, None]
    lse = (total + nothing).log() + largest + np.where(nothing, -np.inf, 0)
    return {"o": p @ x["v"]} | ({"lse": lse[:, :, 0]} if asked else {})


def parallax(x, settings):
    """Softmax attention less its covariance with a probe: by centred weights, or by moments."""
    p, _, _ = weights(x, visible(x))
    t = x["rho"] @ x["k"].turned()
    mean = (p * t).sum(2)[:, :, None]
    if settings["form"] == "centred":
        return {"o": (p * (1 + mean - t)) @ x["v"]}
    return {"o": (p @ x["v"]) * (1 + mean) - (p * t) @ x["v"]}


def ridged(x, matrices):
    """Matrices with the ridge of their row on the diagonal."""
    ridge = x["lambda"]
    ridge = ridge if len(ridge.shape) == 3 else ridge[:, :, None] if len(ridge.shape) == 2 else ridge[:, None, None]
    return matrices + ridge[:, :, :, None] * np.eye(matrices.shape[-1])


def lla(x, settings):
    """Local linear attention: a weighted ridge regression for every query, on centred keys."""
    seen = visible(x)
    p, _, _ = weights(x, seen)
    mean = p @ x["k"]
    offset, centred = mean - x["q"], x["k"][:, None] - mean[:, :, None]
    gram = product((centred * p[:, :, :, None]).turned(), centred)
    y = solve(ridged(x, gram), offset[:, :, :, None], SOLVERS[settings["solver"]])
    return {"o": (p * (1 - product(centred, y)[:, :, :, 0])) @ x["v"]}


def mesanet(x, settings):
    """A ridge regression on the keys so far for every query, and linear attention by its solution."""
    q, k, v = x["q"], x["k"], x["v"]
    grams = (k[:, :, :, None] * k[:, :, None, :]).cumsum()
    y = solve(ridged(x, grams), q[:, :, :, None], SOLVERS[settings["solver"]])[:, :, :, 0]
    o = (y @ k.turned()).where(np.tri(q.shape[1], dtype=bool)) @ v
    return {"o": o, "final_state": v.turned() @ k, "final_gram": k.turned() @ k}


def rls(x, settings):
    """Recursive least squares, token by token."""
    q, k, v, S, ridge, eye = x["q"], features(x), x["v"], x["initial_state"], x["lambda"], np.eye(x["k"].shape[2])
    P, outputs = (1 / ridge)[:, None, None] * eye, []
    for t in range(q.shape[1]):
        key = k[:, t]
        p = (P * key[:, None, :]).sum(2)
        gain = p / (1 + (key * p).sum(1)[:, None])
        S = S + gain[:, :, None] * (v[:, t] - (S * key[:, :, None]).sum(1))[:, None, :]
        P = P - gain[:, :, None] * p[:, None, :]
        outputs.append((S * q[:, t][:, :, None]).sum(1))
    return {"o": stack(outputs, 1), "final_state": S, "final_covariance": P}


def kernels_of(mechanism, precision):
    """Names of the algorithms of a mechanism that work in that precision."""
    operands = {"bf16": ("bf16", "bf16", "tf32", "fp32"), "fp16": ("fp16", "fp16", "fp32")}.get(precision, (precision,))
    chunks = (16, 32, 64) if mechanism in DELTA + ("mdn",) else (16, 32, 64, 0)
    if mechanism == "softmax_attention":
        forms = [f"chunk={chunk}" for chunk in (16, 32, 64, 128, 0)]
    elif mechanism == "parallax":
        forms = ["form=centred", "form=moments"]
    elif mechanism in ("lla", "mesanet"):
        forms = [f"solver={solver}" for solver in SOLVERS]
    elif mechanism == "rls":
        forms = ["chunk=1"]
    else:
        ways = ["form=wy", "form=substitution"] if mechanism in DELTA else [""]
        by_token = mechanism in ("retnet", "mamba2", "gated_deltanet", "comba")
        decays = ["decay=differences", "decay=products"] if by_token else ["decay=products"] if "falcon" in mechanism else [""]
        forms = ["chunk=1"] + [f"chunk={chunk} {way} {decay}" for chunk in chunks for way in ways for decay in decays]
    return [" ".join(f"{form} operands={operand}".split()) for form in forms for operand in operands]


def options_of(random, mechanism):
    """Settings of a case, each off its default now and then."""
    if mechanism in ATTENTIONS:
        words = random.choice(([], [], ["--param", "causal=false"], ["--param", f"window={random.choice((1, 2, 5, 16, 33, 64))}"]))
        return words + (["--with", "lse"] if mechanism == "softmax_attention" and random.random() < 0.3 else [])
    settings = {
        "linear_attention": ["--param", "normalization=count"],
        "gated_deltanet": ["--param", "error=undecayed"],
        "retnet": ["--with", "log_decay"],
    }
    return settings.get(mechanism, []) if random.random() < 0.3 else []


def drawn(random, options):
    """One run: kernel, function, no bug, arguments of `assay case`."""
    mechanism = random.choice(options.mechanisms or MECHANISMS)
    solves = mechanism in ("lla", "mesanet", "rls")  # a system of equations for every token
    tokens = random.choice([t for t in TOKENS if t <= (48 if mechanism == "lla" else 66)] if solves else TOKENS)
    if random.random() < 0.05 and not solves:
        tokens = random.choice((191, 192, 193, 200, 257, 300))
    dims = [d for d in options.dims or (1, 2, 3, 5, 8, 16, 17, 32, 33, 40) if d <= (17 if solves or tokens > 130 else 64)]
    K = random.choice(dims)
    V, heads = random.choice((K, *dims)), random.choice(("1", "2", "2/1") if tokens > 66 or K > 20 else ("1", "2", "3", "2/1", "4/2", "6/2"))
    if mechanism in ATTENTIONS and random.random() < 0.5:
        tokens = f"{random.choice([t for t in TOKENS if t <= 130 and not (solves and t > 33)])}/{tokens}"
    shape = f"{1 if K > 20 else random.choice((1, 1, 2))},{tokens},{heads},{K},{V}"
    precision = random.choice(("bf16", "bf16", "bf16", "fp16", "fp16", "fp32", "fp32", "fp32", "tf32"))
    command = [mechanism, "--shape", shape, "--precision", precision, "--seed", str(random.randrange(1 << 31))]
    command += ["--style", random.choice(STYLES if options.styles == ["all"] else options.styles), *options_of(random, mechanism)]
    kernel = random.choice(kernels_of(mechanism, precision))
    return kernel, functools.partial(answered, kernel), None, command


if __name__ == "__main__":  # CASE ANSWER SETTING=..., as `assay check CASE --kernel "python3 algorithms.py {case} {out} chunk=16 ..."` runs it
    answered(" ".join(sys.argv[3:]), pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
