"""Errors of kernels under pytest, kept from one commit to the next: docs/baseline.md says what counts as a change."""
import json
import math

from . import _native
from ._native import InputError

# Probability that two runs of one kernel look as if the second were worse, in any tensor.
RATE = 1e-3
FEWEST = 3


def place_of(nodeid, seed):
    """The test without its seed: what differs from seed to seed is one error."""
    return nodeid.replace(f"-seed={seed}", "").replace(f"[seed={seed}]", "")


def record(rows, nodeid, seed, report):
    """Adds a report's errors to {place: {tensor: {seed: [relative error, verdict]}}}."""
    tensors = rows.setdefault(place_of(nodeid, seed), {})
    for row in report.rows:
        error = row["relative_error"]
        tensors.setdefault(row["tensor"], {})[str(seed)] = [error if error is not None and math.isfinite(error) else None, row["verdict"]]


def merge(rows, more):
    for place, tensors in more.items():
        for tensor, seeds in tensors.items():
            rows.setdefault(place, {}).setdefault(tensor, {}).update(seeds)


def save(path, rows):
    try:
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"format": "assay-test-baseline", "version": 1, "rows": rows}, out, indent=1, sort_keys=True)
            out.write("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if found.get("format") != "assay-test-baseline" or found.get("version") != 1:
            raise ValueError("format")
        rows = found["rows"]
        for tensors in rows.values():
            for seeds in tensors.values():
                for error, verdict in seeds.values():
                    if not isinstance(verdict, str) or not (error is None or isinstance(error, (int, float)) and error >= 0):
                        raise ValueError("rows")
        return rows
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; --assay-update-baseline writes it") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: is no baseline that --assay-update-baseline has written") from None


def compare(before, after):
    """The changes for the worse, in sentences."""
    pairs = [(place, tensor) for place, tensors in after.items() for tensor in tensors if tensor in before.get(place, {})]
    worse = []
    for place, tensor in pairs:
        why = worsened(before[place][tensor], after[place][tensor], RATE / len(pairs))
        if why:
            worse.append(f"{place}: {tensor}: {why}")
    for place, tensors in before.items():
        worse += [f"{place}: {tensor}: no longer answered" for tensor in tensors if place in after and tensor not in after[place]]
    return worse


def worsened(was, now, rate):
    if "FAIL" in {verdict for _, verdict in now.values()} - {verdict for _, verdict in was.values()}:
        return "was never FAIL, and is"
    a, b = ([error for error, _ in x.values()] for x in (was, now))
    if None in b:
        return "" if None in a else "its error is not finite"
    if None in a or a == b or not any(b):
        return ""
    if not any(a):
        return "was exact"
    if min(len(a), len(b)) < FEWEST:
        return ""
    smallest = min(x for x in a + b if x > 0)
    logs = [[math.log(max(x, smallest)) for x in errors] for errors in (a, b)]
    means = [sum(x) / len(x) for x in logs]
    squares = [sum((x - mean) ** 2 for x in list_) / (len(list_) - 1) / len(list_) for list_, mean in zip(logs, means)]
    if sum(squares) == 0:
        return f"{math.exp(means[1] - means[0]):.3g} times what it was" if means[1] > means[0] else ""
    freedom = sum(squares) ** 2 / sum(x**2 / (len(list_) - 1) for x, list_ in zip(squares, logs))
    grown = means[1] - means[0]
    if _native.student_tail(grown / math.sqrt(sum(squares)), freedom) >= rate:
        return ""
    return f"its error is {math.exp(grown):.3g} times what it was, {math.exp(means[1]):.3g} and not {math.exp(means[0]):.3g}"
