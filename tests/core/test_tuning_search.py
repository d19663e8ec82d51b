"""Searches that are resumed, pruned, failed, interrupted or shared between processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna import Study
from optuna.trial import TrialState

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import FitError
from kgcore.wings.tuning import search
from kgcore.wings.tuning.objective import SearchObjective
from kgcore.wings.tuning.record import Record
from kgcore.wings.tuning.space import RANGES, STEPS
from kgcore.wings.tuning.study import begun, best, completed, config_of, open_study, running, trials_table
from tests.conftest import random_graph
from tests.core.searches import BASE, run, story, without_test


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return without_test(random_graph(np.random.default_rng(7)))


@pytest.fixture(scope="module")
def whole(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Return the study of an uninterrupted search of 13 trials."""
    return run(graph, tmp_path_factory.mktemp("whole") / "whole.db", 13)


def test_a_resumed_search_equals_an_uninterrupted_one(graph: KnowledgeGraph, whole: Study, tmp_path: Path) -> None:
    assert len(begun(whole)) == 13
    assert config_of(begun(whole)[0]) == BASE
    run(graph, tmp_path / "parts.db", 2)
    run(graph, tmp_path / "parts.db", 11)
    parts = run(graph, tmp_path / "parts.db", 13)
    assert story(parts) == story(whole)
    assert best(parts).value == min(trial.value for trial in completed(whole))
    assert len({trial.params["learning_rate"] for trial in begun(whole)}) == 13
    anew = open_study(tmp_path / "parts.db", "brier", anew=True)
    assert not anew.get_trials()


class Worth(SearchObjective):
    """An objective: Brier score 0.1 for models of size 50, and 0.2 for others. Models with a size in `explode` fail."""

    def __init__(self, explode: tuple[int, ...] = ()) -> None:
        self.metric, self.explode = "brier", explode

    def measure(self, trained: Any) -> dict[str, float]:
        if trained.k in self.explode:
            raise FitError("it explodes: lower the learning rate")
        return {"brier": 0.1 if trained.k == 50 else 0.2}


def test_a_trial_worse_than_the_median_at_the_same_part_is_pruned(graph: KnowledgeGraph, tmp_path: Path) -> None:
    open_study(tmp_path / "study.db", "brier", [{"k": 50 if n < 6 else 200} for n in range(8)])
    base = BASE.replace(epochs=8)
    study = run(graph, tmp_path / "study.db", 8, judge=Worth(), searched=("k",), base=base)
    states = [trial.state for trial in study.get_trials()]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.PRUNED] * 2
    table = trials_table(study)
    assert table["state"].tolist() == ["complete"] * 6 + ["pruned"] * 2
    assert table["epochs_done"].tolist() == [8] * 6 + [2] * 2
    assert table["brier"].tolist() == table["value"].tolist() == [0.1] * 6 + [0.2] * 2
    assert list(study.get_trials()[0].intermediate_values) == [1, 2, 3]


def test_a_failed_trial_keeps_its_reason_and_the_search_continues(graph: KnowledgeGraph, tmp_path: Path) -> None:
    sizes = [{"k": 50}, {"k": 200}, {"k": 50}]
    open_study(tmp_path / "study.db", "brier", sizes)
    study = run(graph, tmp_path / "study.db", 3, judge=Worth(explode=(200,)), searched=("k",))
    table = trials_table(study)
    assert table["state"].tolist() == ["complete", "failed", "complete"]
    assert table["reason"].tolist() == ["", "it explodes: lower the learning rate", ""]
    open_study(tmp_path / "none.db", "brier", sizes)
    none = run(graph, tmp_path / "none.db", 3, judge=Worth(explode=(4, *STEPS["k"])), searched=("k",))
    with pytest.raises(FitError, match=r"no trial is complete: it explodes: lower the learning rate$"):
        best(none)


def test_a_loss_that_diverges_fails_its_trial(graph: KnowledgeGraph, tmp_path: Path) -> None:
    base = BASE.replace(model="distmult", loss="multiclass_nll", epochs=50, learning_rate=1e30)
    study = run(graph, tmp_path / "study.db", 2, searched=("training_strategy",), base=base)
    assert {trial.state for trial in begun(study)} == {TrialState.FAIL}
    assert all("lower the learning rate" in trial.user_attrs["reason"] for trial in begun(study))


class Raising(Record):
    """A callback that raises an exception in the second epoch of a trial."""

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason

    def epoch(self, epoch: int, loss: float) -> None:
        if epoch == 2:
            raise self.reason


def raising(at: int, reason: BaseException) -> Any:
    """Return the records of a search in which the trial with that number raises an exception."""

    @contextmanager
    def record(number: int, config: TrainConfig) -> Iterator[Record]:
        yield Raising(reason) if number == at else Record()

    return record


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), SystemExit(143), OSError("no space left")])
def test_an_interrupted_trial_runs_again(
    graph: KnowledgeGraph, whole: Study, tmp_path: Path, reason: BaseException
) -> None:
    if isinstance(reason, KeyboardInterrupt):
        study = run(graph, tmp_path / "parts.db", 4, open_record=raising(2, reason))
        assert study.user_attrs["interrupted"]
    else:
        with pytest.raises(type(reason)):
            run(graph, tmp_path / "parts.db", 4, open_record=raising(2, reason))
        study = open_study(tmp_path / "parts.db", "brier")
    assert len(begun(study)) == 2
    assert not running(study)
    study = run(graph, tmp_path / "parts.db", 4)
    assert not study.user_attrs["interrupted"]
    assert story(study) == story(whole)[:4]


def test_a_trial_runs_again_if_an_interruption_comes_before_its_number_is_known(
    graph: KnowledgeGraph, whole: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(graph, tmp_path / "parts.db", 2)
    ask = Study.ask

    def stored_then_interrupted(study: Study) -> None:
        ask(study)
        raise SystemExit(143)

    with monkeypatch.context() as patched:
        patched.setattr(Study, "ask", stored_then_interrupted)
        with pytest.raises(SystemExit):
            run(graph, tmp_path / "parts.db", 4)
    assert not running(open_study(tmp_path / "parts.db", "brier"))
    assert story(run(graph, tmp_path / "parts.db", 4)) == story(whole)[:4]


def test_an_interruption_before_any_trial_is_complete_is_raised(graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(graph, tmp_path / "study.db", 6, open_record=raising(0, KeyboardInterrupt()))
    study = run(graph, tmp_path / "study.db", 1)
    assert len(begun(study)) == 1
    assert config_of(begun(study)[0]) == BASE


def test_running_trials_count_while_their_process_lives_and_run_again_when_it_does_not(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    run(graph, tmp_path / "study.db", 1)
    study = open_study(tmp_path / "study.db", "brier")
    taken = study.ask()
    rate = taken.suggest_float("learning_rate", *RANGES["learning_rate"], log=True)
    beside = run(graph, tmp_path / "study.db", 3, lives=lambda trial: True)
    assert [trial.state for trial in begun(beside)].count(TrialState.RUNNING) == 1
    assert len(begun(beside)) == 3
    after = run(graph, tmp_path / "study.db", 3, lives=lambda trial: False)
    assert not running(after)
    assert len(begun(after)) == 3
    assert begun(after)[-1].params["learning_rate"] == rate


def test_time_ends_a_search_in_the_middle_of_a_trial(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(search.time, "monotonic", lambda: now[0])

    class Clock(Record):
        def epoch(self, epoch: int, loss: float) -> None:
            now[0] += 1

    @contextmanager
    def record(number: int, config: TrainConfig) -> Iterator[Record]:
        yield Clock()

    study = run(graph, tmp_path / "study.db", 9, seconds=2, open_record=record)  # a trial of 4 epochs
    assert [trial.state for trial in begun(study)] == [TrialState.COMPLETE]  # the first trial runs to its end
    study = run(graph, tmp_path / "study.db", 9, seconds=2, open_record=record)
    assert len(begun(study)) == 1
    assert [trial.state for trial in study.get_trials()[1:]] == [TrialState.FAIL, TrialState.WAITING]
    assert not study.user_attrs["interrupted"]


def test_a_row_of_a_trial_has_its_figures_and_settings_as_columns(graph: KnowledgeGraph, tmp_path: Path) -> None:
    study = run(graph, tmp_path / "study.db", 2)
    trials, table = begun(study), trials_table(study)
    figures = [trial.user_attrs["figures"] for trial in trials]
    names = ["trial", "state", "value", "epochs_done", "seconds", "reason", "run", *figures[0], *BASE.as_dict()]
    assert list(table.columns) == names
    assert table[["trial", "state", "epochs_done"]].values.tolist() == [[0, "complete", 4], [1, "complete", 6]]
    assert config_of(trials[0]) == BASE
    assert table["value"].tolist() == [values["brier"] for values in figures]
    assert table["log_loss"].tolist() == [values["log_loss"] for values in figures]
    assert table["training_strategy"].tolist() == [config_of(trial).training_strategy for trial in trials]
