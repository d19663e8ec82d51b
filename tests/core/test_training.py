"""Training: it learns, the seed determines its result, and each step follows its formula."""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.losses.base import Loss
from kgcore.embed.models.base import GraphModel
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training import loop
from kgcore.embed.training.batches import SharedCorruptions, TrainingBatch
from kgcore.embed.training.loop import TrainingState, built
from kgcore.embed.training.objective import Gathered, StepObjective
from kgcore.embed.training.step import Step
from kgcore.errors import FitError
from kgcore.registries import LOSSES, MODELS
from tests.core.trainings import CPU, StoppedError, same


@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.parametrize("loss", LOSSES.names())
def test_every_model_learns_with_every_loss(small_graph: KnowledgeGraph, model: str, loss: str) -> None:
    """Few triples and large steps: every model learns 100 random triples by heart."""
    facts = small_graph.train.triples[:100]
    graph = replace(small_graph, train=Split(facts, np.ones(100)))
    config = TrainConfig(
        model=model,
        model_options={"filters": 2} if "filters" in signature(MODELS.get(model)).parameters else {},
        loss=loss,
        k=16,
        epochs=30,
        batch_size=50,
        chunk_size=50,
        training_eta=10,
        learning_rate=0.08,
    )
    training = loop.train(graph, config, CPU)
    assert len(training.losses) == 30
    assert training.losses[-1] < training.losses[0]
    rng = np.random.default_rng(0)
    others = np.c_[rng.integers(40, size=500), rng.integers(3, size=500), rng.integers(40, size=500)]
    assert training.model.score(facts).mean() > training.model.score(others).mean()


@pytest.mark.parametrize(("chunk", "eta"), [(1, 3), (7, 1), (64, 20), (1000, 5)])
def test_chunks_and_etas_of_every_size_train(small_graph: KnowledgeGraph, chunk: int, eta: int) -> None:
    config = TrainConfig(k=4, epochs=2, batch_size=130, chunk_size=chunk, training_eta=eta)
    assert np.isfinite(loop.train(small_graph, config, CPU).losses).all()


def test_the_seed_determines_a_training(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128)
    assert same(loop.train(small_graph, config, CPU), loop.train(small_graph, config, CPU))
    other = loop.train(small_graph, TrainConfig(k=8, epochs=3, batch_size=128, seed=1), CPU)
    assert not same(loop.train(small_graph, config, CPU), other)


def test_a_callback_sees_the_model_after_chosen_epochs_and_does_not_change_the_training(
    small_graph: KnowledgeGraph,
) -> None:
    config, seen = TrainConfig(k=8, epochs=5, batch_size=128, learning_rate_end=1.0), {}

    def see(epoch: int, model: TrainedModel) -> None:
        seen[epoch] = model.fingerprint()

    watched = loop.train(small_graph, config, CPU, on_model=see, model_epochs=(2, 5, 9))
    assert same(watched, loop.train(small_graph, config, CPU))
    at_two = loop.train(small_graph, config.replace(epochs=2), CPU).model  # at a constant step size
    assert seen == {2: at_two.fingerprint(), 5: watched.model.fingerprint()}

    def stop(epoch: int, model: TrainedModel) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        loop.train(small_graph, config, CPU, on_model=stop, model_epochs={4})


def test_a_model_that_encodes_trains_through_its_encoding(small_graph: KnowledgeGraph) -> None:
    """A step of one triple equals autograd through whole tables: Adam's first moment is a tenth of the gradient."""
    state, model, loss = encoding_state(small_graph)
    leaves = {name: table.table.clone().requires_grad_() for name, table in state.tables.by_name().items()}
    shared = {name.removeprefix("shared."): table for name, table in leaves.items() if name.startswith("shared.")}
    whole, facts = model.bound(shared), torch.from_numpy(small_graph.train.triples)
    entities, predicates = whole.encode(leaves["entities"], leaves["predicates"], facts)

    drawn = SharedCorruptions(np.array([[5]]), np.array([[7]]), np.zeros((1, 2), dtype=bool))
    state.corruptions.draw = lambda batch, chunk: drawn
    [s, p, o] = small_graph.train.triples[0]
    assert not {5, 7} & {s, o}
    triples = torch.tensor([[s, p, o], [s, p, 7], [5, p, o]])
    scores = whole.score(entities[triples[:, 0]], predicates[triples[:, 1]], entities[triples[:, 2]])
    value = loss(scores[:1], scores[None, 1:])
    lost = state.step.run(state.step.draw(small_graph.train.triples[:1], 1), 1, 0.1)
    assert lost.item() == pytest.approx(value.item())
    gradients = torch.autograd.grad(value, list(leaves.values()))
    for table, gradient in zip(state.tables.by_name().values(), gradients, strict=True):
        torch.testing.assert_close(table.first, 0.1 * gradient)
    assert (state.tables.entities.first != 0).any(1).sum() > 10  # neighbours at distance 1 and 2


def test_a_model_that_encodes_is_stored_encoded(small_graph: KnowledgeGraph) -> None:
    state, model, _ = encoding_state(small_graph)
    tables, facts = state.tables, torch.from_numpy(small_graph.train.triples)
    shared = {name: table.table for name, table in tables.shared.items()}
    entities, predicates = model.bound(shared).encode(tables.entities.table, tables.predicates.table, facts)
    kept = tables.embeddings()
    assert torch.equal(kept.entities, entities)
    assert torch.equal(kept.predicates, predicates)
    assert not torch.equal(kept.entities, tables.entities.table)


def encoding_state(graph: KnowledgeGraph) -> tuple[TrainingState, GraphModel, Loss]:
    """Return a training of KBGAT before its first step."""
    config = TrainConfig(model="kbgat", model_options={"filters": 3}, loss="nll", k=4, batch_size=1, training_eta=2)
    model, loss = built(config)
    assert isinstance(model, GraphModel)
    return TrainingState(graph, model, loss, config, CPU, compiled=False), model, loss


def test_the_mean_loss_counts_every_positive_once(small_graph: KnowledgeGraph) -> None:
    losses = []
    for chunk in (1, 7, 64, 600):  # 600 positives in batches of 128: chunks that fit and chunks that do not
        config = TrainConfig(k=8, epochs=1, batch_size=128, chunk_size=chunk, learning_rate=1e-9)
        losses += loop.train(small_graph, config, CPU).losses
    np.testing.assert_allclose(losses, losses[0], rtol=0.02)


def test_a_loss_that_is_not_finite_is_an_error(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(model="distmult", loss="multiclass_nll", k=4, epochs=50, learning_rate=1e30)
    with pytest.raises(FitError, match="lower the learning rate"):
        loop.train(small_graph, config, CPU)


def test_embeddings_that_are_not_finite_are_an_error_although_the_last_loss_was_finite(
    small_graph: KnowledgeGraph,
) -> None:
    config = TrainConfig(k=4, epochs=1, batch_size=10_000, learning_rate=1e308)
    with pytest.raises(FitError, match="the embeddings are no finite numbers after epoch 1: lower the learning rate"):
        loop.train(small_graph, config, CPU)


def test_sides_apart_is_one_softmax_for_each_side(small_graph: KnowledgeGraph) -> None:
    def value(apart: bool) -> float:
        config = TrainConfig(model="distmult", loss="multiclass_nll", k=4, sides_apart=apart)
        objective = StepObjective(*built(config), config, rewarded=False)
        rows = Gathered(s, o, p, other_subjects, other_objects, torch.cat([s, o]))
        left_out = torch.zeros(2, 5, dtype=torch.bool)
        return float(objective.evaluate({}, rows, left_out, chunk=2, count=2).loss)

    s, p, o, other_subjects, other_objects = (torch.randn(n, 4, dtype=torch.float64) for n in (2, 2, 2, 3, 2))
    true = np.exp((s * p * o).sum(-1).numpy())
    objects, subjects = (np.exp(((a * p) @ b.T).numpy()).sum(1) for a, b in ((s, other_objects), (o, other_subjects)))
    apart = -np.log(true / (true + objects)) - np.log(true / (true + subjects))
    together = -np.log(true / (true + objects + subjects))
    assert value(apart=True) == pytest.approx(apart.sum(), rel=1e-6)
    assert value(apart=False) == pytest.approx(together.sum(), rel=1e-6)


def test_the_learning_rate_falls_linearly_to_its_end(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    run = Step.run

    def noted(self: Step, batch: TrainingBatch, number: int, rate: float, also: Callable[[], None]) -> torch.Tensor:
        rates.append(rate)
        return run(self, batch, number, rate, also)

    monkeypatch.setattr(Step, "run", noted)
    config = TrainConfig(k=4, epochs=2, batch_size=100, learning_rate=0.1)
    loop.train(small_graph, config, CPU)
    assert rates == pytest.approx([0.1 * (1 - i / 12) for i in range(12)])
    rates.clear()
    loop.train(small_graph, config.replace(learning_rate_end=1.0), CPU)
    assert rates == pytest.approx([0.1] * 12)
