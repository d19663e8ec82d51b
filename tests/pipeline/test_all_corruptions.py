"""A low base rate on a small graph: all corruptions of each positive, from the corrupt run to the report.

And the search for the highest scores, as if these corruptions did not fit in memory.
"""

from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, CorruptConfig, EvaluateConfig, PrepareConfig, TrainConfig
from kgcore.config import stages as bounds
from tasks.jobs.ensemble import Member
from tasks.stages.running import StageRef
from tasks.tracking.artifacts import CALIBRATION_AUDIT, CALIBRATOR, CORRUPTION_AUDIT, CORRUPTIONS, SCORES
from tasks.tracking.store import open_store
from tests.folders import write_folder

pytestmark = pytest.mark.usefixtures("quick_trees", "home")


def test_weights_reach_the_calibrators_and_the_report(home: Path) -> None:
    folder = write_folder(home / "mine")
    result = pipeline.fn(
        preset="default",  # without a race of configurations
        prepare=PrepareConfig(dataset=str(folder)),
        train=TrainConfig(k=8, epochs=2, batch_size=128),
        corrupt=CorruptConfig(calibration_strategy={"typed": 1.0}, calibration_sides="object"),
        calibrate=CalibrateConfig(base_rate=2e-3, calibrators=("beta", "isotonic")),
        evaluate=EvaluateConfig(bootstrap_replicates=50),
    )
    store, runs = open_store(), result.runs
    made = store.load(runs["corrupt"], CORRUPTIONS)
    weights = made["valid"].weights
    assert weights is not None
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(np.unique(np.bincount(made["valid"].source, weights).round(9)).size, 1)
    assert made["test"].weights is None
    assert store.load(runs["corrupt"], CORRUPTION_AUDIT)["valid"]["every"] == 1
    assert store.get(runs["corrupt"]).metrics["valid.every"] == 1
    table = store.load(runs["score"], SCORES)
    assert table.weights is not None
    corruptions = table.rows("valid", "corruption")
    np.testing.assert_array_equal(table.weights[corruptions], weights)
    assert (table.weights[~corruptions] == 1).all()

    audit = store.load(runs["calibrate"], CALIBRATION_AUDIT)["synthetic"]
    assert audit["effective_sample_size"] < len(table)
    for model_id in store.get(runs["calibrate"]).model_ids:
        bound = store.load_model(model_id, CALIBRATOR)
        assert bound.base_rate == 2e-3
    assert "all corruptions of each validation positive" in Path(result.report).read_text()


@pytest.mark.long
def test_a_search_reaches_the_calibrators_and_the_report(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_CORRUPTIONS", 3_000)
    monkeypatch.setattr("kgcore.scores.search.MOST", 500)
    folder = write_folder(home / "mine")
    result = pipeline.fn(
        prepare=PrepareConfig(dataset=str(folder)),
        train=TrainConfig(k=8, epochs=2, batch_size=128),
        corrupt=CorruptConfig(calibration_strategy={"uniform": 1.0}, calibration_sides="both"),
        calibrate=CalibrateConfig(base_rate=1e-3),
    )
    store, runs = open_store(), result.runs
    made = store.load(runs["corrupt"], CORRUPTIONS)["valid"]
    assert made.weights is None
    table = store.load(runs["score"], SCORES)
    looked = store.get(runs["score"]).metrics["looked_at"]
    assert looked > 6_000
    assert table.weights[table.corruptions()].sum() == pytest.approx(looked)
    assert table.concentrations is not None
    assert (table.concentrations[table.rows("valid", "corruption")] < 1).any()
    assert 250 <= store.get(runs["score"]).metrics["searched"] <= 500
    assert len(table) <= 3_000 + 500 + 2 * 150 + 20 * 150

    audit = store.load(runs["calibrate"], CALIBRATION_AUDIT)["synthetic"]
    assert audit["looked_at"] == looked
    assert f"{looked:,.0f}" in Path(result.report).read_text()
    drawn = Member(store, StageRef("calibrate", runs["calibrate"])).scores()
    np.testing.assert_array_equal(drawn.triples[drawn.rows("valid", "corruption")], made.triples)
    assert drawn.weights is None
