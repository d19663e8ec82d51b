"""Settings that earlier versions recorded under other names."""

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from kgcore.config import CalibrateConfig, CorruptConfig, EvidenceConfig, TrainConfig
from tasks.jobs.compare import comparison
from tasks.stages.running import config_of
from tasks.tracking.former import current_settings
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.store import open_store
from tests.stages.logged import log_evaluation

TRAIN = {"model": "distmult", "k": 8, "eta": 5, "negatives": {"typed": 0.5, "uniform": 0.5}, "filter_training": True}
CORRUPT = {
    "strategy": {"typed": 1.0},
    "sides": "object",
    "calibration_eta": 3,
    "filtered": False,
    "corruption_seed": 4,
}


def read(stage: str, settings: dict[str, Any]) -> RunRecord:
    """Create a run of that stage with settings in an earlier format, and return it as the store reads it."""
    store = open_store()
    tags = RunTags(stage=stage, config=settings).to_mlflow()
    client = MlflowClient(tracking_uri=store.uri)
    return store.get(client.create_run(store.experiment_id, tags=tags).info.run_id)


@pytest.mark.parametrize(
    ("share", "bernoulli", "sides"),
    [
        (0.5, False, "both"),
        (0.0, False, "subject"),
        (1, False, "object"),
        (0.3, False, "object=0.3"),
        (0.3, True, "bernoulli"),
    ],
)
def test_the_settings_of_an_earlier_training_are_read(home: Path, share: float, bernoulli: bool, sides: str) -> None:
    run = read("train", TRAIN | {"object_share": share, "bernoulli": bernoulli})
    assert config_of(TrainConfig, run) == TrainConfig(
        model="distmult",
        k=8,
        training_eta=5,
        training_strategy={"typed": 0.5, "uniform": 0.5},
        training_filtered=True,
        training_sides=sides,
    )


def test_the_settings_of_earlier_corruptions_are_read(home: Path) -> None:
    assert config_of(CorruptConfig, read("corrupt", CORRUPT)) == CorruptConfig(
        calibration_strategy={"typed": 1.0},
        calibration_sides="object",
        calibration_eta=3,
        calibration_filtered=False,
        calibration_seed=4,
    )


@pytest.mark.parametrize(
    ("chosen", "fitted"),
    [
        (["uncalibrated", "platt", "base_rate"], ["platt"]),
        (["isotonic", "platt"], ["isotonic", "platt"]),
        (["beta", "centred_isotonic", "splines"], ["beta"]),
        (["base_rate"], ["base_rate"]),
    ],
)
def test_former_calibrators_are_left_out(chosen: list[str], fitted: list[str]) -> None:
    assert current_settings("calibrate", {"calibrators": chosen}) == {"calibrators": fitted}


def test_former_settings_of_evidence_are_left_out(home: Path) -> None:
    run = read("evidence", {"name_encoder": "", "unseen_combiner": "boosted_trees", "unseen_seed": 3})
    assert config_of(EvidenceConfig, run) == EvidenceConfig(unseen_seed=3)


def test_an_earlier_calibration_with_a_baseline_is_read(home: Path) -> None:
    run = read("calibrate", {"calibrators": ["uncalibrated", "beta"], "base_rate": 0.3, "weighted": True})
    assert config_of(CalibrateConfig, run) == CalibrateConfig(calibrators=("beta",), base_rate=0.3)


@pytest.mark.parametrize(("recorded", "base_rate"), [(0.5, None), (0.3, 0.3)])
def test_the_default_base_rate_of_earlier_versions_was_not_stated(recorded: float, base_rate: float | None) -> None:
    tags = RunTags(stage="calibrate", config={"base_rate": recorded}).to_mlflow()
    assert (RunTags.from_mlflow(tags).config or {})["base_rate"] == base_rate
    tagged = RunTags.from_mlflow(tags | RunTags(base_rate="0.5, stated").to_mlflow())
    assert (tagged.config or {})["base_rate"] == recorded  # this version says so


def test_settings_of_this_version_and_of_other_stages_keep_their_names() -> None:
    now = {"training_eta": 5, "training_sides": "both"}
    assert current_settings("train", now) == now
    own = {"sides": 6, "eta": 1, "strategy": "a", "object_share": 0.5}
    assert current_settings("dice", own) == own
    assert current_settings(None, own) == own


def test_earlier_corruptions_of_the_test_are_samples_of_their_own(home: Path) -> None:
    for seed in (0, 1):
        former = {"strategy": {"uniform": 1.0}, "sides": "both", "calibration_eta": 20, "corruption_seed": seed}
        log_evaluation(open_store(), "bare", {"synthetic.platt": 0.1}, labelled=False, corrupt=former, model="transe")
    log_evaluation(open_store(), "bare", {"synthetic.platt": 0.1}, labelled=False, model="transe")
    frame = comparison(dataset="bare")
    samples = [f"uniform corruptions, sides both, eta 20, seed {seed}, base rate 0.5" for seed in (0, 1)]
    assert sorted(set(frame["test"])) == samples
    assert set(frame["calibration_strategy"]) == {"uniform"}
