"""The documented automations on a real Prefect server: drift, recalibration, promotion, and a list of missing facts."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import use_home
from tests.docs.pages import CHECKOUT, blocks_for
from tests.e2e.local import Local, until
from tests.pipeline.champions import Champion, make_champion

[BLOCK] = blocks_for(__file__)


@pytest.fixture
def champion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Champion:
    """Make a champion whose map has moved, and 400 labels that show it."""
    use_home(tmp_path / "home", monkeypatch)
    made = make_champion(tmp_path / "home")
    made.label(400, slope=-1)
    return made


@pytest.fixture
def served(champion: Champion) -> Iterator[Local]:
    with Local(champion.home.parent, None).running() as made:
        yield made


def test_drift_ends_with_missing_facts_by_a_new_champion(champion: Champion, served: Local) -> None:
    api = {"PREFECT_API_URL": f"http://127.0.0.1:{served.prefect}/api"}
    subprocess.run([sys.executable, "-c", BLOCK.text], env=served.kgcal.environment | api, cwd=CHECKOUT, check=True)
    config = {"on_drift": "recalibrate"}
    served.trigger("watch/watch", dataset="family", labels=str(champion.labels), config=config)

    def ended(flow: str) -> list[dict[str, Any]]:
        states = {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}
        wanted = {"flows": {"name": {"any_": [flow]}}, "flow_runs": {"state": states}}
        return list(served.api("flow_runs/filter", wanted))

    until(lambda: bool(ended("discover")), 240)
    runs = {flow: ended(flow) for flow in ("watch", "recalibrate", "promote", "discover")}
    assert {run["state_name"] for found in runs.values() for run in found} == {"Completed"}
    assert {flow: len(found) for flow, found in runs.items()} == {
        "watch": 1,
        "recalibrate": 2,
        "promote": 1,
        "discover": 1,
    }
    assert [found[0]["parameters"]["dataset"] for found in (runs["promote"], runs["discover"])] == ["family"] * 2

    events = served.api("events/filter", {"filter": {"event": {"name": ["kgcal.champion.changed"]}}})["events"]
    [event] = events
    assert event["resource"]["prefect.resource.id"] == "kgcal.model.kgcal-family"
    told = event["payload"]
    assert (told["dataset"], told["before"]) == ("family", "models:/kgcal-family/1")
    assert told["champion"] == "models:/kgcal-family/2"
    assert told["brier_gain"] > 0
    assert "It is the new champion." in told["reason"]
