"""Checks of a champion on a real store: what a check finds, and the recalibration that follows."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

from flows.pipeline import pipeline
from flows.promote import promote
from flows.watch import watch
from kgcore.config import CalibrateGiven, CorruptGiven, PrepareGiven, TrainGiven, WatchConfig
from kgcore.errors import InputError
from kgcore.report.summary import PipelineSummary
from tasks.jobs.watch import WatchResult
from tests.pipeline.conftest import tags_of

RECALIBRATE = WatchConfig(on_drift="recalibrate", alpha=0.02)


@dataclass(frozen=True)
class Champion:
    """A champion, and a file of labels that contradict its predictions.

    results  results of the pipeline that made the champion
    labels   wrong triples, two in three labelled true
    """

    home: Path
    results: PipelineSummary
    labels: Path

    @property
    def client(self) -> MlflowClient:
        """Return MLflow's own client for the store."""
        return MlflowClient(tracking_uri=f"sqlite:///{self.home}/mlflow.db")

    def check(self, config: WatchConfig = WatchConfig()) -> WatchResult:
        """Check the champion on the labels."""
        return watch.fn(dataset="family", labels=str(self.labels), config=config)


@pytest.fixture
def champion(home: Path) -> Champion:
    results = pipeline.fn(
        prepare=PrepareGiven(size=300),
        train=TrainGiven(k=16, epochs=30, batch_size=128),
        corrupt=CorruptGiven(calibration_strategy={"uniform": 1.0}),
        calibrate=CalibrateGiven(base_rate=0.4),
    )
    [decision] = promote.fn(dataset="family")
    assert decision.passed
    return Champion(home, results, wrong_triples(home, 150))


def wrong_triples(home: Path, count: int) -> Path:
    """Write a file of training triples with exchanged objects, labelled true."""
    rows = pd.read_csv(home / "datasets/family-300-0/train.txt", sep="\t", header=None, dtype=str)
    picked = rows.sample(count, random_state=5)
    shuffled = picked[2].sample(frac=1, random_state=6).to_numpy()
    frame = pd.DataFrame({0: picked[0], 1: picked[1], 2: shuffled, 3: "1"}).drop_duplicates([0, 1, 2])
    path = home / "new.tsv"
    frame.to_csv(path, sep="\t", header=False, index=False)
    return path


def test_without_a_champion_there_is_nothing_to_watch(home: Path) -> None:
    labels = home / "labels.tsv"
    labels.write_text("a\tb\tc\t1\n")
    with pytest.raises(InputError, match="family has no champion to watch"):
        watch.fn(dataset="family", labels=str(labels))


def test_labels_of_unknown_names_are_too_few(champion: Champion) -> None:
    champion.labels.write_text("a\tb\tc\t1\n")
    with pytest.raises(InputError, match="0 new triples have labels and known names: at least 50 are needed"):
        champion.check()


def test_a_look_finds_drift_and_the_same_labels_make_no_second_look(champion: Champion) -> None:
    seen = champion.check()
    assert (seen.dataset, seen.model, seen.number) == ("family", "models:/kgcal-family/1", 1)
    assert seen.recalibrated == ""
    assert any("the probabilities are miscalibrated" in finding for finding in seen.findings)
    assert champion.check() == seen
    note = tags_of(champion.client.get_run(seen.run)).note or ""
    assert note.startswith("Check 1 of models:/kgcal-family/1: ")


def test_other_settings_make_a_second_look_in_the_same_run(champion: Champion) -> None:
    seen, again = champion.check(), champion.check(replace(RECALIBRATE, on_drift="warn"))
    assert again.number == 2
    assert again.run == seen.run
    series = champion.client.get_metric_history(seen.run, "brier")
    assert [(point.step, point.value) for point in series] == [
        (1, seen.metrics["brier"]),
        (2, again.metrics["brier"]),
    ]


def test_drift_leads_to_one_recalibration_of_the_champion(champion: Champion) -> None:
    seen, client = champion.check(RECALIBRATE), champion.client
    manifest = json.loads(Path(client.download_artifacts(seen.recalibrated, "manifest.json")).read_text())
    made = {stage: tags_of(client.get_run(run_id)) for stage, run_id in manifest.items()}
    assert made["train"].adopted == champion.results.runs["train"]
    assert made["prepare"].labels == champion.labels.name
    assert (made["corrupt"].config or {})["calibration_strategy"] == {"uniform": 1.0}  # the settings of the champion
    assert (made["calibrate"].config or {})["base_rate"] == 0.4
    assert tags_of(client.get_run(seen.run)).recalibrated == seen.recalibrated
    assert champion.check(RECALIBRATE).recalibrated == seen.recalibrated


def test_a_look_that_only_warned_is_recalibrated_once_it_may(champion: Champion) -> None:
    warned = champion.check(replace(RECALIBRATE, on_drift="warn"))
    assert warned.recalibrated == ""
    seen = champion.check(RECALIBRATE)
    assert (seen.number, seen.run) == (warned.number, warned.run)
    assert seen.recalibrated != ""
