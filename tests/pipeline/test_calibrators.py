"""Every calibrator in the real pipeline: fitted, stored, and read from a real store."""

import numpy as np
import pytest

from kgcore.registries import BASELINES, CALIBRATORS
from tasks.tracking.artifacts import CALIBRATOR
from tests.conftest import tiny_options
from tests.pipeline.command import Kgcal, model_folder, models_of


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline that fits every calibrator, and return its results."""
    kgcal = Kgcal(tmp_path_factory.mktemp("calibrators"))
    options = (
        *tiny_options(),
        "--calibrators",
        ",".join(CALIBRATORS.names()),
        "--base-rate",
        "0.3",
    )
    return kgcal, kgcal.results(*options)


def test_every_registered_calibrator_is_fitted_and_measured(fitted: tuple[Kgcal, dict]) -> None:
    _, results = fitted
    names = set(CALIBRATORS.names())
    assert {"platt", "isotonic"} <= names
    assert set(results["metrics"]["synthetic"]) == set(results["metrics"]["ground_truth"]) == names
    uncalibrated = results["metrics"]["uncalibrated"]
    for values in results["metrics"]["ground_truth"].values():
        assert values["log_loss"] < uncalibrated["log_loss"]


def test_every_calibrator_is_stored_and_read_back(fitted: tuple[Kgcal, dict]) -> None:
    kgcal, results = fitted
    models, scores = models_of(kgcal, results["runs"]["calibrate"]), np.linspace(-15, 5, 201)
    assert {"base_rate", "uncalibrated"} < set(BASELINES.names())  # the others are of confidences
    assert len(models) == 2 + 2 * len(CALIBRATORS.names())
    assert len({model.tags["label"] for model in models}) == len(models)
    for model in models:
        bound = CALIBRATOR.read(model_folder(kgcal, model.model_id))
        assert bound.label == model.tags["label"]
        q = bound.predict(scores, bound.model, np.zeros(len(scores), dtype=np.int64))
        assert ((q >= 0) & (q <= 1)).all()
        assert (np.diff(q) >= -1e-12).all()
        if bound.negatives == "synthetic":
            assert bound.base_rate == pytest.approx(0.3)
