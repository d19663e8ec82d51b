"""benchmarks/peers.py: it measures kgcal beside other libraries. Here it measures kgcal alone, on a small graph."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import CHECKOUT


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKOUT / "benchmarks"))
    for name in ("peers", "peer_runs", "cases"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import peers

    return peers


def test_kgcal_is_measured_alone(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path))
    for seconds in ("PAUSE", "LEAST"):  # here the speed itself does not matter
        monkeypatch.setattr(peers, seconds, 0.05)
    plot, found = tmp_path / "peers.png", tmp_path / "peers.json"
    graph, small = ["--dataset", "family", "--size", "60"], ["--k", "4", "--rounds", "1", "--threads", "1"]
    case = ["--peers", "none", "--models", "distmult", "--ways", "20 a positive"]
    peers.main([*graph, *small, *case, "--plot", str(plot), "--json", str(found)])
    printed = capsys.readouterr().out
    assert "| DistMult, 20 a positive |" in printed
    assert "failed" not in printed
    assert "cores" in printed
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert '"peer": "kgcal"' in found.read_text()


def test_a_library_that_cannot_be_installed_has_its_reason(peers: ModuleType) -> None:
    [row] = peers.ours("complex", ["20 a positive"])
    there, missing = (peers.theirs(peer, row) for peer in ("pykeen", "ampligraph"))
    results = {
        row: peers.Result("torch", (3.0, 5.0, 4.0)),
        there: peers.Result("PyKEEN", (0.5, 0.4, 0.5)),
        missing: peers.Result(reason="not installed: no such version"),
    }
    table = peers.table([row], results, ["pykeen", "ampligraph", "biggraph"])
    assert "| ComplEx, 20 a positive | 4.00 | 0.50 (x 8.0) | failed |  |" in table
    assert table.endswith("ampligraph, complex: not installed: no such version")


def test_an_installation_that_fails_says_why(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import peer_runs

    monkeypatch.setitem(peer_runs.PEERS, "pykeen", (["--no-such-option"], "with_pykeen.py"))
    monkeypatch.setattr(peer_runs.sys, "executable", str(tmp_path / "missing"))
    with pytest.raises(peer_runs.PeerError, match="not installed"):
        peer_runs.python_of("pykeen", tmp_path)
