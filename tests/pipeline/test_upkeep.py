"""The gate and the watch, on a real store: who becomes champion, who does not, and what a look finds."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from flows.pipeline import pipeline
from flows.upkeep import promote, watch
from kgcore.config import PrepareConfig, TrainConfig, WatchConfig
from kgcore.errors import InputError
from tasks.store import open_store

pytestmark = pytest.mark.usefixtures("home")


def trained(epochs: int) -> dict:
    """The results of a small pipeline; the more epochs, the better its model."""
    train = TrainConfig(k=16, epochs=epochs, batch_size=128)
    return pipeline.fn(prepare=PrepareConfig(size=300), train=train)


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

    slightly = pipeline.fn(prepare=PrepareConfig(size=300), train=TrainConfig(k=16, epochs=60, batch_size=128, seed=1))
    [third] = promote.fn(dataset="family")
    brier = [min(v["brier"] for v in r["metrics"]["ground_truth"].values()) for r in (strong, slightly)]
    if brier[1] < brier[0]:  # a little better, which another seed is by luck alone
        assert "is not better beyond the interval" in third["explanation"]
    assert not third["passed"]
    assert champion(client) == "3"


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
    results = trained(epochs=30)
    promote.fn(dataset="family")
    with pytest.raises(InputError, match="0 triples can be judged: at least 50 are needed"):
        watch.fn(dataset="family", labels=str(labels))

    nonsense = labelled(home, rng, 150, wrong=False)  # the world calls true what the model finds absurd
    seen = watch.fn(dataset="family", labels=str(nonsense))
    assert seen["number"] == 1
    assert "recalibrated" not in seen
    assert any("the probabilities are off" in finding for finding in seen["findings"])
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
