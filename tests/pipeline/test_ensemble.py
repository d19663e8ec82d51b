"""`kgcal ensemble` as a user runs it: its output, what MLflow contains, re-use, comparison and user errors."""

import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from mlflow.entities import Run

from tests.pipeline.command import Kgcal, models_of, runs_of, tags_of

SMALL = {"size": "300", "k": "16", "epochs": "20", "batch-size": "128", "calibration-eta": "3"}
SMALL |= {"calibrators": "smoothed_isotonic", "bootstrap-replicates": "50"}  # the calibrator of an ensemble's members
OPTIONS = [part for name, value in SMALL.items() for part in (f"--{name}", value)]
SHORT = {"ground_truth": "gt", "synthetic": "syn"}


@dataclass(frozen=True)
class Models:
    """Two pipelines of one small graph, and their ensemble."""

    kgcal: Kgcal
    transe: dict[str, Any]
    distmult: dict[str, Any]
    made: "subprocess.CompletedProcess[str]"

    @property
    def newest(self) -> Run:
        """Return the newest run of an ensemble."""
        return runs_of(self.kgcal, "ensemble")[-1]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    kgcal = Kgcal(tmp_path_factory.mktemp("ensemble"))
    transe, distmult = kgcal.results(*OPTIONS), kgcal.results(*OPTIONS, "--model", "distmult")
    made = kgcal("ensemble", transe["pipeline"], distmult["runs"]["evaluate"])
    assert made.returncode == 0, made.stderr
    return Models(kgcal, transe, distmult, made)


@pytest.fixture(scope="module")
def run(models: Models) -> Run:
    """The first ensemble's run."""
    return runs_of(models.kgcal, "ensemble")[0]


def test_the_terminal_shows_ensembles_beside_their_members(models: Models, run: Run) -> None:
    printed = models.made.stdout
    assert "family: 2 models, ground truth negatives" in printed
    assert "family: 2 models, synthetic negatives" in printed
    assert printed.count("ensemble, log-odds") == 2
    assert printed.count("members disagree by") == 4
    row = next(line.split() for line in printed.splitlines() if line.startswith("transe"))
    assert row[1].rstrip("*") == f"{run.data.metrics['gt.transe.brier']:.4f}"


def test_the_run_of_an_ensemble_names_its_members(models: Models, run: Run) -> None:
    tags = tags_of(run)
    assert {tags.inputs["calibrate.1"], tags.inputs["calibrate.2"]} == {
        models.transe["runs"]["calibrate"],
        models.distmult["runs"]["calibrate"],
    }
    assert tags.inputs["prepare"] == models.transe["runs"]["prepare"]
    assert "2 models, ground truth negatives" in (tags.note or "")
    assert "| ensemble, linear |" in (tags.note or "")


@pytest.mark.parametrize("negatives", SHORT)
def test_members_are_measured_as_in_their_own_pipelines(models: Models, run: Run, negatives: str) -> None:
    for name, summary in (("transe", models.transe), ("distmult", models.distmult)):
        own = summary["metrics"][negatives]["smoothed_isotonic"]
        for metric in ("brier", "log_loss", "ece", "accuracy"):
            assert run.data.metrics[f"{SHORT[negatives]}.{name}.{metric}"] == pytest.approx(own[metric], abs=1e-12)


@pytest.mark.parametrize("negatives", SHORT)
@pytest.mark.parametrize("pool", ["linear", "log_odds"])
def test_an_ensemble_is_better_than_its_worst_member(models: Models, run: Run, negatives: str, pool: str) -> None:
    metrics, label = run.data.metrics, f"{SHORT[negatives]}.{pool}"
    members = (models.transe, models.distmult)
    assert metrics[f"{label}.brier"] < max(
        summary["metrics"][negatives]["smoothed_isotonic"]["brier"] for summary in members
    )
    assert 0 <= metrics[f"{label}.disagreement"] < 0.7
    halves = (metrics[f"{label}.brier_agreed"] + metrics[f"{label}.brier_disputed"]) / 2
    assert halves == pytest.approx(metrics[f"{label}.brier"])


def test_each_ensemble_is_a_model_with_its_metrics(models: Models, run: Run) -> None:
    logged = models_of(models.kgcal, run.info.run_id)
    labels = [model.tags["label"] for model in logged]
    assert labels == ["ground_truth.linear", "ground_truth.log_odds", "synthetic.linear", "synthetic.log_odds"]
    bound = {metric.key: (metric.model_id, metric.dataset_name) for metric in logged[0].metrics}
    assert bound["gt.linear.brier"] == (logged[0].model_id, "family")


def test_an_ensemble_is_made_once_whatever_the_order_of_its_members(models: Models, run: Run) -> None:
    again = models.kgcal("ensemble", models.distmult["pipeline"], models.transe["pipeline"])
    assert again.returncode == 0, again.stderr
    assert models.newest.info.run_id == run.info.run_id
    assert again.stdout == models.made.stdout
    forced = models.kgcal("ensemble", models.distmult["pipeline"], models.transe["pipeline"], "--force")
    assert forced.returncode == 0, forced.stderr
    assert models.newest.info.run_id != run.info.run_id
    assert models.newest.data.metrics["gt.linear.brier"] == run.data.metrics["gt.linear.brier"]  # the folds are seeded


def test_an_ensemble_is_compared_with_single_models(models: Models) -> None:
    table = models.kgcal.home.parent / "all.csv"
    done = models.kgcal("compare", "--dataset", "family", "--csv", str(table))
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ensemble")]
    assert len(rows) == 4
    assert "distmult transe" in table.read_text()


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ((), "Missing argument 'RUN'"),
        (("transe",), "an ensemble needs at least two members, not 1: name the runs of two or more models"),
        (("transe", "transe"), "have the same model: the members of an ensemble must be different models"),
        (("transe", "abc"), "the run 'abc' does not exist in sqlite"),
        (("transe", "prepare"), "a run of stage calibrate is needed"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(models: Models, runs: tuple[str, ...], message: str) -> None:
    ids = {"transe": models.transe["pipeline"], "prepare": models.transe["runs"]["prepare"]}
    done = models.kgcal("ensemble", *(ids.get(name, name) for name in runs))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
