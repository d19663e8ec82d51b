"""A champion of the family graph, and labels that people give to new triples: with and without drift."""

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from scipy.special import expit, logit

from flows.jobs.promote import promote
from flows.jobs.watch import watch
from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, CorruptConfig, PrepareConfig, TrainConfig, WatchConfig
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.find_model import load
from tasks.jobs.watch import WatchResult
from tests.conftest import use_home
from tests.pipeline.finished import copy_home, once, shared_folder


@dataclass(frozen=True)
class Champion:
    """A champion, and the labels that people give to new triples.

    results  results of the pipeline that made the champion
    labels   file of the labels
    """

    home: Path
    results: PipelineSummary
    labels: Path

    @property
    def client(self) -> MlflowClient:
        """Return MLflow's own client for the store."""
        return MlflowClient(tracking_uri=f"sqlite:///{self.home}/mlflow.db")

    def label(self, count: int, shift: float = 0.0, slope: float = 1.0, only: str = "") -> None:
        """Label triples with the log-odds slope * logit q + shift, q the probability of the champion.

        only  the label of all triples; '': as drawn
        """
        rows = pd.read_csv(self.home / "datasets/family-300-0/train.txt", sep="\t", header=None, dtype=str)
        rng, model = np.random.default_rng(5), load(dataset="family").calibrated
        picked = rows.sample(4 * count, replace=True, random_state=6)
        objects = picked.groupby(1)[2].transform(lambda column: rng.permutation(column.to_numpy()))
        frame = pd.DataFrame({"subject": picked[0], "predicate": picked[1], "object": objects}).drop_duplicates()
        known = model.graph.index(model.graph.train.triples, model.graph.valid.triples, model.graph.test.triples)
        frame = frame[~known.contains(model.graph.number(frame)[0])].head(count)
        q = np.clip(model.predict(frame)[1], 0.02, 0.98)
        true = rng.random(len(frame)) < expit(slope * logit(q) + shift)
        frame["label"] = only or np.where(true, "1", "-1")
        frame.to_csv(self.labels, sep="\t", header=False, index=False)

    def check(self, config: WatchConfig = WatchConfig()) -> WatchResult:
        """Check the champion on the labels."""
        return watch.fn(dataset="family", labels=str(self.labels), config=config)


def make_champion(home: Path) -> Champion:
    """Return a champion in a home: a copy of the one that the test session made first."""
    first, results = _first_champion()
    copy_home(first, home)
    report = results.report.replace(str(first), str(home))
    return Champion(home, replace(results, report=report), home / "new.tsv")


@cache
def _first_champion() -> tuple[Path, PipelineSummary]:
    """Run a pipeline and promote its best calibrator, in a home that no test gets."""
    home = shared_folder("champion")
    with pytest.MonkeyPatch.context() as patch:
        use_home(home, patch)
        text = once(home, lambda: json.dumps(_promoted().to_json()))
    return home, PipelineSummary.from_json(json.loads(text))


def _promoted() -> PipelineSummary:
    results = pipeline.fn(
        prepare=PrepareConfig(size=300),
        train=TrainConfig(k=16, epochs=30, batch_size=128),
        corrupt=CorruptConfig(calibration_strategy={"uniform": 1.0}, calibration_eta="3"),
        calibrate=CalibrateConfig(base_rate=0.4, calibrators=("beta",)),
    )
    [decision] = promote.fn(dataset="family")
    assert decision.passed
    return results
