"""`assay bench kernels` without a GPU: what it prints and refuses. The times themselves are measured on one."""
import dataclasses
import sys
import types

import pytest
from assay import _bench
from assay._bench import PASSES, Time

FOUND = [
    Time("kda", "1,64,2,128", PASSES[0], "assay", ms=2.0, floor=0.5),
    Time("kda", "1,64,2,128", PASSES[0], "fla.chunk_kda", ms=3.0, floor=0.5),
    Time("kda", "1,64,2,128", PASSES[1], "assay", ms=8.0, floor=1.0),
    Time("kda", "1,64,2,128", PASSES[1], "fla.chunk_kda", floor=1.0, why="RuntimeError: refused"),
]


def test_peers_are_set_beside_ours():
    lines = _bench.table(FOUND).splitlines()
    assert lines[2].endswith("| assay | 2.000 | 0.500 | 25% |  |")
    assert lines[3].endswith("| fla.chunk_kda | 3.000 | 0.500 | 17% | 1.50 |")
    assert lines[5].endswith("| fla.chunk_kda | RuntimeError: refused |  |  |  |")
    drawn = _bench.plot(FOUND)
    assert drawn.count("<rect") == 4 and "3.000 ms" in drawn and "refused" not in drawn


def test_a_page_keeps_rows_of_mechanisms_that_have_not_run(monkeypatch):
    monkeypatch.setattr(_bench, "versions", lambda: "a GPU")
    options = types.SimpleNamespace(runs=20)
    first = _bench.page(FOUND + [Time("gla", "1,64,2,128", PASSES[0], "assay", ms=7.0, floor=0.5)], options, "")
    again = _bench.page([dataclasses.replace(FOUND[0], ms=4.0)], options, first)
    rows = [line.split(" | ")[:5] for line in again.splitlines() if line.startswith("| ") and "shape" not in line and "---" not in line]
    assert rows == [["| gla", "1,64,2,128", "forward", "assay", "7.000"], ["| kda", "1,64,2,128", "forward", "assay", "4.000"]]


def test_peers_are_functions_of_adapters():
    from assay import adapters

    for mechanism, peers in _bench.PEERS.items():
        for peer in peers:
            package, function = peer.partition(" ")[0].split(".")
            assert getattr(getattr(adapters, package), function).mechanism == mechanism


def test_bad_use_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for words, said in [
        (["kernels"], "assay: assay bench kernels: needs torch"),
        (["kernels", "--shape", "1,2"], "assay: --shape: expected B,T,H,K, got 1,2"),
        (["kernels", "--runs", "0"], "assay: --runs: expected at least 1, got 0"),
    ]:
        assert _bench.main(words) == 2
        assert capsys.readouterr().err.strip() == said
    for words in (["rooms"], ["kernels", "--only", "lla"]):
        with pytest.raises(SystemExit) as end:
            _bench.main(words)
        assert end.value.code == 2
