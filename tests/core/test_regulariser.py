"""Regularisation: the LP penalty, dropout, and the scale of the initial embeddings."""

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training import loop
from kgcore.embed.training.loop import TrainingState, built
from kgcore.embed.training.objective import StepObjective, dropout, lp
from kgcore.errors import InputError
from tests.core.trainings import CPU


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_the_regulariser_is_the_sum_of_powers_and_shrinks_embeddings(small_graph: KnowledgeGraph, power: float) -> None:
    rows = torch.randn(5, 3, dtype=torch.float64)
    assert lp(rows, power).item() == pytest.approx(sum(abs(x) ** power for x in rows.ravel().tolist()))
    config = TrainConfig(model="distmult", k=8, epochs=5, batch_size=128)
    sizes = [
        loop.train(small_graph, config.replace(lp_weight=weight, lp_power=power), CPU).model.embeddings.entities.norm()
        for weight in (0.0, 0.1)
    ]
    assert sizes[1] < 0.9 * sizes[0]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean_of_embeddings(share: float, rng: np.random.Generator) -> None:
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


def test_dropped_numbers_are_not_updated(small_graph: KnowledgeGraph) -> None:
    """In one step, a dropped number has no gradient, so it keeps its initial value."""
    count = len(small_graph.train)
    config = TrainConfig(k=50, epochs=1, batch_size=count, chunk_size=count, learning_rate=0.5, training_eta=5)
    start = loop.train(small_graph, config.replace(learning_rate=1e-30), CPU).model.embeddings
    for share in (0.0, 0.3):
        trained = loop.train(small_graph, config.replace(dropout=share), CPU).model.embeddings
        stayed = (trained.entities == start.entities).float().mean().item()
        assert stayed == pytest.approx(share, abs=0.05)
        assert (trained.predicates != start.predicates).all()


def test_the_penalty_is_the_same_with_dropout(small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, made = small_graph.train.triples[:64], []
    evaluate = StepObjective.evaluate
    monkeypatch.setattr(StepObjective, "evaluate", lambda *given: made.append(found := evaluate(*given)) or found)
    for share in (0.0, 0.5):
        config = TrainConfig(
            model="distmult", k=8, batch_size=64, chunk_size=16, lp_weight=1, lp_power=2.5, dropout=share
        )  # with this power, PyTorch computes the losses that the test reads
        state = TrainingState(small_graph, *built(config), config, CPU, compiled=False)
        entities, predicates = state.tables.entities.table.clone(), state.tables.predicates.table.clone()
        state.step.run(state.step.draw(batch, 16), 1, 0.1)
        rows = torch.cat([entities[batch[:, [0, 2]]].flatten(1), predicates[batch[:, 1]]], 1)
        assert made[-1].penalty.item() == pytest.approx(lp(rows, 2.5).item(), rel=1e-5)
    assert made[0].loss.item() != made[1].loss.item()


@pytest.mark.parametrize("model", ["toruse", "kg2e"])
def test_dropout_is_refused_where_zero_is_a_meaningful_value(small_graph: KnowledgeGraph, model: str) -> None:
    with pytest.raises(
        InputError,
        match=rf"^dropout is 0\.2: it must be 0 for {model}, because 0 is a meaningful value of its embeddings",
    ):
        loop.train(small_graph, TrainConfig(model=model, dropout=0.2, k=4, epochs=1), CPU)


@pytest.mark.parametrize("model", ["transe", "distmult", "tucker"])
def test_the_initial_scale_multiplies_the_initial_embeddings(small_graph: KnowledgeGraph, model: str) -> None:
    config = TrainConfig(model=model, k=16, epochs=1, learning_rate=1e-30)
    own = loop.train(small_graph, config, CPU).model.embeddings
    wider = loop.train(small_graph, config.replace(initial_scale=3), CPU).model.embeddings
    for table in ("entities", "predicates"):
        np.testing.assert_allclose(getattr(wider, table), 3 * getattr(own, table), rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize(("model", "width"), [("transe", 64), ("complex", 128)])
def test_glorot_start_has_the_deviation_of_its_tables(
    small_graph: KnowledgeGraph, model: str, width: int, scale: float
) -> None:
    """Standard deviation sqrt(2 / (rows + width)), normal: a third of the numbers are beyond one deviation."""
    config = TrainConfig(model=model, k=64, epochs=1, learning_rate=1e-30, initialiser="glorot", initial_scale=scale)
    start = loop.train(small_graph, config, CPU).model.embeddings
    for table, rows in ((start.entities, small_graph.entities), (start.predicates, small_graph.predicates)):
        assert table.shape == (len(rows), width)
        deviation = scale * (2 / (len(rows) + width)) ** 0.5
        error = 5 / (2 * table.numel()) ** 0.5
        assert abs(float(table.std()) / deviation - 1) < error
        assert abs(float((table.abs() > deviation).float().mean()) - 0.3173) < 5 * (0.217 / table.numel()) ** 0.5
