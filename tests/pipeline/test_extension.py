"""A new model, loss, calibrator, corruption strategy, data set or metric is one new file. The tests add one of each.

The files are in tests/pipeline/extensions. A new stage is a file and an entry in the table: test_new_stage.py.
"""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli.main import whole_app
from kgcore.registries import CALIBRATORS, DATASETS, LOSSES, METRICS, MODELS, STRATEGIES
from kgcore.registry import Registry
from tasks.tracking.artifacts import CALIBRATOR, CORRUPTIONS, EMBEDDINGS, GRAPH, MEASURED
from tasks.tracking.store import Store, open_store
from tests.pipeline.command import CHECKOUT, copy_of_the_code

pytestmark = pytest.mark.long

EXTENSIONS = CHECKOUT / "tests" / "pipeline" / "extensions"

# folder of the new file -> the registry of the package that the file extends, and the new name
NEW: dict[str, tuple[Registry[Any], str]] = {
    "models": (MODELS, "bilinear_diagonal"),
    "losses": (LOSSES, "squared_hinge"),
    "calibration": (CALIBRATORS, "mean_split"),
    "corruptions": (STRATEGIES, "neighbour"),
    "datasets": (DATASETS, "clan"),
    "metrics": (METRICS, "spread"),
}


@contextmanager
def beside_the_packages() -> Iterator[None]:
    """Add the new files to kgcore's packages."""
    packages = {folder: importlib.import_module(registry._package) for folder, (registry, _) in NEW.items()}
    for folder, package in packages.items():
        package.__path__.append(str(EXTENSIONS / folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder, package in packages.items():
            package.__path__.remove(str(EXTENSIONS / folder))
            registry, name = NEW[folder]
            sys.modules.pop(f"{package.__name__}.{name}", None)
            with suppress(KeyError):
                registry.remove(name)


@dataclass(frozen=True)
class Extended:
    """A pipeline that uses only new components, and the store with its runs."""

    summary: dict[str, Any]
    store: Store

    def run(self, stage: str) -> str:
        """Return the run id of a stage."""
        return str(self.summary["runs"][stage])

    def settings(self, stage: str) -> dict[str, Any]:
        """Return the settings of a stage's run."""
        return dict(self.store.get(self.run(stage)).tags.config or {})

    def calibrators(self) -> list[Any]:
        """Return the stored calibrators, in their order."""
        model_ids = self.store.get(self.run("calibrate")).model_ids
        return [self.store.load_model(model_id, CALIBRATOR) for model_id in model_ids]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extended]:
    """Run `kgcal run` with one new component of each kind."""
    home = tmp_path_factory.mktemp("extended")
    target = home / "results.json"
    options = {"dataset": "clan", "size": 300, "model": "bilinear_diagonal", "loss": "squared_hinge"}
    options |= {"training-strategy": "neighbour", "calibration-strategy": "neighbour", "calibration-eta": 3}
    options |= {"calibrators": "mean_split", "k": 8, "epochs": 2, "batch-size": 128, "json": target}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with beside_the_packages(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGCAL_HOME", str(home))
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME"):
            patch.delenv(name, raising=False)
        result = CliRunner().invoke(whole_app(), ["run", *arguments])
        assert result.exit_code == 0, result.output
        yield Extended(json.loads(target.read_text()), open_store())


@pytest.mark.parametrize("folder", NEW)
def test_a_new_name_is_known_by_its_file_alone(folder: str) -> None:
    registry, name = NEW[folder]
    assert name not in registry.names()
    with beside_the_packages():
        assert name in registry.names()
        assert registry.module(name) == f"{registry._package}.{name}"
    assert name not in registry.names()


def test_a_new_data_set_is_prepared(extended: Extended) -> None:
    assert extended.summary["dataset"] == "clan"
    prepared = extended.store.get(extended.run("prepare"))
    assert prepared.tags.dataset == "clan"
    assert extended.store.load(prepared.run_id, GRAPH).name == "clan"


def test_a_new_model_is_trained_and_ranked(extended: Extended) -> None:
    assert extended.summary["model"] == "bilinear_diagonal"
    [model_id] = extended.store.get(extended.run("train")).model_ids
    assert extended.store.model(model_id).params["model"] == "bilinear_diagonal"
    assert type(extended.store.load_model(model_id, EMBEDDINGS).model).__name__ == "BilinearDiagonal"
    assert {"mrr", "hits_at_10"} <= set(extended.summary["ranks"])


def test_a_new_loss_is_trained_with(extended: Extended) -> None:
    assert extended.summary["loss"] == "squared_hinge"
    losses = extended.store.series(extended.run("train"), "loss")
    assert len(losses) == 2
    assert losses[1] < losses[0]


def test_a_new_strategy_corrupts_in_training_and_in_calibration(extended: Extended) -> None:
    assert extended.settings("train")["training_strategy"] == {"neighbour": 1.0}
    assert extended.settings("corrupt")["calibration_strategy"] == {"neighbour": 1.0}
    graph = extended.store.load(extended.run("prepare"), GRAPH)
    made = extended.store.load(extended.run("corrupt"), CORRUPTIONS)["valid"]
    positives = graph.valid.positives[made.source]
    steps = (made.triples - positives) % len(graph.entities)
    assert len(made.triples) > 0
    assert {tuple(step) for step in steps.tolist()} == {(1, 0, 0), (0, 0, 1)}  # the next entity, on either side


def test_a_new_calibrator_is_fitted_measured_and_stored(extended: Extended) -> None:
    for negatives in ("ground_truth", "synthetic"):
        assert 0 < extended.summary["metrics"][negatives]["mean_split"]["brier"] < 0.5
    fitted = [bound for bound in extended.calibrators() if bound.name == "mean_split"]
    assert [bound.label for bound in fitted] == ["ground_truth.mean_split", "synthetic.mean_split"]
    assert all(set(bound.calibrator.parameters()) == {"middle", "below", "above"} for bound in fitted)


def test_a_new_metric_is_measured_with_an_interval_logged_and_reported(extended: Extended) -> None:
    found = extended.summary["metrics"]["synthetic"]["mean_split"]["spread"]
    low, high = extended.summary["intervals"]["synthetic"]["mean_split"]["spread"]
    assert 0 < low <= found <= high < 1
    [bound] = [calibrator for calibrator in extended.calibrators() if calibrator.label == "synthetic.mean_split"]
    assert found == pytest.approx(abs(bound.calibrator.above_ - bound.calibrator.below_))
    store, evaluated = extended.store, extended.run("evaluate")
    assert store.get(evaluated).metrics["syn.mean_split.spread"] == found
    assert store.load(evaluated, MEASURED)["synthetic.mean_split"].metrics["spread"] == found
    report = Path(extended.summary["report"]).read_text()
    assert "spread of the probabilities" in report
    assert f"{found:.4f}" in report


def test_results_are_compared_by_a_new_metric(extended: Extended, tmp_path: Path) -> None:
    """The comparison runs in a process that finds the new file when it starts, as if the file were in the package."""
    table = tmp_path / "compared.csv"
    options = ["compare", "--metric", "spread", "--csv", str(table)]
    script = (
        f"import kgcore.measure.metrics; kgcore.measure.metrics.__path__.append({str(EXTENSIONS / 'metrics')!r}); "
        f"from flows.cli.main import whole_app; whole_app()({options!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT, check=False)
    assert done.returncode == 0, done.stderr
    assert "best spread of the probabilities first" in done.stdout
    frame = pd.read_csv(table)
    assert frame["spread"].tolist() == sorted(frame["spread"], reverse=True)
    fitted = frame[frame["calibrator"] == "mean_split"].set_index("negatives")["spread"].to_dict()
    metrics = extended.summary["metrics"]
    assert fitted == {negatives: metrics[negatives]["mean_split"]["spread"] for negatives in fitted}
    assert set(fitted) == {"ground_truth", "synthetic"}


def test_a_new_component_is_deployed_again_because_it_is_a_new_choice_of_the_forms(tmp_path: Path) -> None:
    code = copy_of_the_code(tmp_path)
    command = [sys.executable, "-c", "from flows.local.up import sources_digest; print(sources_digest())"]

    def digest() -> str:
        return subprocess.run(command, cwd=code, capture_output=True, text=True, check=True).stdout

    before = digest()
    shutil.copy(EXTENSIONS / "corruptions" / "neighbour.py", code / "kgcore" / "embed" / "corruptions")
    listed = code / "kgcore" / "registries.py"
    listed.write_text(listed.read_text().replace("near_miss nearest", "near_miss nearest neighbour"))
    assert digest() != before


def test_a_moved_checkout_is_deployed_again(tmp_path: Path) -> None:
    """The server stores the folder in which the runs of a deployment start."""
    code = copy_of_the_code(tmp_path)
    command = [sys.executable, "-c", "from flows.local.up import sources_digest; print(sources_digest())"]

    def digest(folder: Path) -> str:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout

    before = digest(code)
    assert digest(code) == before
    assert digest(code.rename(tmp_path / "moved")) != before
