"""The gate and the watch, on a real store: who becomes champion, who does not, and what a look finds."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from flows.pipeline import pipeline
from flows.upkeep import promote, watch
from kgcore.config import CalibrateGiven, CorruptGiven, GateConfig, PrepareGiven, TrainGiven, WatchConfig
from kgcore.errors import InputError
from tasks.tracking.store import open_store

pytestmark = pytest.mark.usefixtures("home")


def trained(epochs: int) -> dict:
    """The results of a small pipeline; the more epochs, the better its model."""
    train = TrainGiven(k=16, epochs=epochs, batch_size=128)
    return pipeline.fn(prepare=PrepareGiven(size=300), train=train)


def champion(client: MlflowClient, alias: str = "champion") -> str:
    return str(client.get_model_version_by_alias("kgcal-family", alias).version)


def test_a_better_model_takes_the_champion_s_place_and_a_worse_one_does_not() -> None:
    with pytest.raises(InputError, match="no finished evaluation"):
        promote.fn()
    trained(epochs=1)
    [useless] = promote.fn(dataset="family")
    assert not useless["passed"]
    assert useless["champion"] is None
    assert "against the base rate, as there is no champion yet" in useless["explanation"]
    weak = trained(epochs=16)
    client = open_store().client
    [first] = promote.fn()  # every data set with results: family
    assert first["passed"]
    assert first["champion"] == first["challenger"] == "models:/kgcal-family/2"
    assert "It is the champion now." in first["explanation"]

    [again] = promote.fn(dataset="family")
    assert not again["passed"]
    assert again["run"] is None
    assert "is the champion already" in again["explanation"]
    trained(epochs=16)  # the same once more
    [same] = promote.fn(dataset="family")
    assert same["challenger"] == "models:/kgcal-family/2"

    strong = trained(epochs=60)
    assert strong["metrics"]["ground_truth"]["platt"]["brier"] < weak["metrics"]["ground_truth"]["platt"]["brier"]
    [second] = promote.fn(dataset="family")
    assert second["passed"]
    assert (champion(client), champion(client, "challenger")) == ("3", "3")
    run = client.get_run(second["run"])
    assert run.data.metrics["brier_gain_low"] > 0
    assert run.data.metrics["passed"] == 1
    assert run.data.tags["mlflow.note.content"] == second["explanation"]

    worse = trained(epochs=30)
    [third] = promote.fn(dataset="family")  # the best of all is the champion already
    assert worse["metrics"]["ground_truth"]["platt"]["brier"] > strong["metrics"]["ground_truth"]["platt"]["brier"]
    assert "is the champion already" in third["explanation"]
    assert champion(client) == "3"

    client.set_registered_model_alias("kgcal-family", "champion", "2")
    [fourth] = promote.fn(dataset="family", config=GateConfig(level=1 - 1e-16))  # an interval as wide as can be
    assert "is not significantly lower" in fourth["explanation"]
    assert not fourth["passed"]
    assert champion(client) == "2"


def test_a_champion_of_another_graph_or_base_rate_is_not_compared_with(home: Path) -> None:
    train = TrainGiven(k=16, epochs=30, batch_size=128)
    trained(epochs=30)
    promote.fn(dataset="family")
    pipeline.fn(prepare=PrepareGiven(size=300, graph_seed=1), train=train)
    with pytest.raises(InputError, match="was trained on another graph of that name"):
        promote.fn(dataset="family")


def test_corruptions_are_compared_at_the_base_rate_that_the_champion_is_for(home: Path) -> None:
    rows = [f"e{i % 40}\tr{i % 2}\te{(i % 40 + i // 40 + 1) % 40}" for i in range(1200)]
    folder = home / "mine"
    folder.mkdir()
    for name, part in (("train", rows[:900]), ("valid", rows[900:1050]), ("test", rows[1050:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    config, train = PrepareGiven(dataset=str(folder)), TrainGiven(k=16, epochs=60, batch_size=128)
    pipeline.fn(prepare=config, train=train)
    [first] = promote.fn(dataset=str(folder))
    assert first["challenger"] == "models:/kgcal-mine/1"
    open_store().client.set_registered_model_alias("kgcal-mine", "champion", "1")
    pipeline.fn(prepare=config, train=train, calibrate=CalibrateGiven(base_rate=0.1))
    with pytest.raises(InputError, match=r"is for a base rate of 0.5, the newest test sample is weighted to 0.1"):
        promote.fn()
    [again] = promote.fn(dataset="mine", base_rate=0.5)
    assert "is the champion already" in again["explanation"]


def labelled(home: Path, rng: np.random.Generator, count: int, wrong: bool) -> Path:
    """New triples: wrong objects for training subjects, with labels that say so, or that say they are true."""
    rows = pd.read_csv(home / "datasets/family-300-0/train.txt", sep="\t", header=None, dtype=str)
    picked = rows.sample(count, random_state=5)
    shuffled = picked[2].sample(frac=1, random_state=6).to_numpy()
    frame = pd.DataFrame({0: picked[0], 1: picked[1], 2: shuffled, 3: "-1" if wrong else "1"})
    frame = frame.drop_duplicates([0, 1, 2])
    path = home / f"new-{wrong}.tsv"
    frame.to_csv(path, sep="\t", header=False, index=False)
    return path


def test_a_champion_is_watched_and_recalibrated(home: Path, rng: np.random.Generator) -> None:
    labels = home / "labels.tsv"
    labels.write_text("a\tb\tc\t1\n")
    with pytest.raises(InputError, match="family has no champion to watch"):
        watch.fn(dataset="family", labels=str(labels))
    train = TrainGiven(k=16, epochs=30, batch_size=128)
    results = pipeline.fn(
        prepare=PrepareGiven(size=300),
        train=train,
        corrupt=CorruptGiven(calibration_strategy={"uniform": 1.0}),
        calibrate=CalibrateGiven(base_rate=0.4),
    )
    promote.fn(dataset="family")
    with pytest.raises(InputError, match="0 new triples have labels and known names: at least 50 are needed"):
        watch.fn(dataset="family", labels=str(labels))

    nonsense = labelled(home, rng, 150, wrong=False)  # the world calls true what the model finds absurd
    seen = watch.fn(dataset="family", labels=str(nonsense))
    assert seen["number"] == 1
    assert "recalibrated" not in seen
    assert any("the probabilities are miscalibrated" in finding for finding in seen["findings"])
    assert watch.fn(dataset="family", labels=str(nonsense)) == seen  # nothing new to look at

    config = WatchConfig(on_drift="recalibrate", alpha=0.02)
    again = watch.fn(dataset="family", labels=str(nonsense), config=config)
    assert again["number"] == 2
    assert again["run"] == seen["run"]
    client = open_store().client
    series = client.get_metric_history(seen["run"], "brier")
    assert [(point.step, point.value) for point in series] == [
        (1, seen["metrics"]["brier"]),
        (2, again["metrics"]["brier"]),
    ]
    manifest = json.loads(Path(client.download_artifacts(again["recalibrated"], "manifest.json")).read_text())
    assert client.get_run(manifest["train"]).data.tags["kgcal.adopted"] == results["runs"]["train"]
    assert client.get_run(manifest["prepare"]).data.tags["kgcal.labels"] == nonsense.name
    made = {stage: json.loads(client.get_run(manifest[stage]).data.tags["kgcal.config"]) for stage in manifest}
    assert made["corrupt"]["strategy"] == {"uniform": 1.0}  # as the champion was made
    assert made["calibrate"]["base_rate"] == 0.4
    once_more = watch.fn(dataset="family", labels=str(nonsense), config=config)
    assert once_more["recalibrated"] == again["recalibrated"]  # one look leads to one recalibration
