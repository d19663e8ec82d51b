"""The portfolio of the preset `auto`: its settings, their epochs, and its choice from the committed table of trials."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from docs.scripts.portfolio_choice import Table, choose, raced, read, regrets
from docs.scripts.portfolio_pool import GRAPHS, POOL
from kgcore.config import TrainConfig
from kgcore.config.base import POPULATIONS
from kgcore.config.race import FEWEST_EPOCHS, PORTFOLIO, contenders
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from tests.core.trainings import CPU

MILLION = 1_000_000
TRIALS = Path(__file__).parents[2] / "docs" / "scripts" / "portfolio_trials.csv"


def epochs(rows: int) -> dict[str, int]:
    return {name: settings.over(TrainConfig()).epochs for name, settings in contenders(rows, 1000, 10).items()}


@pytest.mark.parametrize("name", PORTFOLIO)
def test_a_contender_trains_an_epoch_on_a_small_graph(small_graph: KnowledgeGraph, name: str) -> None:
    config = contenders(len(small_graph.train), 40, 3)[name].over(TrainConfig()).replace(epochs=1)
    assert np.isfinite(train(small_graph, config, CPU, compiled=False).losses).all()


def test_no_two_contenders_have_the_same_settings() -> None:
    made = [settings.over(TrainConfig()) for settings in contenders(MILLION, 1000, 10).values()]
    assert all(made.count(config) == 1 for config in made)
    assert TrainConfig() not in made  # it takes part in every race


def test_slower_configurations_have_fewer_epochs() -> None:
    usual = TrainConfig().epochs
    for name, number in epochs(MILLION).items():
        assert number == pytest.approx(usual / PORTFOLIO[name][0], abs=0.5) or number == FEWEST_EPOCHS


def test_small_graphs_have_more_epochs_up_to_a_limit() -> None:
    large, middle, small, tiny = (epochs(rows) for rows in (MILLION, 10_000, 7_500, 1))
    assert large == middle
    for name in PORTFOLIO:
        assert large[name] < small[name] < tiny[name] <= 2 * large[name] + 1


def test_the_portfolio_loses_less_than_the_default_on_the_committed_trials() -> None:
    trials = read(TRIALS)
    assert set(trials.graphs) == set(GRAPHS)
    alone, portfolio = (100 * float(trials.weights() @ regrets(trials, names)) for names in ([], [*PORTFOLIO]))
    assert (round(alone, 1), round(portfolio, 1)) == (8.6, 2.1)  # as docs/explanation/portfolio.md says


def test_names_in_the_pool_begin_with_the_model() -> None:
    assert all(name.split()[0] == settings.over(TrainConfig()).model for name, settings in POOL.items())


@pytest.mark.parametrize("name", PORTFOLIO)
def test_the_portfolio_has_the_settings_that_were_tried(name: str) -> None:
    assert PORTFOLIO[name][1].over(TrainConfig()) == POOL[name].over(TrainConfig())


def table(**graphs: list[list[float]]) -> Table:
    return Table(tuple(graphs), ("transe", "slow", "good", "good spare"), np.array(list(graphs.values())))


GRAPH = [[0.2, 0.2, 0.2], [0.24, 0.19, 0.05], [0.15, 0.12, 0.1], [0.21, 0.2, 0.15]]


def test_a_race_by_hand() -> None:
    made, one = table(one=GRAPH), np.zeros(4, dtype=int)
    assert made.models.tolist() == [2, 1, 0, 0]
    assert raced(made.values, one, [0, 2])[0] == 0.1
    assert raced(made.values, one, [0, 3])[0] == 0.15
    assert raced(made.values, one, [0, 1, 2])[0] == 0.05  # three of three are trained to 1/3, two of them to the end
    assert raced(made.values, one, [0, 1, 2, 3])[0] == 0.1  # the slow one is the last of four after 1/9
    assert raced(made.values, made.models, [0, 1, 2, 3])[0] == 0.05  # it is the best of its model, so it goes on


def test_regrets_by_hand() -> None:
    assert regrets(table(one=GRAPH), ["good"])[0] == pytest.approx(0.1 - 0.05)
    assert regrets(table(one=GRAPH), [])[0] == pytest.approx(0.2 - 0.05)


def test_the_choice_adds_what_lowers_both_regrets_first() -> None:
    assert choose(table(one=GRAPH), 1) == ["slow"]


def test_parts_of_a_data_set_count_as_one_and_are_left_out_together() -> None:
    made = replace(table(umls=GRAPH, other=GRAPH), graphs=("umls", "umls-40"))
    both = Table((*made.graphs, "family"), made.names, np.array([GRAPH] * 3))
    np.testing.assert_allclose(both.weights(), [0.25, 0.25, 0.5])
    assert both.without("umls").graphs == ("family",)


def test_a_stopped_trial_keeps_its_last_loss_and_unfinished_graphs_are_left_out(tmp_path: Path) -> None:
    columns = ["graph", "configuration", *(f"{name} {at}" for at in ("1/9", "1/3", "1") for name in POPULATIONS)]
    rows = [["g", "a", *(9 * [".5"])], ["g", "b", ".1", ".2", ".6", *(6 * [""])], ["h", "a", *(9 * [".5"])]]
    (tmp_path / "trials.csv").write_text("\n".join(map(",".join, [columns, *rows])))
    both = read(tmp_path / "trials.csv")
    assert (both.graphs, both.names) == (("g",), ("a", "b"))
    np.testing.assert_allclose(both.values, [[[0.5] * 3, [0.7] * 3]])
    np.testing.assert_allclose(read(tmp_path / "trials.csv", ["answers"]).values[0, 1], [0.8] * 3)
