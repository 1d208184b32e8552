"""Stages of chunk algorithms judged alone: a kernel in numpy, its products of bf16 as flash-linear-attention has them, and mistakes in it."""
import inspect
import json
import pathlib

import assay
import ml_dtypes
import numpy as np
import pytest

STAGES = pathlib.Path(__file__).parents[3] / "mechanisms" / "stages"
SHAPE = (1, 150, 1, 32, 16)  # two chunks of 64 tokens and a part of one


def b(x):
    """An operand of a product, or a result that is stored."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def wide(x):
    return np.asarray(x, np.float32)


def sums(g, gate):
    """c, c_last - c and c_last of every chunk, over channels that all share where a head has one decay."""
    c = np.cumsum(wide(g), 3)
    c = c if gate else c[..., None]
    return c, c[:, :, :, -1:] - c, c[:, :, :, -1, :, None]


def t(x):
    return np.swapaxes(x, -1, -2)


def chunk_products(k, beta, log_decay, gate=""):
    k, c = wide(k), sums(log_decay, gate)[0]
    later, earlier = c[:, :, :, :, None], c[:, :, :, None]
    products = (k[:, :, :, :, None] * k[:, :, :, None] * np.exp(np.minimum(later - earlier, 0))).sum(-1)
    return np.tril(wide(beta)[..., None] * products, -1)


def chunk_inverse(A):
    C = A.shape[-1]
    X = np.zeros(A.shape, np.float32)
    for r in range(C):
        X[..., r, :] = (np.arange(C) == r) - (A[..., r : r + 1, :r] @ X[..., :r, :])[..., 0, :]
    return X


def chunk_wy(k, v, beta, log_decay, inverse, gate=""):
    up, strength = np.exp(sums(log_decay, gate)[0]), wide(beta)[..., None]
    X = np.tril(wide(inverse))
    return b(X @ b(strength * up * wide(k))), b(X @ b(strength * wide(v)))


def chunk_states(k, w, u, log_decay, initial_state, gate=""):
    _, to_end, last = sums(log_decay, gate)
    k, w, u, S = wide(k), wide(w), wide(u), wide(initial_state)
    h, written = [], []
    for n in range(k.shape[1]):
        h.append(b(S))
        new = u[:, n] - w[:, n] @ b(S)
        written.append(b(new))
        S = np.exp(last[:, n]) * S + t(b(np.exp(to_end[:, n]) * k[:, n])) @ b(new)
    return np.stack(h, 1), np.stack(written, 1), S


def chunk_states_backward(q, k, w, do, dv, log_decay, dht, scale, gate=""):
    c, to_end, last = sums(log_decay, gate)
    q, k, w, do, dv, D = wide(q), wide(k), wide(w), wide(do), wide(dv), wide(dht)
    dh, du = [], []
    for n in reversed(range(k.shape[1])):
        dh.append(b(D))
        new = dv[:, n] + b(np.exp(to_end[:, n]) * k[:, n]) @ b(D)
        du.append(b(new))
        D = np.exp(last[:, n]) * D + np.float32(scale) * (t(b(np.exp(c[:, n]) * q[:, n])) @ do[:, n]) - t(w[:, n]) @ b(new)
    return np.stack(dh[::-1], 1), np.stack(du[::-1], 1), D


def state_map(k, w, u, log_decay, gate=""):
    _, to_end, last = sums(log_decay, gate)
    k, w, u = wide(k), wide(w), wide(u)
    K = k.shape[-1]
    M = np.broadcast_to(np.eye(K, dtype=np.float32), (*k[:, 0].shape[:2], K, K))
    bias = np.zeros((*k[:, 0].shape[:2], K, u.shape[-1]), np.float32)
    for n in range(k.shape[1]):
        keys, keep = t(b(np.exp(to_end[:, n]) * k[:, n])), np.exp(last[:, n])
        bias = keep * bias + keys @ b(u[:, n] - w[:, n] @ b(bias))
        M = keep * M - keys @ b(w[:, n] @ b(M))
    return bias, M


def local_solve(q, k, lam, bandwidth):
    q, k, y = wide(q), wide(k), np.zeros(q.shape, np.float32)
    for n, i, h in np.ndindex(q.shape[:3]):
        at, keys = q[n, i, h], k[n, : i + 1, h]
        s = keys @ at / np.float32(bandwidth)
        weights = np.exp(s - s.max())
        p = weights / weights.sum()
        mean = p @ keys
        C = (p[:, None] * (keys - mean)).T @ (keys - mean) + wide(lam)[n, i, h] * np.eye(len(at), dtype=np.float32)
        y[n, i, h] = np.linalg.solve(C, mean - at)
    return y


# Replacements in every stage: the old text, the new one, and which mistake that is.
MISTAKES = json.loads(pathlib.Path(__file__).with_name("stages.json").read_text())
# Stages whose decay may be one for every channel, and what they return.
OUTPUTS = {
    chunk_products: ("A",),
    chunk_wy: ("w", "u"),
    chunk_states: ("h", "written", "final_state"),
    chunk_states_backward: ("dh", "du", "dh0"),
    state_map: ("bias", "transition"),
}


def broken(kernel, old, new):
    """The kernel with one piece of its source replaced."""
    source = inspect.getsource(kernel)
    assert source.count(old) == 1, (kernel.__name__, old)
    names = dict(globals())
    exec(source.replace(old, new), names)  # noqa: S102
    return names[kernel.__name__]


def case_of(kernel, gate="", precision="bf16"):
    name = kernel.__name__
    program = STAGES / (f"json/{name}-gate-{gate}.json" if gate else f"{name}.py")
    return assay.case(str(program), (1, 40, 1, 16) if kernel is local_solve else SHAPE, precision, cotangents=False)


def judged(kernel, case, gate=""):
    """The verdict on a stage. A program in JSON names its outputs in no order, and tells no scale."""
    takes = inspect.signature(kernel).parameters
    told = {"gate": gate, "scale": SHAPE[3] ** -0.5} if gate else {}

    def call(**x):
        x = {"lam" if name == "lambda" else name: value for name, value in {**told, **x}.items()}
        with np.errstate(over="ignore", invalid="ignore"):
            return kernel(**{name: value for name, value in x.items() if name in takes})

    return assay.check(case, call, arrays="numpy", raises=False, quick=not gate, **({"outputs": OUTPUTS[kernel]} if gate else {}))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_stage_is_right_and_its_mistakes_are_found(name):
    kernel = globals()[name]
    case = case_of(kernel)
    assert judged(kernel, case), judged(kernel, case)
    for old, new, mistake in MISTAKES[name]:
        run = judged(broken(kernel, old, new), case)
        assert run.verdict == "FAIL", (mistake, str(run))


@pytest.mark.parametrize("kernel", OUTPUTS, ids=lambda f: f.__name__)
def test_with_a_decay_for_every_channel(kernel):
    case = case_of(kernel, "K")
    run = judged(kernel, case, "K")
    assert run, run


def test_tensors_of_a_run_in_chunks():
    """Keys, values and gates as flash-linear-attention has them, [B, T, H, ...], and what a kernel made of them."""
    rng, bf16 = np.random.default_rng(0), ml_dtypes.bfloat16
    B, T, H, C = 2, 128, 2, 64
    in_chunks = lambda x: x.reshape(B, T // C, C, H, *x.shape[3:]).swapaxes(2, 3)
    k, v = (in_chunks(rng.standard_normal((B, T, H, n)) / np.sqrt(n)).astype(bf16) for n in (32, 16))
    beta, log_decay = (in_chunks(x).astype(np.float32) for x in (rng.uniform(0, 1, (B, T, H)), -rng.uniform(0, 0.1, (B, T, H))))
    inverse = chunk_inverse(chunk_products(k, beta, log_decay)).astype(bf16)
    given = {"k": k, "v": v, "beta": beta, "log_decay": log_decay, "inverse": inverse}
    w, u = (x.astype(bf16) for x in chunk_wy(**given))
    assert assay.assert_close(str(STAGES / "chunk_wy.py"), given, {"w": w, "u": u})
    with pytest.raises(assay.Mismatch, match="w is wrong"):
        assay.assert_close(str(STAGES / "chunk_wy.py"), given, {"w": w[:, :, ::-1], "u": u})
