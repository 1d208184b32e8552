#!/usr/bin/env python3
"""Compares the answers of `assay oracle` with what a case file expects.

An answer agrees if its status (and row, where one is expected) is the expected one and every expected number is within
the tolerance times the largest magnitude of its tensor. A tensor expected to be all zeros has to be all zeros.
"""
import argparse
import collections
import json
import sys
from fractions import Fraction

# Not finite, yet equal to themselves; NaN is expected nowhere.
INFINITE = {"inf": "inf", "+inf": "inf", "-inf": "-inf"}


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["cases"]


def number(x):
    """A decimal string or JSON integer, exactly."""
    return INFINITE[x] if x in INFINITE else Fraction(x)


def leaves(value, path=""):
    """Every entry of nested lists with its indices."""
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield from leaves(entry, f"{path}[{i}]")
    else:
        yield path, value


def compare_tensor(name, got, expected):
    """The worst error relative to the tensor's largest magnitude, as (error, place), or a complaint."""
    got, expected = dict(leaves(got)), dict(leaves(expected))
    missing = next((path for path in expected if path not in got), None)
    if missing is not None:
        return f"{name}{missing}: missing"
    extra = next((path for path, x in got.items() if path not in expected and x is not None and number(x) != 0), None)
    if extra is not None:
        return f"{name}{extra}: not expected"
    finite = [abs(number(x)) for x in expected.values() if x is not None and x not in INFINITE]
    largest = max(finite, default=Fraction(0))
    worst = (Fraction(0), "")
    for path, x in expected.items():
        y = got[path]
        if x is None or y is None or x in INFINITE or y in INFINITE:
            if (x if x is None else number(x)) != (y if y is None else number(y)):
                return f"{name}{path}: expected {x}, got {y}"
            continue
        error = abs(number(x) - number(y))
        if error and not largest:
            return f"{name}{path}: expected zero, got {y}"
        if error:
            worst = max(worst, (error / largest, name + path))
    return worst


def compare_case(got, expect):
    """The worst (error, place) of a case, or a complaint."""
    if got["status"] != expect["status"]:
        return f"expected {expect['status']}, got {got['status']}: {got.get('message', '')}"
    if "row" in expect and got.get("row") != expect["row"]:
        return f"expected row {expect['row']}, got {got.get('row')}"
    worst = (Fraction(0), "")
    for part in ("outputs", "gradients"):
        for name, tensor in expect.get(part, {}).items():
            if name not in got.get(part, {}):
                return f"{part}.{name}: missing"
            result = compare_tensor(f"{part}.{name}", got[part][name], tensor)
            if isinstance(result, str):
                return result
            worst = max(worst, result)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("answers", help="what `assay oracle` wrote")
    parser.add_argument("cases", help="the case file with expectations")
    parser.add_argument("--tolerance", type=Fraction, default=Fraction("1e-38"),
                        help="of a tensor's largest magnitude (default: 1e-38)")
    parser.add_argument("--mechanism", action="append", help="only cases of this one; may be repeated")
    options = parser.parse_args()

    expected = [c for c in load(options.cases)
                if "expect" in c and (not options.mechanism or c["mechanism"] in options.mechanism)]
    answers = collections.defaultdict(list)
    for answer in load(options.answers):
        answers[answer["id"]].append(answer)
    failures, worst = 0, (Fraction(0), "")
    for case in expected:
        found = answers[case["id"]]
        result = compare_case(found[0], case["expect"]) if len(found) == 1 else f"{len(found)} answers"
        bad = isinstance(result, str) or result[0] > options.tolerance
        failures += bad
        if isinstance(result, str):
            print(f"FAIL  {case['id']}: {result}")
            continue
        print(f"{'FAIL' if bad else 'ok  '}  {case['id']}: {float(result[0]):.1e} {result[1]}".rstrip())
        worst = max(worst, (result[0], case["id"]))
    print(f"{len(expected) - failures} of {len(expected)} agree; worst error {float(worst[0]):.1e} {worst[1]}".rstrip())
    # Nothing compared is nothing shown.
    return 1 if failures or not expected else 0


if __name__ == "__main__":
    sys.exit(main())
