"""The race of training settings: its order, its limits, and how it continues."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from kgcore.config import CorruptConfig, TrainConfig
from kgcore.config import race as settings_of_races
from kgcore.config.race import RaceConfig, epochs_of_all
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training import loop
from kgcore.errors import FitError
from kgcore.measure.report.race import SHARES, Race
from kgcore.wings.tuning import race as module
from kgcore.wings.tuning.objective import SearchObjective
from kgcore.wings.tuning.race import Track, choose, field_sizes, race
from tests.core.searches import without_test
from tests.core.trainings import CPU, StoppedError

TINY = TrainConfig(k=2, epochs=18, batch_size=600, training_eta=1)


class Constructed:
    """An objective with given values: embedding size k -> the values at the three shares."""

    metric = "brier"

    def __init__(self, values: Mapping[int, tuple[float, ...]]) -> None:
        self.values, self.seen = values, list[int]()

    def measure(self, model: TrainedModel) -> dict[str, float]:
        self.seen.append(model.k)
        value = self.values[model.k][self.seen.count(model.k) - 1]
        if math.isnan(value):
            raise FitError("not finite")
        return {"brier": value}

    def value(self, figures: Mapping[str, float]) -> float:
        return figures["brier"]


@pytest.fixture
def graph(small_graph: KnowledgeGraph) -> KnowledgeGraph:
    return without_test(small_graph)


def contenders(*sizes: int) -> dict[str, TrainConfig]:
    return {f"k{k}": TINY.replace(k=k) for k in sizes}


def run(graph: KnowledgeGraph, values: Mapping[int, tuple[float, ...]], folder: Path, **limits: float) -> Race:
    field = contenders(*values)
    return race(graph, field, next(iter(field.values())), Constructed(values), Track(CPU, folder, **limits))


@pytest.mark.parametrize(
    ("contenders", "sizes"),
    [(2, (2, 2, 2)), (3, (3, 3, 2)), (6, (6, 3, 2)), (7, (7, 3, 1)), (10, (10, 4, 1)), (12, (12, 4, 1))],
)
def test_a_race_costs_less_than_three_trainings(contenders: int, sizes: tuple[int, int, int]) -> None:
    assert field_sizes(contenders) == sizes
    first, second, third = sizes
    assert first * SHARES[0] + second * (SHARES[1] - SHARES[0]) + third * (1 - SHARES[1]) < 3


def test_the_better_ones_train_on_and_the_best_is_chosen(graph: KnowledgeGraph, tmp_path: Path) -> None:
    values = {2: (0.25, 0.21), 3: (0.24, 0.20, 0.18), 4: (0.3,), 5: (0.23, 0.19, 0.185), 6: (0.29,)}
    made = run(graph, values, tmp_path)
    reached = {row.name: row.values for row in made.rows}
    assert list(reached) == ["k3", "k5", "k2", "k6", "k4"]
    assert reached["k3"] == ((2, 0.24), (6, 0.20), (18, 0.18))
    assert reached["k2"] == ((2, 0.25), (6, 0.21))
    assert reached["k4"] == ((2, 0.3),)
    assert [row.state for row in made.rows] == ["chosen", "out", "out", "out", "out"]
    assert [file.name for file in tmp_path.glob("*.safetensors")] == ["1.safetensors"]  # of k3
    said = " ".join(made.sentences())
    assert "Of 5 configurations, `k3` was chosen: Brier score 0.1800 on validation after 18 of 18 epochs." in said
    assert "After 33% of the epochs, its Brier score is 0.2000, and that of the preset `default` 0.2100" in said
    assert Race.from_json(made.to_json()) == made


def test_the_best_one_of_each_model_goes_on_first(graph: KnowledgeGraph, tmp_path: Path) -> None:
    values = {2: (0.20, 0.20), 3: (0.21, 0.21), 4: (0.22, 0.22), 5: (0.23,), 6: (0.24, 0.15, 0.1), 7: (0.3,), 8: (0.3,)}
    field = {name: one.replace(model="complex" if one.k > 5 else "transe") for name, one in contenders(*values).items()}
    made = race(graph, field, field["k2"], Constructed(values), Track(CPU, tmp_path))
    assert made.winner.name == "k6"
    assert {row.name for row in made.rows if len(row.values) > 1} == {"k2", "k3", "k6"}


def test_the_winner_has_the_bits_of_an_uninterrupted_training(graph: KnowledgeGraph, tmp_path: Path) -> None:
    field = {"transe": TINY.replace(k=8), "complex": TINY.replace(model="complex", k=8, learning_rate=0.1)}
    rng = np.random.default_rng(0)
    judge = SearchObjective(graph, "brier", CorruptConfig(), 0.5, rng)
    made = race(graph, field, field["transe"], judge, Track(CPU, tmp_path))
    name, config = made.winner.name, field[made.winner.name]
    path = Track(CPU, tmp_path).checkpoint([*field].index(name))
    left = loop.train(graph, config, CPU, path)
    whole = loop.train(graph, config, CPU)
    assert left.resumed_at == config.epochs
    assert (left.losses, left.model.fingerprint()) == (whole.losses, whole.model.fingerprint())
    assert made.winner.value == judge.measure(whole.model)["brier"]


def test_a_contender_that_fails_is_out_with_its_reason(graph: KnowledgeGraph, tmp_path: Path) -> None:
    made = run(graph, {2: (math.nan,), 3: (0.2, 0.2, 0.2), 4: (0.1, math.nan)}, tmp_path)
    assert [(row.name, row.state, row.reason) for row in made.rows] == [
        ("k3", "chosen", ""),
        ("k2", "failed", "not finite"),
        ("k4", "failed", "not finite"),
    ]
    assert "`k2` failed: not finite." in made.sentences()
    with pytest.raises(FitError, match="the training of every contender of the race failed; k2: not finite"):
        run(graph, {2: (math.nan,), 3: (math.nan,)}, tmp_path / "none")


def test_if_all_finalists_fail_the_next_best_is_chosen(graph: KnowledgeGraph, tmp_path: Path) -> None:
    values = {2: (0.1, math.nan), 3: (0.2, math.nan), 4: (0.3, math.nan), 5: (0.5, 0.5), 6: (0.4, 0.4)}
    assert run(graph, values, tmp_path).winner.name == "k6"


def test_the_time_limit_decides_by_what_was_measured(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = run(graph, {2: (0.3,), 3: (0.2,)}, tmp_path / "none", seconds=0)
    assert (none.winner.name, none.winner.values, none.time_is_up) == ("k2", (), True)
    clock = iter(range(10_000))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    values = {2: (0.3, 0.3, 0.3), 3: (0.25, 0.25, 0.25), 4: (0.2, 0.4, 0.2)}
    made = run(graph, values, tmp_path, seconds=40)
    assert made.time_is_up
    assert "The time limit ended the race" in " ".join(made.sentences())
    longest = max(len(row.values) for row in made.rows)
    assert made.winner.value == min(row.value or 1 for row in made.rows if len(row.values) == longest)
    assert made.rows[1].state == "stopped"


def test_a_killed_race_goes_on(graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {2: (0.25, 0.21), 3: (0.24, 0.20, 0.18), 4: (0.3,), 5: (0.23, 0.19, 0.185)}
    whole = run(graph, values, tmp_path / "whole")
    epochs, train = list[int](), module.train

    def killed(*arguments: object, **options: object) -> object:
        epochs.append(0)
        if len(epochs) == 6:
            raise StoppedError
        return train(*arguments, **options)

    field, judge = contenders(*values), Constructed(values)
    track = Track(CPU, tmp_path / "killed")
    monkeypatch.setattr(module, "train", killed)
    with pytest.raises(StoppedError):
        race(graph, field, field["k2"], judge, track)
    resumed = race(graph, field, field["k2"], judge, track)
    assert [(row.name, row.values) for row in resumed.rows] == [(row.name, row.values) for row in whole.rows]
    assert sorted(judge.seen) == sorted(k for k, own in values.items() for _ in own)  # each is measured once


@pytest.mark.parametrize(("large", "raced", "on_a_part"), [(599, 200, True), (599, 377, True), (600, 200, False)])
def test_a_large_graph_has_its_race_on_a_part_and_no_checkpoint(
    graph: KnowledgeGraph, large: int, raced: int, on_a_part: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = len(graph.train)
    assert rows == 600
    monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(module, "RACED", raced)
    given = TrainConfig(model="transe", k=4, epochs=9)
    config = RaceConfig(train=given, usual=given, race_metric="brier")
    made, checkpoint = choose(graph, config, Track(CPU, tmp_path))
    assert Race.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert checkpoint.exists() == (not on_a_part)
    if not on_a_part:
        assert made.part is None
        return
    assert made.part is not None
    assert raced / 2 < made.part[0] <= raced
    assert made.part[1] == rows
    said = f"a connected part of the graph: {made.part[0]} of 600 training triples."
    assert any(said in sentence for sentence in made.sentences())
    assert {row.settings["epochs"] for row in made.rows} == {9}  # the user gave them


def test_the_winner_of_a_part_has_fewer_epochs_on_all_of_a_large_graph(
    graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [epochs_of_all(100, rows) for rows in (1, 400_000, 1_000_000, 20_000_000)] == [100, 100, 40, 10]
    assert epochs_of_all(9, 20_000_000) == 9
    monkeypatch.setattr(module, "LARGE", 599)
    monkeypatch.setattr(module, "RACED", 200)
    monkeypatch.setattr(settings_of_races, "MANY", 300)
    given = TrainConfig(model="transe", k=4)
    config = RaceConfig(train=given, usual=given.replace(epochs=9), race_metric="brier")
    made, _ = choose(graph, config, Track(CPU, tmp_path))
    for row in made.rows:
        assert row.settings["epochs"] == max(min(row.of, 10), round(row.of / 2))
    trained = f"the model is trained for {made.winner.settings['epochs']} epochs."
    assert any(trained in sentence for sentence in made.sentences()) == (made.winner.of > 10)
