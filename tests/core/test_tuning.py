"""The search for settings: its figure by hand, its space, pruning, repeatability, and that it never sees the test
split."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FixedTrial, TrialState

from kgcore import storage
from kgcore.config import CorruptConfig, TrainConfig
from kgcore.errors import FitError, InputError
from kgcore.graph import KnowledgeGraph, Split
from kgcore.metrics.ranks import rank_metrics
from kgcore.ranking import filtered_ranks
from kgcore.registries import MODELS
from kgcore.registry import build
from kgcore.training.loop import train
from kgcore.tuning import METRICS, SEARCHABLE, search
from kgcore.tuning.held_out import HeldOut, halves, held_out
from kgcore.tuning.objective import Objective
from kgcore.tuning.record import Record
from kgcore.tuning.search import Plan
from kgcore.tuning.space import ETAS, INITIAL_SCALES, LEARNING_RATES, LP_WEIGHTS, STEPS, Space
from kgcore.tuning.study import begun, best, completed, config_of, open_study, running, trials_table

CPU = torch.device("cpu")
EMPTY = Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0))
BASE = TrainConfig(k=4, epochs=4, training_eta=5, batch_size=200)


@pytest.fixture
def graph(small_graph: KnowledgeGraph) -> KnowledgeGraph:
    return replace(small_graph, test=EMPTY)


def unlabelled(graph: KnowledgeGraph) -> KnowledgeGraph:
    positives = graph.valid.positives
    return replace(graph, valid=Split(positives, np.ones(len(positives))))


def objective(graph: KnowledgeGraph, metric: str = "brier", base_rate: float = 0.5, seed: int = 0) -> Objective:
    return Objective(graph, metric, CorruptConfig(), base_rate, np.random.default_rng(seed))


class Scored:
    """A model that gives the triples these scores."""

    def __init__(self, *scores: float) -> None:
        self.scores = np.array(scores)

    def score(self, triples: np.ndarray) -> np.ndarray:
        return self.scores if len(self.scores) > 1 else np.full(len(triples), self.scores[0])


def by_hand() -> HeldOut:
    """Two halves of four: one is 0 1 0 1 at the scores 0 1 2 3, the other 0 0 1 1 at 0.5 1.5 2.5 4."""
    labels, second = np.array([0, 1, 0, 1, 0, 0, 1, 1.0]), np.arange(8) >= 4
    return HeldOut(np.zeros((8, 3), dtype=np.int64), labels, second, None)


SCORES = (0, 1, 2, 3, 0.5, 1.5, 2.5, 4)


def test_cross_fitted_probabilities_by_hand() -> None:
    # of the first half: 0, then 1 and 0 pooled to 1/2, then 1; of the second: 0 up to 1.5, 1 from 2.5 on
    np.testing.assert_allclose(by_hand().cross_fitted(np.array(SCORES)), [0, 0, 0.5, 1, 0.25, 0.5, 0.75, 1])


def test_the_figures_by_hand(graph: KnowledgeGraph) -> None:
    judge = objective(graph)
    judge.held_out = by_hand()
    figures = judge.measure(Scored(*SCORES))
    assert figures["brier"] == pytest.approx((0 + 1 + 0.25 + 0 + 0.0625 + 0.25 + 0.0625 + 0) / 8)
    assert figures["accuracy"] == 7 / 8
    lost = [0, -np.log(1e-7), np.log(2), 0, -np.log(0.75), np.log(2), -np.log(0.75), 0]
    assert figures["log_loss"] == pytest.approx(np.mean(lost), abs=1e-6)
    assert set(figures) == {"brier", "accuracy", "log_loss"}
    assert judge.value(figures) == figures["brier"]


@pytest.mark.parametrize("base_rate", [0.1, 0.4, 0.8])
def test_without_labelled_negatives_a_model_that_knows_nothing_is_worth_the_base_rate(
    graph: KnowledgeGraph, base_rate: float
) -> None:
    figures = objective(unlabelled(graph), base_rate=base_rate).measure(Scored(3.0))
    assert figures["brier"] == pytest.approx(base_rate * (1 - base_rate))
    assert figures["accuracy"] == pytest.approx(max(base_rate, 1 - base_rate))


def test_corruptions_are_no_known_facts_and_go_with_their_positive(graph: KnowledgeGraph) -> None:
    graph, rng = unlabelled(graph), np.random.default_rng(0)
    count = len(graph.valid)
    held = held_out(graph, CorruptConfig(calibration_eta=3, calibration_filtered=False), 0.5, rng)
    np.testing.assert_array_equal(held.second[count:], np.repeat(held.second[:count], 3))
    assert held.second[:count].sum() == -(-count // 2)
    filtered = held_out(graph, CorruptConfig(), 0.5, rng)
    assert not graph.known.contains(filtered.triples[count:]).any()
    assert (filtered.triples[:count] == graph.valid.triples).all()
    other = held_out(graph, CorruptConfig(calibration_seed=1), 0.5, rng)
    assert len(other.triples) != len(filtered.triples) or (other.triples != filtered.triples).any()


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1), st.integers(0, 100))
def test_halves_are_halves_of_each_label(labels: list[float], seed: int) -> None:
    given = np.array(labels)
    second = halves(given, np.random.default_rng(seed))
    for label in (0, 1):
        assert abs(second[given == label].sum() - (~second)[given == label].sum()) <= 1
    assert (second == halves(given, np.random.default_rng(seed))).all()


def test_the_mrr_is_that_of_validation_positives(graph: KnowledgeGraph) -> None:
    trained = train(graph, BASE, CPU).model
    expected = rank_metrics(filtered_ranks(trained, graph.valid.positives, graph.known))["mrr"]
    assert objective(graph, "mrr").measure(trained)["mrr"] == pytest.approx(expected)


def test_what_cannot_be_measured_is_told(graph: KnowledgeGraph, small_graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match="a search must not see the test split"):
        objective(small_graph)
    with pytest.raises(InputError, match="no metric 'ece' to search by: known are brier, log_loss, accuracy, mrr"):
        objective(graph, "ece")
    few = Split(graph.valid.triples[69:], graph.valid.labels[69:])
    with pytest.raises(InputError, match="validation has 1 triples of a kind"):
        objective(replace(graph, valid=few))
    with pytest.raises(InputError, match="near_miss are not"):
        Objective(
            unlabelled(graph),
            "brier",
            CorruptConfig(calibration_strategy={"near_miss": 1}),
            0.5,
            np.random.default_rng(0),
        )
    with pytest.raises(FitError, match="not all finite numbers: lower the learning rate"):
        objective(graph).measure(Scored(float("nan")))


@pytest.mark.parametrize("labelled", [True, False])
def test_the_test_split_changes_nothing(small_graph: KnowledgeGraph, tmp_path: Path, labelled: bool) -> None:
    """Two graphs that differ in test alone, from the files a prepare run leaves; of one the test file is gone."""
    given = small_graph if labelled else unlabelled(small_graph)
    found = []
    for name, test in (("one", given.test), ("other", Split(given.valid.triples[:9], np.ones(9)))):
        storage.write_graph(tmp_path / name, replace(given, test=test))
        if name == "one":
            (tmp_path / name / "test.parquet").unlink()
        graph = storage.read_graph(tmp_path / name, test=False)
        assert len(graph.test) == 0
        study = run(graph, tmp_path / f"{name}.db", total=3)
        found.append((graph.fingerprint(), trials_table(study).drop(columns="seconds").to_json()))
    assert found[0] == found[1]


@pytest.mark.parametrize("model", MODELS.names())
def test_every_draw_is_a_training_that_can_be_built(model: str) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space(TrainConfig(model=model, batch_size=77, seed=5), SEARCHABLE, 100)
    drawn = [space.suggest(study.ask()) for _ in range(40)]
    for config in drawn:
        build(MODELS.get(model), {}, config.k)
        assert (config.model, config.batch_size, config.seed) == (model, 77, 5)
        assert 4 <= config.epochs <= 100
        assert LEARNING_RATES[0] <= config.learning_rate <= LEARNING_RATES[1]
        assert config.learning_rate == float(f"{config.learning_rate:.3g}")
        assert INITIAL_SCALES[0] <= config.initial_scale <= INITIAL_SCALES[1]
        assert ETAS[0] <= config.eta <= ETAS[1]
        assert config.lp_weight == 0 or LP_WEIGHTS[0] <= config.lp_weight <= LP_WEIGHTS[1]
    for name, steps in STEPS.items():
        drops = name != "dropout" or MODELS.get(model).can_drop
        assert {getattr(config, name) for config in drawn} == (set(steps) if drops else {0})
    assert {tuple(config.negatives.items()) for config in drawn} == {
        (("uniform", 1.0),),
        (("typed", 1.0),),
        (("typed", 0.5), ("uniform", 0.5)),
    }
    assert {(config.object_share, config.bernoulli) for config in drawn} == {(0.5, False), (0.75, False), (0.5, True)}
    assert {config.lp_power for config in drawn if config.lp_weight} == {2, 3}
    assert any(config.lp_weight == 0 for config in drawn)


BASES = st.builds(
    TrainConfig,
    learning_rate=st.floats(1e-6, 10),
    lp_weight=st.just(0.0) | st.floats(1e-7, 100),
    lp_power=st.sampled_from([1.5, 2.0, 3.0]),
    dropout=st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    initial_scale=st.floats(0.01, 100),
    inverse_relations=st.booleans(),
    cohort_weight=st.sampled_from([0.0, 0.3, 0.5]),
    epochs=st.integers(1, 60),
    negatives=st.sampled_from([{"uniform": 1.0}, {"typed": 0.5, "uniform": 0.5}, {"batch": 1.0}, {"typed": 2.0}]),
    object_share=st.sampled_from([0.5, 0.75, 0.9]),
    bernoulli=st.booleans(),
    k=st.sampled_from([8, 100, 350]),
    eta=st.integers(1, 1000),
)


SETTINGS: list[set[str]] = [{"lp_weight", "lp_power"}, {"object_share", "bernoulli"}]
SETTINGS += [{name} for name in set(SEARCHABLE) - {"regulariser", "sides"}]


@given(base=BASES, seed=st.integers(0, 100), searched=st.sets(st.sampled_from(SEARCHABLE), min_size=1))
def test_a_search_starts_from_its_base_whatever_that_is(base: TrainConfig, seed: int, searched: set[str]) -> None:
    space = Space(base, searched, 60)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    starts = space.starts()
    for start in starts:
        study.enqueue_trial(start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of values out of range
        first, *neighbours = [space.suggest(study.ask()) for _ in starts]
    assert first == base
    for near in neighbours:
        changed = {item.name for item in fields(near) if getattr(near, item.name) != getattr(base, item.name)}
        assert any(changed <= group and changed for group in SETTINGS)
    other = space.suggest(study.ask())
    if "epochs" in searched:
        assert min(base.epochs, 4) <= other.epochs <= 60
    fewer = replace(space, most_epochs=4)
    assert fewer.suggest(FixedTrial(fewer.start())) == replace(
        base, epochs=min(base.epochs, 4) if "epochs" in searched else base.epochs
    )


@pytest.mark.parametrize("name", SEARCHABLE)
def test_a_setting_that_is_not_searched_for_stays(name: str) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space(TrainConfig(), [name], 100)
    changed = {
        item.name
        for _ in range(20)
        for config in [space.suggest(study.ask())]
        for item in fields(config)
        if getattr(config, item.name) != getattr(space.base, item.name)
    }
    own = {"regulariser": {"lp_weight", "lp_power"}, "sides": {"object_share", "bernoulli"}}
    assert changed == own.get(name, {name})


def run(
    graph: KnowledgeGraph,
    path: Path,
    total: int,
    seconds: float = 1e9,
    judge: Any = None,
    searched: tuple[str, ...] = ("learning_rate", "epochs", "negatives", "eta"),
    base: TrainConfig = BASE,
    **options: Any,
) -> optuna.Study:
    """A search in the study of that file; the study."""
    space = Space(base, searched, 12)
    study = open_study(path, "brier", [space.start()])
    plan = Plan(total, seconds, 0)
    interrupted = search.search(study, graph, judge or objective(graph), space, plan, CPU, **options)
    study.set_user_attr("interrupted", interrupted)
    return study


def story(study: optuna.Study) -> list[tuple[Any, ...]]:
    return [(trial.state, trial.value, config_of(trial)) for trial in begun(study)]


def test_a_search_that_was_gone_on_with_is_the_one_that_never_stopped(graph: KnowledgeGraph, tmp_path: Path) -> None:
    whole = run(graph, tmp_path / "whole.db", 13)
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


class Worth(Objective):
    """Models of size 50 are worth 0.1, others 0.2; those in `explode` have no finite scores."""

    def __init__(self, explode: tuple[int, ...] = ()) -> None:
        self.metric, self.explode = "brier", explode

    def measure(self, trained: Any) -> dict[str, float]:
        if trained.k in self.explode:
            raise FitError("it explodes: lower the learning rate")
        return {"brier": 0.1 if trained.k == 50 else 0.2}


def test_what_is_worse_than_the_median_at_the_same_part_is_given_up(graph: KnowledgeGraph, tmp_path: Path) -> None:
    open_study(tmp_path / "study.db", "brier", [{"k": 50 if n < 6 else 200} for n in range(8)])
    base = replace(BASE, epochs=8)
    study = run(graph, tmp_path / "study.db", 8, judge=Worth(), searched=("k",), base=base)
    states = [trial.state for trial in study.get_trials()]
    assert states == [TrialState.COMPLETE] * 6 + [TrialState.PRUNED] * 2
    table = trials_table(study)
    assert table["state"].tolist() == ["complete"] * 6 + ["pruned"] * 2
    assert table["epochs_done"].tolist() == [8] * 6 + [2] * 2
    assert table["brier"].tolist() == table["value"].tolist() == [0.1] * 6 + [0.2] * 2
    assert list(study.get_trials()[0].intermediate_values) == [1, 2, 3]


def test_a_trial_that_fails_is_told_and_the_search_goes_on(graph: KnowledgeGraph, tmp_path: Path) -> None:
    sizes = [{"k": 50}, {"k": 200}, {"k": 50}]
    open_study(tmp_path / "study.db", "brier", sizes)
    study = run(graph, tmp_path / "study.db", 3, judge=Worth(explode=(200,)), searched=("k",))
    table = trials_table(study)
    assert table["state"].tolist() == ["complete", "failed", "complete"]
    assert table["reason"].tolist() == ["", "it explodes: lower the learning rate", ""]
    open_study(tmp_path / "none.db", "brier", sizes)
    none = run(graph, tmp_path / "none.db", 3, judge=Worth(explode=(4, *STEPS["k"])), searched=("k",))
    with pytest.raises(FitError, match=r"no trial was trained to its end: it explodes: lower the learning rate$"):
        best(none)


def test_a_loss_that_explodes_fails_its_trial(graph: KnowledgeGraph, tmp_path: Path) -> None:
    base = replace(BASE, model="distmult", loss="multiclass_nll", epochs=50, learning_rate=1e30)
    study = run(graph, tmp_path / "study.db", 2, searched=("negatives",), base=base)
    assert {trial.state for trial in begun(study)} == {TrialState.FAIL}
    assert all("lower the learning rate" in trial.user_attrs["reason"] for trial in begun(study))


class Raising(Record):
    """Raises at the second epoch of a trial."""

    def __init__(self, reason: BaseException) -> None:
        self.reason = reason

    def epoch(self, epoch: int, loss: float) -> None:
        if epoch == 2:
            raise self.reason


def raising(at: int, reason: BaseException) -> Any:
    """Records of a search whose trial of that number is interrupted."""

    @contextmanager
    def record(number: int, config: TrainConfig) -> Iterator[Record]:
        yield Raising(reason) if number == at else Record()

    return record


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), SystemExit(143), OSError("no space left")])
def test_what_was_interrupted_is_run_again(graph: KnowledgeGraph, tmp_path: Path, reason: BaseException) -> None:
    whole = run(graph, tmp_path / "whole.db", 6)
    if isinstance(reason, KeyboardInterrupt):
        study = run(graph, tmp_path / "parts.db", 6, record=raising(3, reason))
        assert study.user_attrs["interrupted"]
    else:
        with pytest.raises(type(reason)):
            run(graph, tmp_path / "parts.db", 6, record=raising(3, reason))
        study = open_study(tmp_path / "parts.db", "brier")
    assert len(begun(study)) == 3
    assert not running(study)
    study = run(graph, tmp_path / "parts.db", 6)
    assert not study.user_attrs["interrupted"]
    assert story(study) == story(whole)


def test_an_interruption_before_anything_is_found_is_one(graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(graph, tmp_path / "study.db", 6, record=raising(0, KeyboardInterrupt()))
    study = run(graph, tmp_path / "study.db", 1)
    assert len(begun(study)) == 1
    assert config_of(begun(study)[0]) == BASE


def test_the_trials_of_the_living_count_and_those_of_the_dead_are_run_again(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    run(graph, tmp_path / "study.db", 1)
    study = open_study(tmp_path / "study.db", "brier")
    taken = study.ask()
    rate = taken.suggest_float("learning_rate", *LEARNING_RATES, log=True)
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

    study = run(graph, tmp_path / "study.db", 9, seconds=2, record=record)  # a trial of 4 epochs
    assert [trial.state for trial in begun(study)] == [TrialState.COMPLETE]  # it has found something
    study = run(graph, tmp_path / "study.db", 9, seconds=2, record=record)
    assert len(begun(study)) == 1
    assert [trial.state for trial in study.get_trials()[1:]] == [TrialState.FAIL, TrialState.WAITING]
    assert not study.user_attrs["interrupted"]


def test_every_metric_is_made_better() -> None:
    assert METRICS == {"brier": "minimize", "log_loss": "minimize", "accuracy": "maximize", "mrr": "maximize"}
