"""Errors of kernels under pytest, kept from one commit to the next: docs/baseline.md says what counts as a change."""
import json
import math

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
    if exceeded(grown / math.sqrt(sum(squares)), freedom) >= rate:
        return ""
    return f"its error is {math.exp(grown):.3g} times what it was, {math.exp(means[1]):.3g} and not {math.exp(means[0]):.3g}"


def exceeded(t, freedom):
    """The probability of a larger t of Student's distribution."""
    tail = incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return tail if t > 0 else 1 - tail


def incomplete_beta(a, b, x):
    """I_x(a, b), by Lentz's continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    value, c, d = 1.0, 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10000):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d, c = 1 / (1 + numerator * d), 1 + numerator / c
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            return front * value
    return front * value
