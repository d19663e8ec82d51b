"""Evidence on a graph without labels: combiners are fitted to positives and corruptions, by evidence of pairs alone."""

from pathlib import Path

import numpy as np
import pytest

from flows.pipeline import pipeline
from kgcore.calibrate.validation import answering_label
from kgcore.config import CalibrateConfig, CorruptConfig, EvaluateConfig, EvidenceConfig, PrepareConfig, TrainConfig
from kgcore.data.datasets.family import write_genealogy
from kgcore.errors import InputError
from kgcore.measure.report.summary import PipelineSummary
from tasks.tracking.artifacts import CALIBRATOR, EVIDENCE, GRAPH, HELD_OUT_LOG_ODDS
from tasks.tracking.store import open_store
from tests.conftest import use_home


def write_positives(folder: Path) -> Path:
    """Write a genealogy without its labelled negatives."""
    write_genealogy(folder, 200, 0)
    for name in ("valid", "test"):
        rows = [row.split("\t") for row in (folder / f"{name}.txt").read_text().splitlines()]
        (folder / f"{name}.txt").write_text("".join("\t".join(row[:3]) + "\n" for row in rows if row[3] == "1"))
    return folder


def run(folder: Path, *evidence: str) -> PipelineSummary:
    return pipeline.fn(
        prepare=PrepareConfig(dataset=str(folder)),
        train=TrainConfig(k=16, epochs=10, batch_size=128),
        corrupt=CorruptConfig(calibration_eta="6"),
        calibrate=CalibrateConfig(calibrators=("per_relation", "boosted_trees"), combine_folds=2),
        evaluate=EvaluateConfig(bootstrap_replicates=50),
        evidence=EvidenceConfig(evidence=evidence),
        preset="default",
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_home(tmp_path / "home", monkeypatch)
    monkeypatch.setattr("kgcore.config.calibrate.FEWEST", 100)
    (tmp_path / "mine").mkdir()
    return write_positives(tmp_path / "mine")


def test_without_labels_evidence_of_pairs_answers(folder: Path) -> None:
    made, store = run(folder, "score", "degrees", "paths"), open_store()
    brier = {row.calibrator: row.metrics["brier"] for row in made.results.rows if row.negatives == "synthetic"}
    assert brier["boosted_trees"] < brier["per_relation"] - 0.005
    seen = store.load(made.runs["evidence"], EVIDENCE)
    assert seen.groups == ("score", "paths")
    fitted = [store.load_model(own, CALIBRATOR) for own in store.known(made.runs["calibrate"]).model_ids]
    assert answering_label(fitted) == "synthetic.boosted_trees"
    [bound] = [one for one in fitted if one.label == "synthetic.boosted_trees"]
    assert bound.base_rate == 0.5
    assert bound.corruptions is not None
    assert bound.combined is not None
    log_odds = store.load(made.runs["calibrate"], HELD_OUT_LOG_ODDS)["synthetic.boosted_trees"]
    assert np.isfinite(log_odds).all()  # corruptions that no combiner was fitted to have log-odds, too
    assert len(log_odds) > 6 * len(store.load(made.runs["prepare"], GRAPH).valid)


def test_without_labels_evidence_of_single_entities_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="evidence is degrees, types: without labels and candidates, name at least"):
        run(folder, "degrees", "types")
