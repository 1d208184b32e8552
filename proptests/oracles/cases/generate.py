#!/usr/bin/env python3
"""Writes small.json: a few small cases with answers from the printed definitions in 250-digit decimal arithmetic.

Gradients are central differences, so that nothing here shares a formula with the references' backward passes.
"""
import copy
import json
import pathlib
import random
from decimal import Decimal, getcontext

DIGITS = 40
getcontext().prec = 250
# The error of a central difference is about STEP^2 plus the last digit over STEP: far below the digits printed.
STEP = Decimal(10) ** -80


def visible(i, queries, keys, params):
    position = i + keys - queries if params.get("causal", True) else keys - 1
    first = position + 1 - params["window"] if "window" in params else 0
    return [j for j in range(max(0, first), position + 1)]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b)), Decimal(0))


def attention(inputs, params):
    """softmax_attention, or parallax if there is a probe: o = E v - Cov(v, k) rho."""
    q, k, v, h = inputs["q"], inputs["k"], inputs["v"], inputs["bandwidth"]
    rows = []
    for i in range(len(q)):
        keys = visible(i, len(q), len(k), params)
        weights = {j: (dot(q[i], k[j]) / h).exp() for j in keys}
        total = sum(weights.values(), Decimal(0))
        mean = [sum((weights[j] * v[j][x] for j in keys), Decimal(0)) / total if keys else Decimal(0)
                for x in range(len(v[0]))]
        if "rho" in inputs and keys:
            t = {j: dot(inputs["rho"][i], k[j]) for j in keys}
            mean_t = sum(weights[j] * t[j] for j in keys) / total
            product = [sum(weights[j] * v[j][x] * t[j] for j in keys) / total for x in range(len(v[0]))]
            mean = [m - (p - m * mean_t) for m, p in zip(mean, product)]
        rows.append(mean)
    return {"o": rows}


def delta(inputs, params):
    """deltanet and gated_deltanet, with matrices A_t = alpha I - beta x x^T (or alpha (I - beta x x^T))."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    K, V = len(k[0]), len(v[0])
    scale = Decimal(params["scale"]) if "scale" in params else 1 / Decimal(K).sqrt()
    zero = [[Decimal(0)] * V for _ in range(K)]
    state = inputs.get("initial_state", zero)
    shifted = params.get("alignment", "same_step") == "next_latent"
    out = []
    for t in range(len(k)):
        x = k[t]
        alpha = inputs["log_decay"][t].exp() if "log_decay" in inputs else Decimal(1)
        beta = inputs["beta"][t]
        if shifted:
            x = k[t - 1] if t > 0 else inputs.get("k_carry", [Decimal(0)] * K)
        inner = alpha if params.get("error", "decayed") == "decayed" else Decimal(1)
        read = [dot(x, [state[i][j] for i in range(K)]) for j in range(V)]
        state = [[alpha * state[i][j] + beta * x[i] * (v[t][j] - inner * read[j]) for j in range(V)] for i in range(K)]
        out.append([scale * dot(q[t], [state[i][j] for i in range(K)]) for j in range(V)])
    return {"o": out, "final_state": state}


RULES = {"softmax_attention": attention, "parallax": attention, "deltanet": delta, "gated_deltanet": delta}


def numbers(value):
    return [numbers(x) for x in value] if isinstance(value, list) else Decimal(value)


def total(value):
    return sum((total(x) for x in value), Decimal(0)) if isinstance(value, list) else value


def times(a, b):
    return [times(x, y) for x, y in zip(a, b)] if isinstance(a, list) else a * b


def heads_of(case, inputs):
    """One problem per output head, and for each input the index of the head it reads (None: no head axis)."""
    params = case["params"]
    if "heads" not in case:
        return [(inputs, {name: None for name in inputs})]
    own, shared = case["heads"]
    result = []
    for head in range(own):
        block = {name: head if len(x) == own else head // (own // shared) for name, x in inputs.items()
                 if isinstance(x, list)}
        result.append(({name: x[block[name]] if name in block else x for name, x in inputs.items()},
                       {name: block.get(name) for name in inputs}))
    return result


def forward(case, inputs):
    rule = RULES[case["mechanism"]]
    outputs = [rule(problem, case["params"]) for problem, _ in heads_of(case, inputs)]
    if "heads" not in case:
        return outputs[0]
    return {name: [out[name] for out in outputs] for name in outputs[0]}


def loss(case, inputs):
    outputs, cotangents = forward(case, inputs), case["cotangents"]
    return sum((total(times(numbers(c), outputs[name])) for name, c in cotangents.items()), Decimal(0))


def gradient(case, inputs, name):
    def differentiate(path, value):
        if isinstance(value, list):
            return [differentiate([*path, i], x) for i, x in enumerate(value)]
        sides = []
        for sign in (1, -1):
            moved = copy.deepcopy(inputs)
            if path:
                place = moved[name]
                for i in path[:-1]:
                    place = place[i]
                place[path[-1]] = value + sign * STEP
            else:
                moved[name] = value + sign * STEP
            sides.append(loss(case, moved))
        return (sides[0] - sides[1]) / (2 * STEP)

    return differentiate([], inputs[name])


def digits(value):
    if isinstance(value, list):
        return [digits(x) for x in value]
    # The rest of an exact zero after a difference.
    return "0.0" if abs(value) < Decimal(10) ** -60 else f"{value:.{DIGITS - 1}e}"


def draw(rng, *shape):
    """Multiples of 1/64 of at most 8 bits: exact in bf16."""
    if not shape:
        return str(Decimal(rng.randint(-127, 127)) / 64)
    return [draw(rng, *shape[1:]) for _ in range(shape[0])]


def attention_case(rng, name, queries, keys, K, V, params, heads=None):
    own, shared = ([heads[0]], [heads[1]]) if heads else ([], [])
    inputs = {"q": draw(rng, *own, queries, K), "k": draw(rng, *shared, keys, K), "v": draw(rng, *shared, keys, V)}
    if name == "parallax":
        inputs["rho"] = draw(rng, *own, queries, K)
    return {"mechanism": name, "params": {"bandwidth": "1.5", **params}, "inputs": inputs,
            "cotangents": {"o": draw(rng, *own, queries, V)}, **({"heads": heads} if heads else {})}


def delta_case(rng, name, T, K, V, params, heads=None, drop=()):
    own, shared = ([heads[0]], [heads[1]]) if heads else ([], [])
    inputs = {"q": draw(rng, *shared, T, K), "k": draw(rng, *shared, T, K), "v": draw(rng, *own, T, V),
              "beta": draw(rng, *own, T), "initial_state": draw(rng, *own, K, V)}
    if name == "gated_deltanet":
        decays = [str(-abs(Decimal(x))) for x in draw(rng, T * (heads[0] if heads else 1))]
        inputs["log_decay"] = [decays[i * T:(i + 1) * T] for i in range(heads[0])] if heads else decays
    if params.get("alignment") == "next_latent" and not params["sequence_start"]:
        inputs["k_carry"] = draw(rng, *shared, K)
    for missing in drop:
        del inputs[missing]
    return {"mechanism": name, "params": params, "inputs": inputs,
            "cotangents": {"o": draw(rng, *own, T, V), "final_state": draw(rng, *own, K, V)},
            **({"heads": heads} if heads else {})}


def main():
    rng = random.Random(20)
    start = {"alignment": "next_latent", "sequence_start": True}
    cases = {
        "softmax": attention_case(rng, "softmax_attention", 4, 4, 2, 3, {}),
        "softmax-empty-rows": attention_case(rng, "softmax_attention", 4, 2, 2, 2, {}),
        "softmax-not-causal": attention_case(rng, "softmax_attention", 2, 3, 2, 1, {"causal": False}),
        "softmax-grouped": attention_case(rng, "softmax_attention", 2, 3, 2, 2, {"window": 2}, (4, 2)),
        "parallax": attention_case(rng, "parallax", 4, 4, 2, 3, {}),
        "parallax-window": attention_case(rng, "parallax", 3, 5, 3, 2, {"window": 2}),
        "parallax-grouped": attention_case(rng, "parallax", 3, 3, 2, 2, {}, (2, 1)),
        "deltanet": delta_case(rng, "deltanet", 4, 2, 3, {}),
        "deltanet-start": delta_case(rng, "deltanet", 3, 2, 2, {**start, "scale": "0.75"}),
        "deltanet-continuation": delta_case(rng, "deltanet", 3, 2, 2, {**start, "sequence_start": False}),
        "deltanet-grouped": delta_case(rng, "deltanet", 3, 2, 1, {"scale": "1"}, (4, 2)),
        "gated_deltanet": delta_case(rng, "gated_deltanet", 4, 2, 3, {}),
        "gated_deltanet-undecayed": delta_case(rng, "gated_deltanet", 3, 2, 2, {"error": "undecayed"}),
        "gated_deltanet-grouped": delta_case(rng, "gated_deltanet", 2, 2, 2, {"scale": "1"}, (2, 1)),
        "gated_deltanet-no-state": delta_case(rng, "gated_deltanet", 3, 3, 1, {}, drop=["initial_state"]),
    }
    records = []
    for name, case in cases.items():
        inputs = {key: numbers(value) for key, value in case["inputs"].items()}
        if "bandwidth" in case["params"]:
            inputs["bandwidth"] = Decimal(case["params"]["bandwidth"])
        outputs = forward(case, inputs)
        gradients = {key: gradient(case, inputs, key) for key in inputs}
        record = {"id": f"small/{name}", **{key: case[key] for key in ("mechanism", "params", "inputs", "cotangents")}}
        record["expect"] = {"status": "OK", "outputs": {key: digits(x) for key, x in outputs.items()},
                            "gradients": {key: digits(x) for key, x in gradients.items()}}
        records.append(json.dumps(record))
    path = pathlib.Path(__file__).with_name("small.json")
    path.write_text('{"format": "assay-cases", "version": 1, "cases": [\n' + ",\n".join(records) + "\n]}\n")


if __name__ == "__main__":
    main()
