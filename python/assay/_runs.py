"""Many checks: here, on any executor, or a share of them."""
import functools
import json
import os
import re
import tempfile

from ._cases import Case, case, said
from ._checks import check
from ._native import InputError


def run(cases, kernel, contract=None, *, executor=None, shard=None, **how):
    """Checks a kernel on many cases; the pages of their reports (docs/check.md, JSON), in the order of the cases.

    Each case is a tuple or dict of what assay.case takes, made where it is judged, or a Case. executor is any
    concurrent.futures.Executor, that of Dask or mpi4py too, or assay.executors.ray(): the kernel and the cases must be picklable then.
    shard="2/8" takes every eighth case, from the second on; assay.merge puts the shards' results together again. The results do not depend
    on either. A page has "case" and "passed", "error" in place of rows where nothing could be judged, and of a share "shard".
    """
    cases = list(cases)
    first, every = share_of(shard)
    work = functools.partial(page_of, kernel=kernel, contract=contract, how=how)
    chosen = cases[first::every]
    pages = [work(one) for one in chosen] if executor is None else [call.result() for call in [executor.submit(work, one) for one in chosen]]
    if every > 1:
        for page in pages:
            page["shard"] = f"{first + 1}/{every}"
    return pages


def share_of(shard):
    """(1, 8) of "2/8": the place of the first case, and how many there are of which each has one."""
    if shard is None:
        return 0, 1
    found = re.fullmatch(r"(\d+)/(\d+)", str(shard))
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f'shard: expected "2/8", the second of eight shares, got {shard}')
    return int(found[1]) - 1, int(found[2])


def page_of(one, *, kernel, contract, how):
    problem = one
    try:
        if isinstance(one, dict):
            problem = case(**one)
        elif not isinstance(one, Case):
            problem = case(*one)
        report = check(problem, kernel, contract, **how, raises=False)
    except InputError as error:
        origin = problem.origin if isinstance(problem, Case) else repr(one)
        return {"case": origin, "passed": False, "error": str(error)}
    page = dict(report.page)
    page.update(case=problem.origin, passed=report.passed, faults=report.faults, notes=report.notes)
    return page


def merge(shards):
    """The results of all shards, the first one first, in the order of the cases; or of pages of assay.report(shard="1/4"), the page of
    all. Raises InputError if they are not all there."""
    shards = list(shards)
    if shards and all(isinstance(shard, dict) for shard in shards):
        return merged_pages(shards)
    shards = [list(shard) for shard in shards]
    lengths = [len(shard) for shard in shards]
    if any(a < b for a, b in zip(lengths, lengths[1:])) or (lengths and lengths[0] - lengths[-1] > 1):
        raise InputError(f"merge: {lengths} results are not those of {len(shards)} shards in their order")
    for i, shard in enumerate(shards, 1):
        expected = f"{i}/{len(shards)}"
        for page in shard:
            if page.get("shard", expected) != expected:
                raise InputError(f"merge: expected share {expected}, got {page['shard']}; it takes all shares of a run, in their order")
    whole = [shard[i] for i in range(max(lengths, default=0)) for shard in shards if i < len(shard)]
    return [{key: value for key, value in page.items() if key != "shard"} for page in whole]


def merged_pages(pages):
    """The page that `assay merge` makes of these pages."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, f"page-{i + 1}") for i in range(len(pages))]
        for file, page in zip(files, pages):
            with open(file, "w", encoding="utf-8") as out:
                json.dump(page, out)
        try:
            return json.loads(said("merge", *files))
        except InputError as error:
            raise InputError(str(error).replace(os.path.join(folder, ""), "")) from None
