"""Training steps by compiled loops, compared with automatic differentiation of the formulas."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.training import loop as training
from kgcore.embed.training.loop import Training, backend_of, built, train
from kgcore.registries import LOSSES, MODELS, OPTIMISERS, STRATEGIES
from kgcore.wings.fast_cpu.training import FORMS, numbered
from kgcore.workers import Workers
from tests.core.trainings import CPU, same


def trained(
    graph: KnowledgeGraph, config: TrainConfig, monkeypatch: pytest.MonkeyPatch, threads: int | None
) -> Training:
    """Train by loops with so many threads, or by automatic differentiation (None)."""
    monkeypatch.setattr(training, "backend_of", backend_of if threads else lambda device: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads or 1)
    monkeypatch.setattr("kgcore.wings.fast_cpu.training.LEAST", 4)  # several parts
    return train(graph, config, CPU)


@pytest.mark.parametrize("model", FORMS)
@pytest.mark.parametrize("chunk", [1, 7])
def test_a_training_by_loops_is_that_by_automatic_differentiation(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, model: str, chunk: int
) -> None:
    config = TrainConfig(model=model, k=6, epochs=2, batch_size=100, chunk_size=chunk, training_eta=5, loss="nll")
    rows, copies = (trained(small_graph, config, monkeypatch, threads) for threads in (1, None))
    assert rows.losses == pytest.approx(copies.losses, rel=1e-5)
    ours, theirs = rows.model.embeddings, copies.model.embeddings
    torch.testing.assert_close(ours.predicates, theirs.predicates, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(ours.entities, theirs.entities, rtol=1e-3, atol=1e-5)
    assert same(rows, trained(small_graph, config, monkeypatch, 3))  # to the last bit


@pytest.mark.parametrize(
    "changed",
    [
        {"training_sides": "object"},
        {"training_sides": "subject"},
        {"training_sides": "bernoulli"},
        {"lp_weight": 0.1, "training_filtered": True},
        {"lp_weight": 0.1, "lp_power": 2.0, "model": "distmult"},
        {"lp_weight": 0.1, "model": "kg2e"},
        {"sides_apart": True, "training_sides": "bernoulli", "model": "kg2e"},
        {"sides_apart": True, "loss": "multiclass_nll"},
        {"inverse_relations": True},
        {"sides_apart": True, "training_eta": 5},
        {"sides_apart": True, "inverse_relations": True, "model": "complex"},
        {"sides_apart": True, "training_sides": "subject", "model": "distmult"},
        {"training_sides": "object", "model_options": {"norm": 2}},
        {"model_options": {"norm": 2}},
    ],
)
@pytest.mark.parametrize("chunk", [1, 7])
def test_every_setting_trains_by_loops(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], chunk: int
) -> None:
    config = TrainConfig(k=6, epochs=2, batch_size=100, chunk_size=chunk, training_eta=4).replace(**changed)
    rows, copies = (trained(small_graph, config, monkeypatch, threads) for threads in (2, None))
    torch.testing.assert_close(rows.model.embeddings.entities, copies.model.embeddings.entities, rtol=1e-3, atol=1e-5)


def test_the_loops_are_for_these_models_and_settings(small_graph: KnowledgeGraph) -> None:
    def loops(graph: KnowledgeGraph = small_graph, compiled: bool | None = None, **changed: object) -> bool:
        config = TrainConfig(k=4).replace(**changed)
        return training.TrainingState(graph, *built(config), config, CPU, compiled).step._whole is not None

    assert [name for name in MODELS.names() if loops(model=name)] == sorted(FORMS)
    assert [name for name in LOSSES.names() if not loops(loss=name)] == ["confidence"]
    assert loops(lp_weight=0.1)
    assert not loops(lp_weight=0.1, lp_power=2.5)
    assert not loops(dropout=0.1)
    assert not loops(compiled=True)
    assert not loops(model="kg2e", model_options={"likelihood": True})
    assert not loops(training_strategy={"uniform": 1.0, "kbgan": 1.0})
    facts = small_graph.train
    assert not loops(replace(small_graph, train=Split(facts.triples, facts.labels, np.full(len(facts), 0.5))))


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("loss", LOSSES.names())
def test_every_loss_trains_by_loops(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, name: str, loss: str
) -> None:
    config = TrainConfig(model=name, loss=loss, k=70, epochs=1, batch_size=150, chunk_size=40, training_eta=61)
    loop, plain = (trained(small_graph, config, monkeypatch, threads) for threads in (3, None))
    assert loop.losses == pytest.approx(plain.losses, rel=1e-5)
    ours, theirs = loop.model.embeddings, plain.model.embeddings
    torch.testing.assert_close(ours.predicates, theirs.predicates, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(ours.entities, theirs.entities, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("optimiser", OPTIMISERS.names())
@pytest.mark.parametrize("chunk", [1, 7])
def test_a_part_of_many_positives_and_rows_is_that_of_copies(
    monkeypatch: pytest.MonkeyPatch, optimiser: str, chunk: int
) -> None:
    """A loop works on 32 positives, and on 64 rows, at a time."""
    monkeypatch.setattr("kgcore.wings.fast_cpu.training.PARTS", 1)
    triples = np.random.default_rng(0).integers((150, 3, 150), size=(200, 3))
    facts, none = Split(triples, np.ones(200)), Split(triples[:0], np.zeros(0))
    names = [str(number) for number in range(150)]
    graph = KnowledgeGraph("150", names, names[:3], facts, none, none)
    config = TrainConfig(k=6, epochs=2, batch_size=100, chunk_size=chunk, training_eta=5, optimiser=optimiser)
    rows, copies = (trained(graph, config, monkeypatch, threads) for threads in (2, None))
    torch.testing.assert_close(rows.model.embeddings.entities, copies.model.embeddings.entities, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("model", ["rotate", "transe"])
@pytest.mark.parametrize("chunk", [1, 2])
def test_a_step_may_have_fewer_positives_than_there_are_predicates(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, model: str, chunk: int
) -> None:
    config = TrainConfig(model=model, k=6, epochs=1, batch_size=2, chunk_size=chunk, training_eta=3, lp_weight=0.1)
    few = replace(small_graph, train=Split(small_graph.train.triples[:100], np.ones(100)))
    rows, copies = (trained(few, config, monkeypatch, threads) for threads in (2, None))
    ours, theirs = rows.model.embeddings, copies.model.embeddings
    torch.testing.assert_close(ours.predicates, theirs.predicates, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(ours.entities, theirs.entities, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES.names() if STRATEGIES.get(name).by_model])
def test_corruptions_that_the_model_chooses_are_the_same_with_any_number_of_threads(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    config = TrainConfig(k=8, epochs=4, batch_size=60, chunk_size=10, training_strategy={strategy: 1.0})
    one, three = (trained(small_graph, config, monkeypatch, threads) for threads in (1, 3))
    assert same(one, three)


def test_rows_of_a_predicate_are_multiplied_at_once(small_graph: KnowledgeGraph) -> None:
    """RESCAL and TuckER compute the matrix of a predicate once, for all its positives."""
    for model in ("rescal", "tucker"):
        config = TrainConfig(model=model, k=6, epochs=2, batch_size=100, chunk_size=7, training_eta=5, lp_weight=0.1)
        grouped = training.TrainingState(small_graph, *built(config), config, CPU)
        alone = training.TrainingState(small_graph, *built(config), config, CPU)
        assert grouped.step._grouped
        alone.step._grouped = False
        losses = [[each.run_epoch(epoch) for epoch in (1, 2)] for each in (grouped, alone)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        tables = [each.tables.entities.table for each in (grouped, alone)]
        torch.testing.assert_close(tables[0], tables[1], rtol=1e-3, atol=1e-5)


@given(ids=st.lists(st.integers(0, 9), max_size=60))
def test_numbering_is_that_of_numpy(ids: list[int]) -> None:
    every, slots = np.array(ids, dtype=np.int64), np.full(10, -1, dtype=np.int32)
    rows, starts, order = numbered(every, slots)
    assert rows.tolist() == np.unique(every).tolist()
    assert [np.flatnonzero(every == row).tolist() for row in rows] == [
        order[start:stop].tolist() for start, stop in pairwise(starts)
    ]
    assert (slots == -1).all()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_workers_do_every_part_once_and_pass_on_an_error(threads: int) -> None:
    workers, done = Workers(threads), np.zeros(101, dtype=int)

    def work(start: int, stop: int) -> None:
        done[start:stop] += 1

    workers.run(work, 101, 10)
    workers.run(work, 0, 10)
    assert (done == 1).all()

    def fail(start: int, stop: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        workers.run(fail, 101, 10)
