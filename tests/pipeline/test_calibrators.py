"""Every calibrator through the real pipeline, and back from a real store."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.registries import CALIBRATORS
from tasks.stages.calibrate import read_calibrator
from tests.conftest import tiny_options
from tests.pipeline.conftest import Kgcal, all_runs, client_of


def test_every_registered_calibrator_is_fitted_measured_stored_and_read(tmp_path: Path) -> None:
    fitted = [name for name in CALIBRATORS.names() if name not in ("uncalibrated", "base_rate")]
    kgcal = Kgcal(tmp_path)
    results = kgcal.results(*tiny_options(), "--calibrators", ",".join(fitted), "--base-rate", "0.3")
    assert set(results["metrics"]["synthetic"]) == set(results["metrics"]["ground_truth"]) == set(fitted)
    uncalibrated = results["metrics"]["uncalibrated"]
    for values in results["metrics"]["ground_truth"].values():
        assert values["log_loss"] < uncalibrated["log_loss"]

    client, scores = client_of(kgcal), np.linspace(-15, 5, 201)
    experiment = all_runs(kgcal)[0].info.experiment_id
    models = {m.tags["label"]: m for m in client.search_logged_models([experiment]) if "label" in m.tags}
    assert len(models) == 2 + 2 * len(fitted)
    for label, model in models.items():
        [stored] = (kgcal.home / "artifacts").rglob(f"{model.model_id}/**/calibrator.json")
        bound = read_calibrator(stored.parent)
        assert bound.label == label
        q = bound.predict(scores, bound.model, np.zeros(len(scores), dtype=np.int64))
        assert ((q >= 0) & (q <= 1)).all()
        assert (np.diff(q) >= -1e-12).all()
        if bound.negatives == "synthetic":
            assert bound.base_rate == pytest.approx(0.3)
