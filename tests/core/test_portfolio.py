"""The portfolio of the preset `auto`: its settings, their epochs, and the choice from the committed table."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.config import TrainConfig
from kgcore.config.portfolio import FEWEST_EPOCHS, PORTFOLIO, contenders
from kgcore.graph import KnowledgeGraph
from kgcore.training.loop import train
from tests.core.trainings import CPU

MILLION = 1_000_000


def epochs(rows: int) -> dict[str, int]:
    return {name: settings.over(TrainConfig()).epochs for name, settings in contenders(rows, 1000, 10).items()}


@pytest.mark.parametrize("name", PORTFOLIO)
def test_a_contender_trains_an_epoch_on_a_small_graph(small_graph: KnowledgeGraph, name: str) -> None:
    config = replace(contenders(len(small_graph.train), 40, 3)[name].over(TrainConfig()), epochs=1)
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
