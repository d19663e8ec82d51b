"""The search of all pairs of a predicate: equal to scoring and sorting every pair, however the work is divided."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kgcore.answer.pairs import BestPairs, PairSearch, best_of
from kgcore.config import TrainConfig
from kgcore.config.base import PER
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models import trained as trained_model
from kgcore.embed.models.cohort import draw_cohort
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from tests.core.pair_lists import every_pair, found

MODELS = ("transe", "distmult", "complex", "rotate", "conve", "capse")
SUBJECTS, OBJECTS = np.arange(0, 40, 2), np.arange(39, 4, -1)


def model_of(graph: KnowledgeGraph, name: str, with_cohort: bool = False) -> TrainedModel:
    trained = train(graph, TrainConfig(model=name, k=12, epochs=2, batch_size=200), torch.device("cpu")).model
    cohort = draw_cohort(graph, 20, 0.7, 0.5, np.random.default_rng(3)) if with_cohort else None
    return replace(trained, cohort=cohort)


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("top", [0, 1, 7, 10_000])
@pytest.mark.parametrize("size", [(256, 4096), (3, 5), (1, 1)])
def test_the_best_pairs_are_those_of_all_pairs(
    small_graph: KnowledgeGraph, per: str, top: int, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained_model, "SUBJECTS_AT_ONCE", size[0])
    monkeypatch.setattr(trained_model, "OBJECTS_AT_ONCE", size[1])
    trained = model_of(small_graph, "transe", with_cohort=True)
    search = PairSearch(SUBJECTS, OBJECTS, 1, top, per, leave_out=small_graph.all_known, reflexive=top == 7)
    assert found(trained, search) == every_pair(trained, search)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("with_cohort", [False, True])
def test_the_division_of_the_work_does_not_change_the_result(
    small_graph: KnowledgeGraph, name: str, with_cohort: bool
) -> None:
    trained = model_of(small_graph, name, with_cohort)
    for per in PER:
        search = PairSearch(SUBJECTS, OBJECTS, 2, 5, per)
        expected = every_pair(trained, search)
        assert [found(trained, search, parts) for parts in (1, 2, 20)] == [expected] * 3


def test_a_lowest_score_is_kept_exactly(small_graph: KnowledgeGraph) -> None:
    trained = model_of(small_graph, "distmult")
    everything = PairSearch(SUBJECTS, OBJECTS, 0)
    scores = np.sort(trained.score(np.array(every_pair(trained, everything))))
    for lowest in (scores[0], scores[350], scores[-1]):
        search = replace(everything, lowest=float(lowest))
        assert found(trained, search) == every_pair(trained, search)
    assert len(found(trained, replace(everything, lowest=float(scores[-1])))) == 1
    assert not found(trained, replace(everything, lowest=np.inf))


def test_equal_scores_are_ordered_by_the_pair() -> None:
    scores, rows = np.array([1.0, 2, 2, 2]), np.array([[9, 9], [3, 1], [1, 5], [1, 2]])
    assert best_of(scores, rows, np.zeros(4, dtype=np.int64), 2).tolist() == [3, 2]


def test_pruning_keeps_the_best_of_a_long_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.answer.pairs.MOST_ROWS", 50)
    rng, best = np.random.default_rng(1), BestPairs(top=3, groups=4)
    scores, groups = rng.normal(size=2000), rng.integers(4, size=2000)
    rows = np.stack([groups, np.arange(2000)], axis=1)
    for start in range(0, 2000, 10):
        part = slice(start, start + 10)
        best.add(scores[part], scores[part], rows[part], groups[part])
    kept = best.pairs()
    assert len(kept) < 40
    for group in range(4):
        own = np.flatnonzero(groups == group)
        wanted = own[np.argsort(-scores[own])[:3]]
        assert set(wanted) <= set(kept[kept[:, 0] == group, 1])


@pytest.mark.parametrize("groups", [1, 3])
def test_bounds_lose_no_pair_of_the_best(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.answer.pairs.MOST_ROWS", 60)
    for seed in range(5):
        rng, best = np.random.default_rng(seed), BestPairs(top=8, groups=groups)
        scores, own = rng.integers(0, 30, 900) / 2, rng.integers(groups, size=900)  # many are equal
        pairs = np.stack([own, rng.permutation(900)], axis=1)
        low, high = (scores - rng.choice([0, 0, 1], 900)), scores + rng.choice([0, 0, 1], 900)
        for start in range(0, 900, 20):
            part = slice(start, start + 20)
            best.add(low[part], high[part], pairs[part], own[part])
        wanted = pairs[best_of(scores, pairs, own, 8)]
        kept = best.pairs()
        assert {tuple(pair) for pair in wanted.tolist()} <= {tuple(pair) for pair in kept.tolist()}
        assert len(kept) < 450
