"""The generator of KBGAN: its rewards, and which corruptions it learns to pick."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.embed.optimisers.base import RowAdam
from kgcore.embed.training import loop
from kgcore.embed.training.objective import mean_scores
from kgcore.registries import STRATEGIES
from tests.core.trainings import CPU


def test_a_generator_learns_to_pick_what_the_model_scores_high(small_graph: KnowledgeGraph) -> None:
    def mean_reward(kbgan: Strategy) -> float:
        drawn = kbgan.draw(small_graph.train.triples, OBJECT, 20, np.random.default_rng(1))
        return float(wanted[drawn].mean())

    rng = np.random.default_rng(0)
    wanted = rng.normal(size=40)  # a model that scores some objects high in every triple
    kbgan = STRATEGIES.get("kbgan")(small_graph)
    untrained = mean_reward(kbgan)
    kbgan.start(rng)
    assert mean_reward(kbgan) == untrained  # draws are uniform, whatever its initial tables are
    for step in range(1, 400):
        triples = small_graph.train.triples[rng.integers(600, size=64)]
        drawn = kbgan.draw(triples, OBJECT, 4, rng)
        kbgan.learn(OBJECT, wanted[drawn], step)
    assert abs(untrained) < 0.3
    assert mean_reward(kbgan) > untrained + 0.5


@pytest.mark.parametrize("column", [SUBJECT, OBJECT])
def test_a_generator_follows_the_gradient_of_the_expected_reward(small_graph: KnowledgeGraph, column: int) -> None:
    """Write out the gradient of one step for DistMult: (reward - baseline) d log softmax."""
    rng = np.random.default_rng(0)
    kbgan = STRATEGIES.get("kbgan")(small_graph, candidates=4, k=3)
    kbgan.start(rng)
    kbgan.tables["predicates"].table.copy_(torch.from_numpy(rng.normal(size=(3, 3))))
    e, r = (kbgan.tables[name].table.double().numpy() for name in ("entities", "predicates"))
    triples = small_graph.train.triples[:10]
    kbgan.draw(triples, column, 2, rng)
    _, offered, picks = kbgan._drawn[column]
    rewards = rng.normal(size=(10, 2))
    d_e, d_r = np.zeros_like(e), np.zeros_like(r)
    for i in range(10):
        kept, p = triples[i, OBJECT - column], triples[i, 1]
        for j in range(2):
            scores = np.array([(e[kept] * r[p] * e[c]).sum() for c in offered[i, j]])
            chances = np.exp(scores) / np.exp(scores).sum()
            for c, entity in enumerate(offered[i, j]):
                slope = (rewards[i, j] - rewards.mean()) * ((c == picks[i, j]) - chances[c])
                d_e[entity] += slope * e[kept] * r[p]
                d_e[kept] += slope * r[p] * e[entity]
                d_r[p] += slope * e[kept] * e[entity]
    kbgan.learn(column, rewards, 1)
    for name, expected in (
        ("entities", d_e),
        ("predicates", d_r),
    ):  # Adam descends, and its first moment is a tenth of the gradient
        np.testing.assert_allclose(kbgan.tables[name].first, -0.1 * expected, atol=1e-6)


def test_the_reward_of_a_corruption_is_its_mean_score_over_its_positives() -> None:
    corrupted, own = torch.arange(12.0).reshape(6, 2), torch.zeros(6, 2, dtype=torch.bool)
    own[2, 1] = True  # the score 5 does not count
    np.testing.assert_allclose(mean_scores(corrupted, own, 3), [[2, 2], [8, 9]])


class Rewarded(Strategy):
    """A strategy that draws one entity for all triples of a side, another for those that have it, and keeps rewards."""

    tables: ClassVar = {"nothing": RowAdam(torch.zeros(1, 1))}
    rewards: ClassVar[dict[int, list[np.ndarray]]] = {SUBJECT: [], OBJECT: []}

    def draw(self, triples: np.ndarray, column: int, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.tile(self.replacements(triples, column)[:, None], count)

    @staticmethod
    def replacements(triples: np.ndarray, column: int) -> np.ndarray:
        return np.where(triples[:, column] == 37 + column, 0, 37 + column)

    def learn(self, column: int, rewards: np.ndarray, step: int) -> None:
        self.rewards[column].append(rewards)


@pytest.mark.parametrize("chunk", [1, 7])
def test_the_rewards_of_a_strategy_are_the_scores_of_its_own_column(small_graph: KnowledgeGraph, chunk: int) -> None:
    STRATEGIES.add("rewarded", Rewarded)
    try:
        config = TrainConfig(
            k=4,
            epochs=1,
            batch_size=600,
            chunk_size=chunk,
            training_eta=5,
            learning_rate=1e-9,
            training_strategy={"rewarded": 1},
        )
        trained = loop.train(small_graph, config, CPU).model
    finally:
        STRATEGIES.remove("rewarded")
    triples = small_graph.train.triples
    for column in (SUBJECT, OBJECT):
        [rewards] = Rewarded.rewards[column]
        Rewarded.rewards[column].clear()
        other = triples.copy()
        other[:, column] = Rewarded.replacements(triples, column)
        np.testing.assert_allclose(rewards.mean(), trained.score(other).mean(), rtol=1e-5 if chunk == 1 else 0.03)
