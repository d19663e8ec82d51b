"""What keeps training from learning by heart: the LP regulariser, dropout, and where embeddings start."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.training import loop
from kgcore.training.regulariser import dropout, lp
from kgcore.training.setup import built

CPU = torch.device("cpu")


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_the_regulariser_is_the_sum_of_powers_and_shrinks_embeddings(small_graph: KnowledgeGraph, power: float) -> None:
    rows = torch.randn(5, 3, dtype=torch.float64)
    assert lp(rows, power).item() == pytest.approx(sum(abs(x) ** power for x in rows.ravel().tolist()))
    config = TrainConfig(model="distmult", k=8, epochs=5, batch_size=128)
    sizes = [
        loop.train(small_graph, replace(config, lp_weight=weight, lp_power=power), CPU).model.embeddings.entities.norm()
        for weight in (0.0, 0.1)
    ]
    assert sizes[1] < 0.9 * sizes[0]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_leaves_embeddings_as_they_are_on_average(share: float, rng: np.random.Generator) -> None:
    rows = torch.from_numpy(rng.normal(size=(400, 100)).astype(np.float32))
    thinned = dropout(rows, share, rng)
    gone = thinned == 0
    assert gone.float().mean().item() == pytest.approx(share, abs=6 * (share * (1 - share) / rows.numel()) ** 0.5)
    np.testing.assert_allclose(thinned[~gone], rows[~gone] / (1 - share), rtol=1e-6)
    assert gone.any(0).all()
    assert not gone.all(1).all()
    assert not torch.equal(gone, dropout(rows, share, rng) == 0)


def test_without_dropout_nothing_is_drawn(rng: np.random.Generator) -> None:
    rows, before = torch.ones(3, 2), rng.bit_generator.state
    assert dropout(rows, 0.0, rng) is rows
    assert rng.bit_generator.state == before


def test_numbers_that_are_dropped_are_not_learnt_from(small_graph: KnowledgeGraph) -> None:
    """One step: what is dropped has no gradient, so it stays where it starts."""
    count = len(small_graph.train)
    config = TrainConfig(k=50, epochs=1, batch_size=count, chunk_size=count, learning_rate=0.5, training_eta=5)
    start = loop.train(small_graph, replace(config, learning_rate=1e-30), CPU).model.embeddings
    for share in (0.0, 0.3):
        trained = loop.train(small_graph, replace(config, dropout=share), CPU).model.embeddings
        stayed = (trained.entities == start.entities).float().mean().item()
        assert stayed == pytest.approx(share, abs=0.05)
        assert (trained.predicates != start.predicates).all()


def test_the_penalty_is_the_same_with_dropout(small_graph: KnowledgeGraph) -> None:
    batch, penalties = small_graph.train.triples[:64], []
    for share in (0.0, 0.5):
        config = TrainConfig(
            model="distmult", k=8, batch_size=64, chunk_size=16, lp_weight=1, lp_power=3, dropout=share
        )
        state = loop._State(small_graph, *built(config), config, CPU, compiled=False)
        entities, predicates = state.entities.table.clone(), state.predicates.table.clone()
        dense = state.dense
        state.dense = lambda *given, dense=dense: penalties.append(found := dense(*given)) or found
        state._step(batch, 16, 1, 0.1)
        rows = torch.cat([entities[batch[:, [0, 2]]].flatten(1), predicates[batch[:, 1]]], 1)
        assert penalties[-1][1].item() == pytest.approx(lp(rows, 3).item(), rel=1e-5)
    assert penalties[0][0].item() != penalties[1][0].item()


@pytest.mark.parametrize("model", ["toruse", "kg2e"])
def test_where_a_zero_says_something_dropout_is_refused(small_graph: KnowledgeGraph, model: str) -> None:
    with pytest.raises(InputError, match=rf"^dropout is 0\.2: it must be 0 for {model}"):
        loop.train(small_graph, TrainConfig(model=model, dropout=0.2, k=4, epochs=1), CPU)


@pytest.mark.parametrize("model", ["transe", "distmult", "tucker"])
def test_embeddings_start_in_a_range_that_can_be_widened(small_graph: KnowledgeGraph, model: str) -> None:
    config = TrainConfig(model=model, k=16, epochs=1, learning_rate=1e-30)
    own = loop.train(small_graph, config, CPU).model.embeddings
    wider = loop.train(small_graph, replace(config, initial_scale=3), CPU).model.embeddings
    for table in ("entities", "predicates"):
        np.testing.assert_allclose(getattr(wider, table), 3 * getattr(own, table), rtol=1e-5)
