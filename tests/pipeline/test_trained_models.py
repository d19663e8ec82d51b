"""Models with inverse predicates and a cohort in the real pipeline: stored, ranked, and used to draw corruptions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kgcore.storage.folders import read_model
from tests.conftest import tiny_options
from tests.pipeline.command import Kgcal, all_runs, client_of

pytestmark = pytest.mark.long

OPTIONS = ("--inverse-relations", "--dropout", "0.1", "--initial-scale", "2", "--cohort-weight", "0.5")


@pytest.mark.parametrize("strategy", ["near_miss", "nearest"])
def test_the_stored_model_has_the_scores_that_were_evaluated(tmp_path: Path, strategy: str) -> None:
    kgcal = Kgcal(tmp_path)
    results = kgcal.results(*tiny_options(), *OPTIONS, "--calibration-strategy", strategy)
    assert 0 < results["ranks"]["mrr"] <= 1
    experiment = all_runs(kgcal)[0].info.experiment_id
    [model] = [m for m in client_of(kgcal).search_logged_models([experiment]) if "label" not in m.tags]
    [stored] = (kgcal.home / "artifacts").rglob(f"{model.model_id}/**/model.json")
    trained = read_model(stored.parent)
    assert trained.inverse
    assert trained.cohort is not None
    assert trained.fingerprint() == model.tags["fingerprint"]
    [scores] = (kgcal.home / "artifacts").rglob("scores.parquet")
    table = pd.read_parquet(scores)
    np.testing.assert_allclose(trained.score(table[["s", "p", "o"]].to_numpy()), table["score"], rtol=1e-6)
    again = kgcal.results(*tiny_options(), *OPTIONS, "--calibration-strategy", strategy, "--base-rate", "0.3")
    assert again["runs"]["train"] == results["runs"]["train"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dropout", "1"), "dropout is 1.0: it must be at least 0 and below 1"),
        (("--dropout", "0.1", "--model", "toruse"), "dropout is 0.1: it must be 0 for toruse"),
        (("--inverse-relations", "--training-sides", "object"), "training_sides is object: with inverse relations"),
        (("--cohort-weight", "2"), "cohort_weight is 2.0: it must be at least 0 and at most 1"),
        (("--cohort-temperature", "0"), "cohort_temperature is 0.0: it must be above 0"),
        (("--calibration-strategy", "kbgan"), "calibration_strategy is 'kbgan': this strategy learns during training"),
    ],
)
def test_invalid_settings_are_refused_before_anything_runs(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    kgcal = Kgcal(tmp_path)
    done = kgcal("run", *tiny_options(), *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "mlflow.db").exists()
