"""The members of an ensemble: which models can be combined, their names, and the model that combines them."""

from pathlib import Path
from typing import Any

import pytest

from flows.jobs.ensemble import ensemble
from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import (
    CalibrateConfig,
    CorruptConfig,
    EnsembleConfig,
    PrepareConfig,
    TrainConfig,
)
from kgcore.errors import InputError, MismatchError
from kgcore.measure.metrics.proper import brier
from kgcore.wings.ensembles.ensemble import pooling_of
from tasks.jobs.compare import comparison
from tasks.jobs.ensemble import member_names
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.corrupt import CORRUPT
from tasks.stages.prepare import PREPARE, add_labels
from tasks.stages.running import StageRef
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import CALIBRATOR, DISAGREEMENT, ENSEMBLE_PREDICTIONS, SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.registry import sources_of
from tasks.tracking.store import open_store
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES
from tests.folders import write_folder

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("quick_trees", "home")]


def calibrated(
    data: StageRef, model: str = "transe", base_rate: float = 0.5, seed: int = 0, **corrupt: Any
) -> StageRef:
    """Return a calibrated model after a very short training."""
    trained = TRAIN(data, config=TrainConfig(model=model, k=8, epochs=4, batch_size=128, seed=seed))
    made = CORRUPT(data, None, config=CorruptConfig(calibration_eta=4, **corrupt))
    return CALIBRATE(SCORE(trained, made), config=CalibrateConfig(base_rate=base_rate))


def test_members_that_do_not_belong_together_are_refused(home: Path) -> None:
    data = PREPARE(config=PrepareConfig(size=300))
    first = calibrated(data)
    files = {name: (home / f"datasets/family-300-0/{name}.txt").read_text() for name in ("train", "valid", "test")}
    rows = {name: text.splitlines() for name, text in files.items()}
    labels = home / "labels.tsv"
    labels.write_text("\n".join(rows["valid"][::2]) + "\n")
    folder = write_folder(home / "mine", **rows)
    mine = calibrated(PREPARE(config=PrepareConfig(dataset=str(folder))), "distmult")
    write_folder(folder, rows["train"], rows["valid"], rows["test"][1:])
    shorter = calibrated(PREPARE(config=PrepareConfig(dataset=str(folder))))
    for message, one, other in (
        ("have the data sets", first, mine),
        ("have different training triples", first, calibrated(PREPARE(config=PrepareConfig(size=320)), "distmult")),
        ("have different validation triples", first, calibrated(add_labels(data, labels, instead=True), "distmult")),
        ("have different test triples", mine, shorter),
        (r"were calibrated with base_rate 0\.1 and 0\.5", first, calibrated(data, "distmult", base_rate=0.1)),
        ("were calibrated on different corruptions", first, calibrated(data, "distmult", calibration_seed=1)),
    ):
        with pytest.raises(MismatchError, match=message):
            ensemble.fn(runs=[one.run_id, other.run_id])
    with pytest.raises(InputError, match="have the same model"):
        ensemble.fn(runs=[first.run_id, calibrated(data, base_rate=0.2).run_id])
    assert open_store().find(RunTags(stage="ensemble"), status=None) == []  # no run was opened


def test_the_logged_model_gives_the_probabilities_that_were_measured() -> None:
    data = PREPARE(config=PrepareConfig(size=300))
    members = [calibrated(data, seed=seed) for seed in (0, 1)]
    config = EnsembleConfig(pools=("log_odds",), member_calibrator="platt", folds=3)
    made = ensemble.fn(runs=[member.run_id for member in members], config=config).to_json()
    assert [member["name"] for member in made["members"]] == ["transe_seed_0", "transe_seed_1"]
    store = open_store()
    came_from = [store.get(member.run_id).tags.inputs for member in members]
    tables = [store.load(runs["score"], SCORES) for runs in came_from]
    judged = store.load(made["run"], ENSEMBLE_PREDICTIONS)
    _, apart = store.load(made["run"], DISAGREEMENT)
    logged = store.get(made["run"]).model_ids
    assert [store.model(model_id).label for model_id in logged] == ["ground_truth.log_odds", "synthetic.log_odds"]
    for model_id in logged:
        fitted = store.load_model(model_id, CALIBRATOR)
        assert sources_of(store, model_id).models == tuple(store.get(runs["train"]).model_ids[0] for runs in came_from)
        test = tables[0].measured("test")
        pooling, prints = pooling_of(fitted), [t.model for t in tables]
        members = pooling.member_probabilities([t.scores[test] for t in tables], prints)
        q = fitted.predict(pooling.log_odds(members), fitted.model)
        assert (q == judged.probabilities[fitted.label]).all()
        measured = made["metrics"][fitted.negatives]["log_odds"]["brier"]
        assert measured == pytest.approx(brier(q, tables[0].labels[test]))
        assert apart[fitted.label].mean() == pytest.approx(made["ensembles"][fitted.label]["disagreement"])


def test_without_labelled_negatives_there_is_the_synthetic_ensemble_alone(home: Path) -> None:
    folder = write_folder(home / "mine")
    results = [
        pipeline.fn(
            prepare=PrepareConfig(dataset=str(folder)),
            train=TrainConfig(model=model, k=8, epochs=10, batch_size=128),
            corrupt=FEW_CORRUPTIONS,
            calibrate=CalibrateConfig(base_rate=0.2),
            evaluate=FEW_REPLICATES,
            preset="default",
        )
        for model in ("transe", "distmult")
    ]
    made = ensemble.fn(runs=[result.pipeline for result in results])
    assert made.results.negatives == ["synthetic"]
    frame = comparison(dataset=str(folder), base_rate=0.2)
    assert len(set(frame["test"])) == 1  # `compare` ranks it with its members
    assert set(frame["model"]) == {"transe", "distmult", "ensemble"}
    [decision] = promote.fn(dataset="mine")  # the members were measured on the newest sample, too
    assert decision.challenger == "models:/kgcal-mine/1"
    assert decision.run is not None  # the gate compared them


@pytest.mark.parametrize(
    ("trainings", "names"),
    [
        ([("transe", "nll", 0), ("hole", "nll", 0)], ["transe", "hole"]),
        ([("transe", "nll", 0), ("transe", "pairwise", 0)], ["transe_nll", "transe_pairwise"]),
        ([("transe", "nll", 0), ("transe", "nll", 1)], ["transe_seed_0", "transe_seed_1"]),
        (
            [("hole", "nll", 0), ("hole", "nll", 1), ("hole", "pairwise", 1)],
            ["hole_nll_seed_0", "hole_nll_seed_1", "hole_pairwise_seed_1"],
        ),
        ([("hole", "nll", 0), ("hole", "nll", 0)], ["hole_nll_seed_0_1", "hole_nll_seed_0_2"]),
    ],
)
def test_members_are_named_by_what_tells_them_apart(trainings: list[tuple[str, str, int]], names: list[str]) -> None:
    settings = [TrainConfig(model=model, loss=loss, seed=seed) for model, loss, seed in trainings]
    assert member_names(settings) == names
