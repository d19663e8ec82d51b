"""A new model, loss, calibrator or data set is one new file: here one of each, put beside the others at run time."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import commands
from kgcore.registries import CALIBRATORS, DATASETS, LOSSES, MODELS

pytestmark = pytest.mark.usefixtures("home")

FILES = {
    "models/bilinear_diagonal.py": '''
"""f(s, p, o) = 2 <s, p, o>."""
from kgcore.registries import MODELS
from kgcore.models.base import QueryModel
from kgcore.models.comparators import DotProduct

@MODELS.register("bilinear_diagonal")
class BilinearDiagonal(QueryModel):
    scale = 0.5
    comparator = DotProduct()

    def object_query(self, subjects, predicates):
        return 2 * subjects * predicates

    def subject_query(self, predicates, objects):
        return 2 * predicates * objects
''',
    "losses/squared_hinge.py": '''
"""sum (max(0, 1 + f- - f+))^2."""
from kgcore.registries import LOSSES
from kgcore.losses.base import Loss

@LOSSES.register("squared_hinge")
class SquaredHinge(Loss):
    def __call__(self, positives, negatives):
        return (1 + negatives - positives.unsqueeze(-1)).clamp_min(0).square().sum()
''',
    "calibration/median_split.py": '''
"""The weighted share of positives on either side of the mean score."""
from dataclasses import dataclass
import numpy as np
from kgcore.registries import CALIBRATORS
from kgcore.calibration.base import Calibrator

@CALIBRATORS.register("median_split")
@dataclass(frozen=True)
class MedianSplit(Calibrator):
    middle: float
    below: float
    above: float

    @classmethod
    def fit(cls, sample):
        middle = float(np.average(sample.scores, weights=sample.weights))
        low = sample.scores <= middle
        shares = [float(np.average(sample.labels[m], weights=sample.weights[m])) for m in (low, ~low)]
        return cls(middle, *shares)

    def parameters(self):
        return {"middle": self.middle, "below": self.below, "above": self.above}

    def predict(self, scores):
        return np.where(scores <= self.middle, self.below, self.above)
''',
    "datasets/clan.py": '''
"""A small family."""
from dataclasses import replace
from kgcore.registries import DATASETS

DATASETS.add("clan", replace(DATASETS.get("family"), name="clan"))
''',
}


@pytest.fixture
def new_files(tmp_path: Path) -> Iterator[None]:
    for name, text in FILES.items():
        path = tmp_path / "beside" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        importlib.import_module(f"kgcore.{path.parent.name}").__path__.append(str(path.parent))
    importlib.invalidate_caches()
    yield
    for name in FILES:
        package, _, module = name.removesuffix(".py").partition("/")
        importlib.import_module(f"kgcore.{package}").__path__.pop()
        sys.modules.pop(f"kgcore.{package}.{module}", None)
    for registry, name in ((MODELS, "bilinear_diagonal"), (LOSSES, "squared_hinge"), (CALIBRATORS, "median_split")):
        registry.remove(name)
    DATASETS.remove("clan")


@pytest.mark.usefixtures("new_files")
def test_one_new_file_each_goes_through_the_whole_pipeline(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    options = {"dataset": "clan", "size": 300, "model": "bilinear_diagonal", "loss": "squared_hinge"}
    options |= {"calibrators": "median_split", "k": 8, "epochs": 2, "batch-size": 128, "json": target}
    arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    result = CliRunner().invoke(commands.app, ["run", *arguments])
    assert result.exit_code == 0, result.output
    summary = json.loads(target.read_text())
    assert (summary["dataset"], summary["model"], summary["loss"]) == ("clan", "bilinear_diagonal", "squared_hinge")
    for negatives in ("ground_truth", "synthetic"):
        assert 0 < summary["metrics"][negatives]["median_split"]["brier"] < 0.5
    assert {"mrr", "hits_at_10"} <= set(summary["ranks"])
