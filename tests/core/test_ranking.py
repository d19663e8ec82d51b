"""Filtered ranks, compared with a loop over every corruption."""

import numpy as np
import pytest
import torch

from kgcore.config import RankConfig
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.models import trained as trained_model
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks, spread
from kgcore.measure.metrics.classification import rank_metrics
from kgcore.registries import MODELS
from kgcore.registry import build
from kgcore.wings.fast_cpu import scores as tiles
from tests.core.rank_loop import rank_by_loop


@pytest.mark.parametrize("name", ["transe", "distmult", "simple", "convkb", "conve", "capse"])
@pytest.mark.parametrize("block", [None, 300])
def test_ranks_equal_those_of_a_loop(small_graph: KnowledgeGraph, monkeypatch, name: str, block: int | None) -> None:
    monkeypatch.setattr("kgcore.embed.ranking.TILE_QUERIES", 16)
    if block:
        monkeypatch.setattr(trained_model, "LARGEST_BLOCK", block)  # the 40 entities are scored in parts
        monkeypatch.setattr(tiles, "TILE_ENTITIES", 24)
    rng = np.random.default_rng(0)

    def whole(*shape: int) -> torch.Tensor:  # whole numbers: equal scores occur, and the order of a sum does not matter
        return torch.from_numpy(rng.integers(-2, 3, shape)).float()

    options = {"filters": 2} if name in ("convkb", "conve", "capse") else {}
    model = build(MODELS.get(name), options, 4)
    shared = {key: whole(*start.shape) for key, start in model.initial_shared(rng).items()}
    tables = Embeddings(whole(40, model.entity_width), whole(3, model.predicate_width), shared)
    trained = TrainedModel(name, 4, tables, options)
    triples = small_graph.test.positives
    facts = set(
        map(tuple, np.concatenate([getattr(small_graph, s).positives for s in ("train", "valid", "test")]).tolist())
    )
    expected = [[rank_by_loop(trained, t, column, facts, 40) for column in (0, 2)] for t in triples]
    np.testing.assert_array_equal(filtered_ranks(trained, triples, small_graph.all_known), expected)


def test_a_constant_model_has_the_mean_rank() -> None:
    trained = TrainedModel("distmult", 2, Embeddings(torch.zeros(11, 2), torch.zeros(1, 2)))
    none = TripleIndex(np.zeros((0, 3)), 11, 1)
    assert filtered_ranks(trained, np.array([[3, 0, 5]]), none).tolist() == [[6.0, 6.0]]


def test_rank_metrics_by_hand() -> None:
    metrics = rank_metrics(np.array([[1, 4], [2.5, 20]]))
    assert metrics["mr"] == 27.5 / 4
    assert metrics["mrr"] == pytest.approx((1 + 1 / 4 + 1 / 2.5 + 1 / 20) / 4)
    assert (metrics["hits_at_1"], metrics["hits_at_3"], metrics["hits_at_10"]) == (0.25, 0.5, 0.75)


def test_a_triple_with_a_weight_counts_as_often() -> None:
    ranks = np.array([[1, 4], [2.5, 20], [7, 1]])
    weighted = rank_metrics(ranks, np.array([2.0, 0.0, 1.0]))
    assert weighted == pytest.approx(rank_metrics(ranks[[0, 0, 2]]))
    assert rank_metrics(ranks, np.zeros(3)) == rank_metrics(ranks)


@pytest.mark.parametrize(
    ("given", "entities", "most"),
    [
        ("auto", 50_000, 50_000),
        ("auto", 100_000, 25_000),
        ("auto", 10**7, 10_000),
        ("auto", 0, 50_000),
        ("0", 10**7, 0),
        (70, 9, 70),
    ],
)
def test_fewer_facts_of_a_larger_graph_are_ranked(given: str | int, entities: int, most: int) -> None:
    assert RankConfig(ranked_facts=given).most(entities) == most


@pytest.mark.parametrize(
    ("facts", "most", "size"), [(10, 0, 10), (10, 10, 10), (10, 20, 10), (10, 3, 3), (1000, 999, 999)]
)
def test_ranked_facts_are_spread_evenly(facts: int, most: int, size: int) -> None:
    positions = spread(facts, most)
    steps = np.diff(np.r_[positions, facts])
    assert len(positions) == size
    assert positions[0] == 0
    assert set(steps.tolist()) <= {facts // size, facts // size + 1}
