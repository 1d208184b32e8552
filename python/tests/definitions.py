"""Definitions of mechanisms of the library that are no rooms, once more, by their papers' sums and loops in plain decimals: no scan, no stabiliser, no library."""
import decimal
import itertools

import numpy as np

D = decimal.Decimal
ZERO, ONE = D(0), D(1)


def each(f):
    return lambda x: np.frompyfunc(f, 1, 1)(np.asarray(x, dtype=object))


exp, log = each(lambda x: x.exp()), each(lambda x: x.ln())
sigmoid = each(lambda x: ONE / (ONE + (-x).exp()))
tanh = each(lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()))


def root(x):
    return D(x).sqrt()


def zeros(*shape):
    return np.full(shape, ZERO, dtype=object)


def dot(a, b):
    return sum((x * y for x, y in zip(a, b)), ZERO)


def softmax(scores):
    w = exp(np.array(scores, dtype=object))
    return w / sum(w)


def mixed(weights, rows):
    return sum((w * r for w, r in zip(weights, rows)), zeros(rows.shape[1]))


def rows(f, n):
    return {"o": np.array([f(i) for i in range(n)], dtype=object)}


def path_attention(q, k, v, w, beta, log_decay):
    T, K = q.shape

    def score(i, j):
        turns = identity(K)
        for s in range(j + 1, i + 1):
            turns = turns.dot(identity(K) - beta[s] * np.outer(w[s], w[s]))
        return (dot(k[j], turns.dot(q[i])) + sum(log_decay[j + 1 : i + 1], ZERO)) / root(K)

    return rows(lambda i: mixed(softmax([score(i, j) for j in range(i + 1)]), v), T)


def weighted(weight):
    """Linear attention of these weights, over their sum."""

    def f(q, k, v, **more):
        def row(i):
            w = [weight(i, j, dot(q[i], k[j]) / root(q.shape[1]), **more) for j in range(i + 1)]
            return mixed(w, v) / sum(w)

        return rows(row, len(q))

    return f


based = weighted(lambda i, j, s: 1 + s + s * s / 2)
power_attention = weighted(lambda i, j, s, log_decay: s * s * sum(log_decay[j + 1 : i + 1], ZERO).exp())


def stick_breaking_attention(q, k, v):
    o, rest = [], []
    for i in range(len(q)):
        b = sigmoid([dot(q[i], k[j]) / root(q.shape[1]) for j in range(i)])
        taken = [b[j] * np.prod([1 - x for x in b[j + 1 :]] or [ONE]) for j in range(i)]
        o.append(mixed(taken, v))
        rest.append(ONE - sum(taken, ZERO))
    return {"o": np.array(o), "rest": np.array(rest)}


def deltaformer(q, k, w, v, beta):
    u, scale = [], root(q.shape[1])
    for i in range(len(q)):
        seen = mixed(softmax([dot(w[i], k[j]) / scale for j in range(i)]), np.array(u)) if i else 0 * v[0]
        u.append(v[i] - beta[i] * seen)
    return rows(lambda i: mixed(softmax([dot(q[i], k[j]) / scale for j in range(i + 1)]), np.array(u)), len(q))


def hgrn(x, log_decay, initial_state):
    T = len(x)
    weight = lambda j, t: exp(sum(log_decay[j : t + 1], zeros(x.shape[1])))
    o = [weight(0, t) * initial_state + sum(weight(j + 1, t) * x[j] for j in range(t + 1)) for t in range(T)]
    return {"o": np.array(o), "final_state": o[-1]}


def preconditioned_kda(q, k, v, beta, log_decay, gain, log_forget, initial_state, initial_squares):
    S, A, states = initial_state, initial_squares, []
    for t in range(len(q)):
        A = log_forget[t].exp() * A + gain[t] * k[t] ** 2
        r = log(A + D("1e-6")) + D("0.2")
        key = k[t] * exp(-D("1.5").ln() * (r / (1 + abs(r))))
        decay = exp(log_decay[t])
        # (1 - beta k' k^T) diag(decay) S + beta k' v^T
        S = np.array([x * row for x, row in zip(decay, S)], dtype=object)
        S = S - beta[t] * np.outer(key, k[t]).dot(S) + beta[t] * np.outer(key, v[t])
        states.append(S)
    return read(states, q) | {"final_squares": A}


def wall_attention(q, k, v, log_decay, window):
    K = q.shape[1]
    score = lambda i, j: sum(q[i][c] * k[j][c] * sum(log_decay[j + 1 : i + 1, c], ZERO).exp() for c in range(K)) / root(K)
    first = lambda i: max(0, i + 1 - int(window))
    return rows(lambda i: mixed(softmax([score(i, j) for j in range(first(i), i + 1)]), v[first(i) :]), len(q))


def seen_by(q, i, keys, values, seen):
    """Softmax attention of query i over the keys that are seen; nothing seen: zeros."""
    at = [j for j in range(len(keys)) if seen(j)]
    return mixed(softmax([dot(q[i], keys[j]) / root(q.shape[1]) for j in at]), values[at]) if at else zeros(values.shape[1])


def native_sparse_attention(q, k, v, gates, chosen, block, window):
    n, window = int(block), int(window)
    means = [np.array([sum(x[b : b + n]) / n for b in range(0, len(x), n)], dtype=object) for x in (k, v)]

    def row(i):
        whole = seen_by(q, i, *means, lambda b: (b + 1) * n <= i + 1)
        picked = seen_by(q, i, k, v, lambda j: j <= i and chosen[i][j // n] > 0)
        return gates[i][0] * whole + gates[i][1] * picked + gates[i][2] * seen_by(q, i, k, v, lambda j: i - window < j <= i)

    return rows(row, len(q))


def block_attention(q, k, v, chosen, block):
    n = int(block)
    return rows(lambda i: seen_by(q, i, k, v, lambda j: j <= i and (chosen[i][j // n] > 0 or j // n == i // n)), len(q))


def differential_attention(q, k, v, lq, lk, gain):
    weight = dot(lq[0], lk[0]).exp() - dot(lq[1], lk[1]).exp() + D("0.8")

    def row(i):
        a, b = (softmax([dot(q[i][n], k[j][n]) / root(q.shape[2]) for j in range(i + 1)]) for n in (0, 1))
        x = mixed(a, v) - weight * mixed(b, v)
        return gain * x / root(dot(x, x) / len(x) + D("1e-5")) * D("0.2")

    return rows(row, len(q))


def simplicial_attention(q, k, v, k2, v2):
    def row(i):
        pairs = list(itertools.product(range(i + 1), repeat=2))
        p = softmax([sum(q[i] * k[j] * k2[l]) / root(q.shape[1]) for j, l in pairs])
        return sum(x * v[j] * v2[l] for x, (j, l) in zip(p, pairs))

    return rows(row, len(q))


def selective_attention(q, k, v, qs, ks):
    scale = root(q.shape[1])
    masked = lambda l, j: max(dot(qs[l], ks[j]) / scale, ZERO) if 0 < j < l else ZERO
    score = lambda i, j: dot(q[i], k[j]) / scale - sum((masked(l, j) for l in range(i)), ZERO)
    return rows(lambda i: mixed(softmax([score(i, j) for j in range(i + 1)]), v), len(q))


def mlstm(q, k, v, i, f):
    C, n, h, scale = zeros(q.shape[1], v.shape[1]), zeros(q.shape[1]), [], root(q.shape[1])
    for t in range(len(q)):
        keep, write = sigmoid(f[t]), i[t].exp()
        C, n = keep * C + write * np.outer(k[t], v[t]), keep * n + write * k[t]
        h.append(q[t].dot(C) / scale / max(abs(dot(n, q[t]) / scale), ONE))
    return {"h": np.array(h), "final_state": C, "final_normalizer": n}


def slstm(z, i, f, o, rz, ri, rf, ro):
    c = n = h = zeros(z.shape[1])
    found = []
    for t in range(len(z)):
        keep, write = sigmoid(f[t] + rf.dot(h)), exp(i[t] + ri.dot(h))
        c, n, gate = keep * c + write * tanh(z[t] + rz.dot(h)), keep * n + write, sigmoid(o[t] + ro.dot(h))
        h = gate * c / n
        found.append(h)
    return {"h": np.array(found)}


def turns(cosine, sine, log_decay):
    """The function that turns and decays [2, K, V] by the steps first .. last."""

    def turned(x, first, last):
        for s in range(first, last + 1):
            c, n, a = cosine[s][:, None], sine[s][:, None], log_decay[s].exp()
            x = np.array([a * (c * x[0] - n * x[1]), a * (n * x[0] + c * x[1])])
        return x

    return turned


def mamba3(q, k, v, log_decay, dt, part, cosine, sine, initial_state, initial_key, initial_value):
    """Every state as a sum over what was written, each turned and decayed by all steps since."""
    T, K, turned = len(q), q.shape[2], turns(cosine, sine, log_decay)
    write = lambda key, value: np.array([np.outer(key[n], value) for n in (0, 1)])

    def state(t):
        x = turned(initial_state + (1 - part[0]) * dt[0] * write(initial_key, initial_value), 0, t)
        for j in range(t + 1):
            late = (1 - part[j + 1]) * dt[j + 1] if j < t else 0
            x = x + (part[j] * dt[j] + late) * turned(write(k[j], v[j]), j + 1, t)
        return x

    states = [state(t) for t in range(T)]
    o = np.array([(q[t][0].dot(x[0]) + q[t][1].dot(x[1])) / root(K) for t, x in enumerate(states)])
    return {"o": o, "final_state": states[-1], "final_key": k[-1], "final_value": v[-1]}


def moneta(q, k, v, eta, alpha):
    A, W, o = zeros(v.shape[1], q.shape[1]), zeros(v.shape[1], q.shape[1]), []
    for t in range(len(q)):
        e = W.dot(k[t]) - v[t]
        A = alpha[t] * A - eta[t] * np.outer([3 * (1 if x > 0 else -1) * x**2 for x in e], k[t])
        W = A / (sum(x**4 for x in A.flat).sqrt().sqrt()) ** 2
        o.append(W.dot(q[t]))
    return {"o": np.array(o), "final_state": A}


def yaad(q, k, v, eta, alpha, delta, initial_state):
    S, o = initial_state, []
    for t in range(len(q)):
        e = k[t].dot(S) - v[t]
        e = e * min(ONE, delta[t] / root(dot(e, e)))
        S = alpha[t] * S - eta[t] * np.outer(k[t], e)
        o.append(q[t].dot(S))
    return {"o": np.array(o), "final_state": S}


def memora(q, k, v, eta, alpha, start):
    W, o = 2 * np.array([softmax(r) for r in start]), []
    for t in range(len(q)):
        change = exp(-eta[t] * np.outer(W.dot(k[t]) - v[t], k[t]))
        W = exp(alpha[t] * log(W)) * change
        W = 2 * W / W.sum(axis=1)[:, None]
        o.append(W.dot(q[t]))
    return {"o": np.array(o), "final_state": W}


def atlas(q, k, v, eta, theta, alpha, gamma):
    W = M = zeros(v.shape[1], q.shape[1])
    o = []
    for t in range(len(q)):
        M = theta[t] * M
        for n in range(min(3, t + 1)):
            M = M + gamma[t][n] * np.outer(W.dot(k[t - n]) - v[t - n], k[t - n])
        X = M / (root(sum(x * x for x in M.flat)) + D("1e-7"))
        for _ in range(2):
            X = D("3.4445") * X - D("4.775") * X.dot(X.T).dot(X) + D("2.0315") * X.dot(X.T).dot(X).dot(X.T).dot(X)
        W = alpha[t] * W - eta[t] * X
        o.append(W.dot(q[t]))
    return {"o": np.array(o), "final_state": W, "final_momentum": M}


def longhorn(q, k, v, beta, initial_state):
    S, o = initial_state, []
    for t in range(len(q)):
        d = beta[t] / (1 + beta[t] * dot(k[t], k[t]))
        S = np.array([(1 - d * x**2) * row + d * x * v[t] for x, row in zip(k[t], S)], dtype=object)
        o.append(q[t].dot(S))
    return {"o": np.array(o), "final_state": S}


def rwkv4(k, v, w, u):
    def row(t):
        past = [exp(k[j] - (t - 1 - j) * exp(w)) for j in range(t)] + [exp(u + k[t])]
        return sum(x * y for x, y in zip(past, v)) / sum(past)

    return rows(row, len(k))


def contextual_positions(q, k, v, e):
    def score(i, j):
        p = min(sum(sigmoid([dot(q[i], k[l]) for l in range(j, i + 1)])), D(len(e) - 1))
        low = min(int(p), len(e) - 2)
        at = (low + 1 - p) * e[low] + (p - low) * e[low + 1]
        return dot(q[i], k[j]) / root(q.shape[1]) + dot(q[i], at)

    return rows(lambda i: mixed(softmax([score(i, j) for j in range(i + 1)]), v), len(q))


def ttt_mlp(q, k, v, eta, first, second):
    c, a = D("0.79788456"), D("0.044715")
    gelu = lambda x: x * (1 + tanh(c * (x + a * x**3))) / 2

    def slope(x):
        u = tanh(c * (x + a * x**3))
        return (1 + u) / 2 + x / 2 * (1 - u**2) * c * (1 + 3 * a * x**2)

    A, B, o = first, second, []
    for t in range(len(q)):
        z = k[t].dot(A)
        e = k[t] + gelu(z).dot(B) - v[t]
        A, B = A - eta[t] * np.outer(k[t], B.dot(e) * slope(z)), B - eta[t] * np.outer(gelu(z), e)
        o.append(q[t] + gelu(q[t].dot(A)).dot(B))
    return {"o": np.array(o), "final_first": A, "final_second": B}


def carried(steps, x, first):
    """x through the steps first, first + 1, ... of these matrices."""
    for step in steps[first:]:
        x = step.dot(x)
    return x


def identity(n):
    return np.array([[D(int(a == b)) for b in range(n)] for a in range(n)], dtype=object)


def linear_states(steps, writes, initial):
    """The states of S_t = steps_t S_{t-1} + writes_t, each as the sum of what was written, carried through all steps since."""
    past = lambda t: (carried(steps[: t + 1], writes[j], j + 1) for j in range(t + 1))
    return [sum(past(t), carried(steps[: t + 1], initial, 0)) for t in range(len(writes))]


def read(states, q, final=lambda S: S):
    o = [q[t].dot(S) / root(q.shape[1]) for t, S in enumerate(states)]
    return {"o": np.array(o, dtype=object), "final_state": final(states[-1])}


def generalized_delta_rule(q, k, v, a, b, log_decay, initial_state):
    steps = [np.diag(exp(g)) + np.outer(y, x) for g, x, y in zip(log_decay, a, b)]
    return read(linear_states(steps, [np.outer(x, y) for x, y in zip(k, v)], initial_state), q)


def gated_oja_rule(q, k, v, beta, log_decay, initial_state):
    steps = [(identity(len(x)) - b * np.outer(x, x)).dot(np.diag(exp(g))) for x, b, g in zip(v, beta, log_decay)]
    states = linear_states(steps, [b * np.outer(x, y) for x, y, b in zip(v, k, beta)], initial_state.T)
    return read([S.T for S in states], q)


def efla(q, k, v, beta, initial_state):
    """The solution of dS/dt = -A S + k v^T, A = k k^T, at time beta: the exponential's series, and its integral's."""

    def solution(k, v, b):
        A, flow, integral = np.outer(k, k), 0 * identity(len(k)), 0 * identity(len(k))
        term = identity(len(k))  # (-beta A)^n / n!
        for n in range(80):
            flow, integral = flow + term, integral + term * (b / (n + 1))
            term = term.dot(A) * (-b / (n + 1))
        return flow, integral.dot(np.outer(k, v))

    steps, writes = zip(*map(solution, k, v, beta))
    return read(linear_states(list(steps), list(writes), initial_state), q)


def causal_weights(q, k):
    return np.array([[dot(x, y) if j <= i else ZERO for j, y in enumerate(k)] for i, x in enumerate(q)], dtype=object)


def twice(second, normalized):
    """Causal weights W taken twice, W times `second` of them, without what lies ahead."""

    def f(q, k, v):
        W = causal_weights(q, k)
        W = W.dot(second(W))
        W = np.array([[x if j <= i else ZERO for j, x in enumerate(row)] for i, row in enumerate(W)], dtype=object)
        return {"o": W.dot(v) / (W.sum(axis=1)[:, None] if normalized else ONE)}

    return f


def bounded_memory_attention(q, k, v, control, initial_keys, initial_values, initial_normalizer):
    w = exp(control)
    slots = range(w.shape[1])
    sums = lambda start, x, t: [start[m] + sum(w[j][m] * x[j] for j in range(t + 1)) for m in slots]

    def row(t):
        z = sums(initial_normalizer, np.full(len(k), ONE), t)
        keys, values = ([x / z[m] for m, x in enumerate(sums(start, rows, t))] for start, rows in ((initial_keys, k), (initial_values, v)))
        return mixed(softmax([dot(q[t], x) / root(q.shape[1]) for x in keys]), np.array(values, dtype=object))

    last = len(q) - 1
    ends = {"final_keys": (initial_keys, k), "final_values": (initial_values, v), "final_normalizer": (initial_normalizer, np.full(len(k), ONE))}
    return rows(row, len(q)) | {name: np.array(sums(start, x, last), dtype=object) for name, (start, x) in ends.items()}


def lightnet(q, k, v, initial_state, initial_normalizer):
    w, K = exp(k), q.shape[1]
    total = lambda c, t: initial_normalizer[c] + sum(w[: t + 1, c])
    written = lambda c, t: initial_state[c] + sum(w[j][c] * v[j] for j in range(t + 1))
    o = rows(lambda t: sum(q[t][c] * written(c, t) / total(c, t) for c in range(K)) / root(K), len(q))
    last = len(q) - 1
    ends = (np.array([f(c, last) for c in range(K)], dtype=object) for f in (written, total))
    return o | dict(zip(("final_state", "final_normalizer"), ends))


def rodimus(q, k, v, beta, select, temper, initial_state):
    g, tau = log(1 + exp(select)), sigmoid(temper)
    power = np.frompyfunc(lambda x, y: x**y, 2, 1)
    writes = [np.outer(x * key, b * y) for x, key, b, y in zip(power(g, tau), k, beta, v)]
    return read(linear_states([np.diag(x) for x in exp(-g * tau)], writes, initial_state), q)


def mom(q, k, v, shared_k, shared_v, router, chosen, initial_state, initial_shared):
    memories, scale = range(router.shape[1]), root(q.shape[1])
    tokens = lambda m, t: [j for j in range(t + 1) if chosen[j][m] > 0]
    attended = lambda x, keys, values, at: sum((dot(x, keys[j]) * values[j] for j in at), zeros(v.shape[2]))

    def row(t):
        weight = [exp(router[t])[m] if chosen[t][m] > 0 else ZERO for m in memories]
        found = q[t].dot(initial_shared) + attended(q[t], shared_k, shared_v, range(t + 1))
        for m in memories:
            if weight[m]:
                found = found + weight[m] / sum(weight) * (q[t].dot(initial_state[m]) + attended(q[t], k[:, m], v[:, m], tokens(m, t)))
        return found / scale

    last = len(q) - 1
    states = [initial_state[m] + sum(np.outer(k[j][m], v[j][m]) for j in tokens(m, last)) for m in memories]
    shared = initial_shared + sum(np.outer(x, y) for x, y in zip(shared_k, shared_v))
    return rows(row, len(q)) | {"final_state": np.array(states, dtype=object), "final_shared": shared}


def preconditioned_gated_deltanet(q, k, v, beta, log_decay, **more):
    """Preconditioned KDA whose channels decay alike."""
    return preconditioned_kda(q, k, v, beta, np.repeat(log_decay[:, None], k.shape[1], axis=1), **more)


def q_delta(q, k, v, beta, feedback, log_decay, initial_state):
    """As the paper writes it, [V K]: S_t = alpha S_{t-1} (1 - beta (k k^T + lambda q k^T)) + beta v k^T."""
    S, states = initial_state.T, []
    for t in range(len(q)):
        erased = np.outer(k[t], k[t]) + feedback[t] * np.outer(q[t], k[t])
        S = log_decay[t].exp() * S.dot(identity(len(k[t])) - beta[t] * erased) + beta[t] * np.outer(v[t], k[t])
        states.append(S.T)
    return read(states, q)


def kla(q, k, v, precision, log_decay, noise, initial_state, initial_precision):
    """Kalman's filter as textbooks have it: means and variances, a prediction and a correction by the gain."""
    variance, mean, o = 1 / initial_precision, initial_state / initial_precision, []
    decay = exp(log_decay)
    for t in range(len(q)):
        key = k[t][:, None]
        mean, variance = decay * mean, decay * decay * variance + noise
        gain = variance * key / (key * key * variance + 1 / precision[t])
        mean, variance = mean + gain * (v[t] - key * mean), (1 - gain * key) * variance
        o.append(q[t].dot(mean))
    return {"o": np.array(o), "final_state": mean / variance, "final_precision": 1 / variance}


def deepseek_sparse_attention(q, k, v, index_q, index_k, index_weight, chosen):
    late = len(k) - len(q)
    score = lambda t, s: sum((w * max(dot(x, index_k[s]), ZERO) for w, x in zip(index_weight[t], index_q[t])), ZERO)
    index = [[score(t, s) if s <= t + late else ZERO for s in range(len(k))] for t in range(len(q))]
    o = rows(lambda t: seen_by(q, t, k, v, lambda s: s <= t + late and chosen[t][s] > 0), len(q))
    return o | {"index": np.array(index, dtype=object)}


def minimax_sparse_attention(q, k, v, index_q, index_k, chosen, block):
    n = int(block)
    score = lambda t, s: dot(index_q[t], index_k[s]) / root(q.shape[1])
    highest = lambda t, b: max((score(t, s) for s in range(b * n, min(b * n + n, t + 1))), default=ZERO)
    index = [[highest(t, b) for b in range(chosen.shape[1])] for t in range(len(q))]
    return block_attention(q, k, v, chosen, block) | {"index": np.array(index, dtype=object)}


def qwen_sparse_attention(q, k, v, index_q, index_k, chosen, block):
    n = int(block)
    mean = lambda b: sum(index_k[b * n : b * n + n]) / n
    score = lambda t, b: sum((max(dot(x, mean(b)), ZERO) for x in index_q[t]), ZERO) / root(q.shape[1])
    index = [[score(t, b) if b * n + n <= t + 1 else ZERO for b in range(chosen.shape[1])] for t in range(len(q))]
    tail = lambda t: (t + 1) // n * n
    o = rows(lambda t: seen_by(q, t, k, v, lambda s: s <= t and (s >= tail(t) or chosen[t][s // n] > 0)), len(q))
    return o | {"index": np.array(index, dtype=object)}


def raven(q, k, v, log_decay, router, chosen, initial_keys, initial_values):
    A, B, o = [*initial_keys], [*initial_values], []
    for t in range(len(q)):
        slots = [m for m in range(len(A)) if chosen[t][m] > 0]
        g = sigmoid(router[t])
        for m in slots:
            keep = (log_decay[t] * g[m] / sum(g[slots])).exp()
            A[m], B[m] = keep * A[m] + (1 - keep) * k[t], keep * B[m] + (1 - keep) * v[t]
        o.append(mixed(softmax([dot(q[t], x) for x in A]), np.array(B, dtype=object)))
    return {"o": np.array(o), "final_keys": np.array(A, dtype=object), "final_values": np.array(B, dtype=object)}


def attention_residuals(x, w, gain):
    def norm(x):
        return gain * x / root(dot(x, x) / len(x) + D("1e-6"))

    return rows(lambda t: mixed(softmax([dot(w, norm(y)) for y in x[t]]), x[t]), len(x))


def compressed(q, kv, chosen, sink, window, members, block):
    """Attention over kv in the window and over means of what blocks have: of every token its value and its weight's logarithm."""

    def entry(n):
        values, logs = zip(*members(n))
        return (exp(np.array(logs)) * np.array(values)).sum(axis=0) / exp(np.array(logs)).sum(axis=0)

    def row(i):
        read = [*kv[max(0, i - int(window) + 1) : i + 1], *(entry(n) for n in range((i + 1) // block) if chosen[i][n] > 0)]
        weights = [(dot(q[i], x) / root(len(x))).exp() for x in read]
        return mixed(weights, np.array(read, dtype=object)) / (sum(weights) + D(sink.item()).exp())

    return rows(row, len(q))


def compressed_sparse_attention(q, kv, a, b, a_weight, b_weight, a_bias, b_bias, chosen, sink, window):
    def members(n):
        before = zip(b[n - 1], b_weight[n - 1] + b_bias) if n > 0 else ()
        return [*zip(a[n], a_weight[n] + a_bias), *before]

    return compressed(q, kv, chosen, sink, window, members, a.shape[1])


def heavily_compressed_attention(q, kv, a, a_weight, a_bias, chosen, sink, window):
    return compressed(q, kv, chosen, sink, window, lambda n: zip(a[n], a_weight[n] + a_bias), a.shape[1])


def cyclic_attention(q, k, v, beta, log_decay, cosine, sine, even, odd, initial_keys, initial_values):
    """Both memories as sums over what was written, each write aged by all steps since."""
    slots, frequencies = even.shape
    newest = np.array([root(D(min(n, 1) + 1) / slots) for n in range(frequencies)], dtype=object)
    aged = turns(cosine, sine, log_decay)

    def memory(initial, x, t):
        write = lambda j: np.array([np.outer(beta[j] * newest, x[j]), zeros(frequencies, x.shape[1])])
        return aged(initial, 0, t) + sum(aged(write(j), j + 1, t) for j in range(t + 1))

    def row(t):
        keys, values = (even.dot(x[0]) + odd.dot(x[1]) for x in (memory(initial_keys, k, t), memory(initial_values, v, t)))
        return mixed(softmax([dot(q[t], x) / root(q.shape[1]) for x in keys]), values)

    last = len(q) - 1
    return rows(row, len(q)) | {"final_keys": memory(initial_keys, k, last), "final_values": memory(initial_values, v, last)}


LINEAR, PAIRS = (("normalization", "linear"),), (("block", 2),)

# By name, or by name and settings.
DEFINED = {
    f.__name__: f
    for f in (
        path_attention, stick_breaking_attention, deltaformer, hgrn, preconditioned_kda, wall_attention, differential_attention,
        simplicial_attention, selective_attention, mlstm, slstm, mamba3, moneta, yaad, memora, atlas, longhorn, rwkv4,
        contextual_positions, ttt_mlp, native_sparse_attention, block_attention, generalized_delta_rule, gated_oja_rule, efla,
        bounded_memory_attention, lightnet, rodimus, mom, preconditioned_gated_deltanet, q_delta, kla, deepseek_sparse_attention,
        raven, attention_residuals, cyclic_attention, minimax_sparse_attention, qwen_sparse_attention,
    )
} | {
    "based": based, "power_attention": power_attention,
    "hla": twice(lambda W: W.T, False), ("hla", LINEAR): twice(lambda W: W.T, True),
    "ahla": twice(lambda W: W, False), ("ahla", LINEAR): twice(lambda W: W, True),
    ("compressed_sparse_attention", PAIRS): compressed_sparse_attention,
    ("heavily_compressed_attention", PAIRS): heavily_compressed_attention,
}  # fmt: skip
