"""Ensembles as a user makes them, on a real store: what is measured, re-used, compared and refused."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flows.ensemble import ensemble
from flows.pipeline import pipeline
from flows.upkeep import promote
from kgcore import storage
from kgcore.config import (
    CalibrateConfig,
    CalibrateGiven,
    CorruptConfig,
    EnsembleConfig,
    PrepareConfig,
    PrepareGiven,
    TrainConfig,
    TrainGiven,
)
from kgcore.errors import InputError, MismatchError
from kgcore.metrics.proper import brier
from tasks.jobs.compare import comparison
from tasks.jobs.ensemble import read_ensemble
from tasks.jobs.members import member_names
from tasks.stages.base import StageRef, inputs
from tasks.stages.calibrate import calibrate_scores
from tasks.stages.corrupt import corrupt_triples
from tasks.stages.prepare import add_labels, prepare_data
from tasks.stages.score import score_triples
from tasks.stages.train import train_model
from tasks.tracking.store import open_store
from tests.pipeline.conftest import Kgcal, all_runs, client_of

SMALL = {"size": "300", "k": "16", "epochs": "20", "batch-size": "128", "calibration-eta": "4"}
OPTIONS = [part for name, value in SMALL.items() for part in (f"--{name}", value)]


class Models(Kgcal):
    """Two pipelines of one small graph, made by the command line."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.transe = self.results(*OPTIONS)
        self.distmult = self.results(*OPTIONS, "--model", "distmult")

    def last_run(self) -> Any:
        runs = [run for run in all_runs(self) if run.data.tags.get("kgcal.stage") == "ensemble"]
        return max(runs, key=lambda run: run.info.start_time)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("ensemble"))


def test_an_ensemble_stands_beside_its_members_and_is_made_once(models: Models) -> None:
    made = models("ensemble", models.transe["pipeline"], models.distmult["runs"]["evaluate"])
    assert made.returncode == 0, made.stderr
    assert "family: 2 models, ground truth negatives" in made.stdout
    assert "family: 2 models, synthetic negatives" in made.stdout
    assert made.stdout.count("ensemble, log-odds") == 2
    assert made.stdout.count("members disagree by") == 4
    [told] = [line.split() for line in made.stdout.splitlines() if line.startswith("transe")][:1]
    run, client = models.last_run(), client_of(models)
    tags = run.data.tags
    assert {tags["kgcal.input.calibrate.1"], tags["kgcal.input.calibrate.2"]} == {
        models.transe["runs"]["calibrate"],
        models.distmult["runs"]["calibrate"],
    }
    assert tags["kgcal.input.prepare"] == models.transe["runs"]["prepare"]
    metrics = run.data.metrics
    for negatives, short in (("ground_truth", "gt"), ("synthetic", "syn")):
        for name, summary in (("transe", models.transe), ("distmult", models.distmult)):
            own = summary["metrics"][negatives]["isotonic"]
            for metric in ("brier", "log_loss", "ece", "accuracy"):  # members are what their own pipelines say
                assert metrics[f"{short}.{name}.{metric}"] == pytest.approx(own[metric], abs=1e-12)
        for pool in ("linear", "log_odds"):
            worst = max(
                summary["metrics"][negatives]["isotonic"]["brier"] for summary in (models.transe, models.distmult)
            )
            assert metrics[f"{short}.{pool}.brier"] < worst
            assert 0 <= metrics[f"{short}.{pool}.disagreement"] < 0.7
            halves = (metrics[f"{short}.{pool}.brier_agreed"] + metrics[f"{short}.{pool}.brier_disputed"]) / 2
            assert halves == pytest.approx(metrics[f"{short}.{pool}.brier"])
    assert told[1].rstrip("*") == f"{metrics['gt.transe.brier']:.4f}"
    assert "| ground truth | ensemble, linear |" in tags["mlflow.note.content"]

    made_by = [output.model_id for output in sorted(run.outputs.model_outputs, key=lambda output: output.step)]
    labels = [client.get_logged_model(model_id).tags["label"] for model_id in made_by]
    assert labels == ["ground_truth.linear", "ground_truth.log_odds", "synthetic.linear", "synthetic.log_odds"]
    bound = {
        metric.key: (metric.model_id, metric.dataset_name) for metric in client.get_logged_model(made_by[0]).metrics
    }
    assert bound["gt.linear.brier"] == (made_by[0], "family")

    again = models("ensemble", models.distmult["pipeline"], models.transe["pipeline"])  # in whatever order
    assert again.returncode == 0, again.stderr
    assert models.last_run().info.run_id == run.info.run_id
    assert again.stdout == made.stdout
    forced = models("ensemble", models.distmult["pipeline"], models.transe["pipeline"], "--force")
    assert forced.returncode == 0, forced.stderr
    assert models.last_run().info.run_id != run.info.run_id
    assert models.last_run().data.metrics["gt.linear.brier"] == metrics["gt.linear.brier"]  # the folds are the seed's


def test_an_ensemble_is_compared_with_single_models(models: Models) -> None:
    assert models("ensemble", models.transe["pipeline"], models.distmult["pipeline"]).returncode == 0
    table = models.home.parent / "all.csv"
    done = models("compare", "--dataset", "family", "--csv", str(table))
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ensemble")]
    assert len(rows) == 4
    text = table.read_text()
    assert "distmult transe" in text
    promoted = models("promote", "--dataset", "family")  # which has versions of one model each
    assert promoted.returncode == 0, promoted.stderr
    assert "ensemble" not in promoted.stdout


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ((), "Missing argument 'RUN RUN ...'"),
        (("transe",), "an ensemble needs at least two members: name the runs of two or more models"),
        (("transe", "transe"), "have the same model: each member of an ensemble is another"),
        (("transe", "abc"), "there is no MLflow run 'abc'"),
        (("transe", "prepare"), "a run of stage calibrate is needed"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(models: Models, runs: tuple[str, ...], message: str) -> None:
    ids = {"transe": models.transe["pipeline"], "prepare": models.transe["runs"]["prepare"]}
    done = models("ensemble", *(ids.get(run, run) for run in runs))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def calibrated(
    data: StageRef, model: str = "transe", base_rate: float = 0.5, seed: int = 0, **corrupt: Any
) -> StageRef:
    """A model that knows little, calibrated."""
    train = TrainConfig(model=model, k=8, epochs=4, batch_size=128, seed=seed)
    trained = train_model(data, train)
    made = corrupt_triples(data, None, CorruptConfig(calibration_eta=4, **corrupt))
    return calibrate_scores(score_triples(trained, made), CalibrateConfig(base_rate=base_rate))


def test_members_that_do_not_belong_together_are_refused(home: Path) -> None:
    data = prepare_data(PrepareConfig(size=300))
    first = calibrated(data)
    files = {name: (home / f"datasets/family-300-0/{name}.txt").read_text() for name in ("train", "valid", "test")}
    labels, folder = home / "labels.tsv", home / "mine"
    labels.write_text("".join(files["valid"].splitlines(keepends=True)[::2]))
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    mine = calibrated(prepare_data(PrepareConfig(dataset=str(folder))), "distmult")
    (folder / "test.txt").write_text("".join(files["test"].splitlines(keepends=True)[1:]))
    shorter = calibrated(prepare_data(PrepareConfig(dataset=str(folder))))
    for message, one, other in (
        ("are of the data sets", first, mine),
        ("have other training triples", first, calibrated(prepare_data(PrepareConfig(size=320)), "distmult")),
        ("have other validation triples", first, calibrated(add_labels(data, labels, instead=True), "distmult")),
        ("have other test triples", mine, shorter),
        ("were calibrated with base_rate 0.1 and 0.5", first, calibrated(data, "distmult", base_rate=0.1)),
        ("were calibrated on other corruptions", first, calibrated(data, "distmult", calibration_seed=1)),
    ):
        with pytest.raises(MismatchError, match=message):
            ensemble.fn(runs=[one.run_id, other.run_id])
    with pytest.raises(InputError, match="have the same model"):
        ensemble.fn(runs=[first.run_id, calibrated(data, base_rate=0.2).run_id])
    assert open_store().search(status=None, stage="ensemble") == []  # nothing was begun


@pytest.mark.usefixtures("home")
def test_the_model_that_is_logged_gives_the_probabilities_that_were_measured() -> None:
    data = prepare_data(PrepareConfig(size=300))
    members = [calibrated(data, seed=seed) for seed in (0, 1)]
    config = EnsembleConfig(pools=("log_odds",), member_calibrator="platt", folds=3)
    made = ensemble.fn(runs=[member.run_id for member in members], config=config)
    assert [member["name"] for member in made["members"]] == ["transe_seed_0", "transe_seed_1"]
    store = open_store()
    came_from = [inputs(store.run(member.run_id)) for member in members]
    tables = [store.load(runs["score"], "scores.parquet", storage.read_scores) for runs in came_from]
    judged = store.load(made["run"], "predictions.parquet", storage.read_predictions)
    apart = store.load(made["run"], "disagreement.parquet", pd.read_parquet)
    for model_id in store.model_ids(made["run"]):
        models, fitted = store.load_model(model_id, read_ensemble)
        assert models == [store.model_ids(runs["train"])[0] for runs in came_from]
        test = tables[0].measured("test")
        q = fitted.predict(fitted.member_probabilities([t.scores[test] for t in tables], [t.model for t in tables]))
        assert (q == judged.probabilities[fitted.label]).all()
        told = made["metrics"][fitted.negatives]["log_odds"]["brier"]
        assert told == pytest.approx(brier(q, tables[0].labels[test]))
        assert apart[fitted.label].mean() == pytest.approx(made["ensembles"][fitted.label]["disagreement"])


@pytest.mark.usefixtures("home")
def test_without_labelled_negatives_there_is_the_synthetic_ensemble(home: Path) -> None:
    rows = [f"e{i % 40}\tr{i % 2}\te{(i % 40 + i // 40 + 1) % 40}" for i in range(1200)]
    folder = home / "mine"
    folder.mkdir()
    for name, part in (("train", rows[:900]), ("valid", rows[900:1050]), ("test", rows[1050:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    results = [
        pipeline.fn(
            prepare=PrepareGiven(dataset=str(folder)),
            train=TrainGiven(model=model, k=8, epochs=10, batch_size=128),
            calibrate=CalibrateGiven(base_rate=0.2),
        )
        for model in ("transe", "distmult")
    ]
    made = ensemble.fn(runs=[result["pipeline"] for result in results])
    assert list(made["metrics"]) == ["synthetic"]
    frame = comparison(dataset=str(folder), base_rate=0.2)
    assert len(set(frame["test"])) == 1  # ranked with its members
    assert set(frame["model"]) == {"transe", "distmult", "ensemble"}
    assert promote.fn(dataset="mine")[0]["passed"] in (True, False)  # the newest sample is the members', too


def test_names_of_members_tell_them_apart() -> None:
    def settings(*told: tuple[str, str, int]) -> list[dict[str, Any]]:
        return [{"model": model, "loss": loss, "seed": seed} for model, loss, seed in told]

    assert member_names(settings(("transe", "nll", 0), ("hole", "nll", 0))) == ["transe", "hole"]
    assert member_names(settings(("transe", "nll", 0), ("transe", "pairwise", 0))) == ["transe_nll", "transe_pairwise"]
    assert member_names(settings(("transe", "nll", 0), ("transe", "nll", 1))) == ["transe_seed_0", "transe_seed_1"]
    three = settings(("hole", "nll", 0), ("hole", "nll", 1), ("hole", "pairwise", 1))
    assert member_names(three) == ["hole_nll_seed_0", "hole_nll_seed_1", "hole_pairwise_seed_1"]
    twice = settings(("hole", "nll", 0), ("hole", "nll", 0))
    assert member_names(twice) == ["hole_nll_seed_0_1", "hole_nll_seed_0_2"]
