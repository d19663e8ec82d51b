"""Test samples of corruptions that a model drew: results on the samples of two models are never compared.

The exam compares the models.
"""

from pathlib import Path

import pytest

from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, CorruptConfig, EvaluateConfig, GateConfig, PrepareConfig, TrainConfig
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.compare import comparison
from tasks.jobs.exam import EXAM
from tasks.jobs.promote import promote_best
from tasks.tracking.artifacts import CALIBRATOR
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHALLENGER, aliased
from tasks.tracking.store import open_store
from tests.folders import write_folder

pytestmark = pytest.mark.long


def run(folder: Path, strategy: str, model: str, epochs: int) -> PipelineSummary:
    """Run a pipeline whose test negatives are corruptions, a fifth of them drawn by the model. Return its results."""
    return pipeline.fn(
        prepare=PrepareConfig(dataset=str(folder)),
        train=TrainConfig(model=model, k=8, epochs=epochs, batch_size=128),
        corrupt=CorruptConfig(calibration_strategy={strategy: 0.2, "uniform": 0.8}, calibration_eta="4"),
        calibrate=CalibrateConfig(calibrators=("beta",)),
        evaluate=EvaluateConfig(bootstrap_replicates=50),
        preset="default",
    )


@pytest.mark.parametrize(("strategy", "dataset"), [("near_miss", "o'neil"), ("nearest", 'v1.0: 50% "new"')])
def test_samples_that_two_models_drew_are_not_ranked_together_but_judged_on_one_exam(
    home: Path, strategy: str, dataset: str
) -> None:
    """The names of the folders contain every character that some part of MLflow rejects."""
    folder = write_folder(home / dataset)
    older, newer = run(folder, strategy, "transe", epochs=60), run(folder, strategy, "distmult", epochs=1)

    frame = comparison(dataset=str(folder))
    trained_by = {results.runs["train"][:8]: results.model for results in (older, newer)}
    fitted = frame[frame["negatives"] != "none"]
    assert {(row.test, row.model) for row in fitted.itertuples()} == {
        (
            f"{strategy}=0.2 uniform=0.8 corruptions, sides bernoulli, eta 4, seed 0, base rate 0.5, "
            f"drawn by the model of {train}",
            model,
        )
        for train, model in trained_by.items()
    }
    best = fitted.groupby("model")["brier"].min()
    assert best["transe"] < best["distmult"]  # a ranking of all rows together would choose the older model

    # the exam belongs to neither: its corruptions are drawn by a fixed rule, without a model
    decision = promote_best(dataset, None, GateConfig())
    assert "the positives and corruptions of test" in decision.explanation
    assert "the best of 2, against" in decision.explanation
    [winner] = [made for made in (older, newer) if f"({made.model} " in decision.explanation]
    store = open_store()
    version = aliased(store, dataset, CHALLENGER)
    assert version is not None
    assert decision.challenger == version.uri
    assert store.model(version.model_id).run_id == winner.runs["calibrate"]
    [base] = store.get(winner.runs["train"]).model_ids
    assert store.model(version.model_id).base_model == base
    assert store.load_model(version.model_id, CALIBRATOR).negatives == "synthetic"
    [made] = store.find_all(RunTags(stage="exam"))
    assert store.load(made.run_id, EXAM).paper(100).synthetic
