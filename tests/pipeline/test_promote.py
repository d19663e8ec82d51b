"""The gate on a real store: which challenger becomes the champion, and which challenger cannot be compared."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow import MlflowClient

from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, GateConfig, PrepareConfig, TrainConfig
from kgcore.errors import InputError
from kgcore.measure.evaluation.evaluate import TOLERANCE
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.find_model import Ask, find_calibrated_model
from tasks.jobs.promote import Decision
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES, use_home
from tests.folders import ROWS, TEST, TRAIN, VALID, write_folder
from tests.pipeline.command import tags_of
from tests.pipeline.finished import copy_home

pytestmark = pytest.mark.usefixtures("quick_trees", "home")


def client_of(home: Path) -> MlflowClient:
    """Return MLflow's own client for the store in a home."""
    return MlflowClient(tracking_uri=f"sqlite:///{home}/mlflow.db")


def run_pipeline(prepare: PrepareConfig, train: TrainConfig, calibrate: CalibrateConfig) -> PipelineSummary:
    """Run a pipeline with few corruptions and few bootstrap replicates, and return its results."""
    return pipeline.fn(
        prepare=prepare,
        train=train,
        corrupt=FEW_CORRUPTIONS,
        calibrate=calibrate,
        evaluate=FEW_REPLICATES,
        preset="default",
    )


def trained(epochs: int, graph_seed: int = 0, calibrators: tuple[str, ...] | None = None) -> PipelineSummary:
    """Run a small pipeline and return its results; with more epochs, its model is better."""
    prepare, train = PrepareConfig(size=300, graph_seed=graph_seed), TrainConfig(k=16, epochs=epochs, batch_size=128)
    return run_pipeline(prepare, train, CalibrateConfig(calibrators=calibrators))


def brier(results: PipelineSummary) -> float:
    """Return the Brier score of the calibrator that is promoted."""
    return results.results.row("ground_truth", "beta").metrics["brier"]


def decided(**options: Any) -> Decision:
    """Return the only decision of the gate on the family graph."""
    [decision] = promote.fn(dataset="family", **options)
    return decision


def version_of(home: Path, alias: str) -> str:
    """Return the number of the version that has the alias."""
    return str(client_of(home).get_model_version_by_alias("kgcal-family", alias).version)


@dataclass(frozen=True)
class Begun:
    """A store in which the gate has judged a model of one epoch, and then a model of 16 epochs.

    weak     results of the model of 16 epochs
    useless  decision about the model of one epoch
    first    decision about the model of 16 epochs
    """

    home: Path
    weak: PipelineSummary
    useless: Decision
    first: Decision


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """Return the store in which the first champion was found; tests work in copies of it."""
    home = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        use_home(home, patch)
        trained(epochs=1, calibrators=("beta",))
        useless = decided()
        weak = trained(epochs=16)
        [first] = promote.fn()  # every data set with results: family
        return Begun(home, weak, useless, first)


@pytest.fixture(scope="module")
def followed(begun: Begun, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PipelineSummary]:
    """Return a copy of that store with a better model that is not judged yet, and the results of that model."""
    home = tmp_path_factory.mktemp("followed")
    copy_home(begun.home, home)
    with pytest.MonkeyPatch.context() as patch:
        use_home(home, patch)
        return home, trained(epochs=18)


def test_without_results_there_is_nothing_to_promote() -> None:
    with pytest.raises(InputError, match="no finished evaluation"):
        promote.fn()


def test_the_first_champion_must_beat_the_base_rate(begun: Begun) -> None:
    assert not begun.useless.passed
    assert begun.useless.champion is None
    assert "against the base rate, as there is no champion yet" in begun.useless.explanation
    assert begun.first.passed
    assert begun.first.champion == begun.first.challenger == "models:/kgcal-family/2"
    assert "It is the new champion." in begun.first.explanation
    assert (version_of(begun.home, "champion"), version_of(begun.home, "challenger")) == ("2", "2")


def test_the_champion_is_not_judged_against_itself(begun: Begun, home: Path) -> None:
    copy_home(begun.home, home)
    again = decided()
    assert not again.passed
    assert again.run is None
    assert (
        "version 2 is already the champion, and there is no new challenger: all others were judged before"
        in again.explanation
    )
    trained(epochs=16)  # the same comparison again
    assert decided().challenger == begun.first.challenger == "models:/kgcal-family/2"


def test_a_better_model_takes_the_champions_place_and_a_worse_one_does_not(
    begun: Begun, followed: tuple[Path, PipelineSummary], home: Path
) -> None:
    store, strong = followed
    copy_home(store, home)
    assert brier(strong) < brier(begun.weak)
    second = decided(config=GateConfig(margin=0.1))
    assert second.passed
    assert (version_of(home, "champion"), version_of(home, "challenger")) == ("3", "3")
    assert second.run is not None
    run = client_of(home).get_run(second.run)
    assert run.data.metrics["brier_gain_low"] > 0
    assert run.data.metrics["passed"] == 1
    judged, counted = (int(run.data.params[name]) for name in ("candidates", "counted"))
    assert counted == 3 * judged  # each is the best of three calibrators on the triples of the exam
    assert (tags_of(run).stage, tags_of(run).note) == ("promote", second.explanation)

    worse = trained(epochs=17, calibrators=("beta",))
    assert brier(worse) > brier(strong)
    third = decided()
    assert "It is not promoted." in third.explanation
    assert (version_of(home, "champion"), version_of(home, "challenger")) == ("3", "4")
    assert decided().run is None  # nothing is judged twice on the same paper


def test_a_gain_within_the_interval_is_not_enough(followed: tuple[Path, PipelineSummary], home: Path) -> None:
    copy_home(followed[0], home)
    decision = decided(config=GateConfig(level=1 - 1e-16))  # the widest interval
    assert "is not significantly lower" in decision.explanation, decision.explanation
    assert not decision.passed
    assert (version_of(home, "champion"), version_of(home, "challenger")) == ("2", "3")


@pytest.mark.long
def test_a_champion_of_another_graph_is_not_compared_with(begun: Begun, home: Path) -> None:
    copy_home(begun.home, home)
    trained(epochs=1, graph_seed=1, calibrators=("beta",))
    with pytest.raises(InputError, match="was trained on a different graph with the same name"):
        decided()
    assert "The newest run has another graph of this name, with" in find_calibrated_model(Ask(dataset="family")).because
    assert "another graph" not in find_calibrated_model(Ask("latest", "family")).because


def with_base_rates(folder: Path, splits: tuple[list[str], ...]) -> tuple[PrepareConfig, TrainConfig, CalibrateConfig]:
    """Make the champion a calibrator of a data set at the assumed base rate. Return the settings."""
    config = PrepareConfig(dataset=str(write_folder(folder, *splits)))
    train, isotonic = TrainConfig(k=16, epochs=60, batch_size=128), CalibrateConfig(calibrators=("smoothed_isotonic",))
    run_pipeline(config, train, isotonic)
    [first] = promote.fn(dataset=str(folder))
    assert first.challenger == "models:/kgcal-mine/1"
    client_of(folder.parent).set_registered_model_alias("kgcal-mine", "champion", "1")
    return config, train, isotonic


@pytest.mark.long
def test_the_exam_is_weighted_to_the_stated_base_rate(home: Path) -> None:
    rows = np.random.default_rng(0).permutation(ROWS).tolist()
    config, train, isotonic = with_base_rates(home / "mine", (rows[:900], rows[900:1050], rows[1050:]))
    client = client_of(home)
    run_pipeline(config, train, isotonic.replace(base_rate=0.1))
    with pytest.raises(InputError, match=r"base_rate is 1.5: it must be above 0 and below 1"):
        promote.fn(dataset="mine", base_rate=1.5)
    assert client.get_model_version_by_alias("kgcal-mine", "challenger").version == 1  # nothing has moved
    [kept] = promote.fn(dataset="mine", base_rate=0.5)
    assert "weighted to the stated base rate 0.5" in kept.explanation
    assert not kept.passed
    [moved] = promote.fn(dataset="mine")  # only the newest run states a base rate
    assert "weighted to the base rate that the newest run states, 0.1" in moved.explanation
    assert moved.passed
    [again] = promote.fn(dataset="mine", base_rate=0.5)  # both were judged at 0.5 before
    assert again.run is None
    assert again.champion == moved.champion == "models:/kgcal-mine/2"


@pytest.mark.long
def test_a_calibrator_whose_error_on_its_own_test_is_above_the_tolerance_does_not_pass(home: Path) -> None:
    """The facts of test are unlike those of valid. The challenger is better than the champion, but not calibrated."""
    config, train, isotonic = with_base_rates(home / "mine", (list(TRAIN), list(VALID), list(TEST)))
    at_a_tenth = isotonic.replace(base_rate=0.1)
    results = run_pipeline(config, train, at_a_tenth)
    low, high = results.results.row("synthetic", "smoothed_isotonic").intervals["debiased_rmsce"]
    assert results.answers == "synthetic.smoothed_isotonic"
    assert low > TOLERANCE
    wrong = results.miscalibrated[results.answers]
    assert f"[{low:.4f}, {high:.4f}], and 0.02 is the tolerance." in wrong
    assert results.brief.verdict.startswith("The probabilities of smoothed isotonic cannot be trusted yet, for triples")
    assert results.brief.verdict.endswith(wrong)
    assert not any("by construction" in note for note in results.notes)
    report = Path(results.report).read_text()
    assert report.index(wrong) < report.index("Measured on")
    [decision] = promote.fn(dataset="mine")
    assert "its Brier score is significantly lower" in decision.explanation
    assert f"{wrong} It is not promoted." in decision.explanation
    assert not decision.passed
    assert decision.champion == "models:/kgcal-mine/1"
