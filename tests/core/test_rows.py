"""Training over rows of a table that are read where they are, compared with copies and automatic differentiation."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import TrainConfig
from kgcore.graph import KnowledgeGraph, Split
from kgcore.models.base import GraphModel
from kgcore.models.comparators import Comparator, DotProduct, NegativeDistance
from kgcore.models.rotate import ModulusDistance
from kgcore.models.rows import TableRows, compare
from kgcore.registries import LOSSES, MODELS, OPTIMISERS, STRATEGIES
from kgcore.registry import build
from kgcore.training import state
from kgcore.training.loop import Training, train
from kgcore.training.row_pass import numbered, row_pass
from kgcore.training.step_loop import step_loop
from kgcore.workers import Workers
from tests.core.trainings import CPU, same

COMPARATORS = [DotProduct(), NegativeDistance(1), NegativeDistance(2), ModulusDistance()]
ON_ROWS = [name for name in MODELS.names() if not isinstance(build(MODELS.get(name), {}, 4), GraphModel)]


@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize(("count", "size"), [(300, 3), (20, 40), (1, 1)])
def test_rows_are_compared_as_their_copies(comparator: Comparator, count: int, size: int) -> None:
    rng = np.random.default_rng(1)
    table = torch.from_numpy(rng.integers(-4, 5, size=(30, 34)).astype(np.float32) / 2)
    queries = torch.from_numpy(rng.integers(-4, 5, size=(count, 34)).astype(np.float32) / 2).requires_grad_()
    rows = TableRows(table, rng.integers(30, size=(count, size)), Workers(2))
    weights = torch.from_numpy(rng.normal(size=(count, size)).astype(np.float32))
    assert comparator.kind is not None
    found, copies = compare(comparator.kind, queries, rows), table[torch.from_numpy(rows.ids)]
    plain = comparator.outer(queries[:, None], copies)[:, 0]
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-5)
    [ours], [theirs] = (torch.autograd.grad((scores * weights).sum(), [queries]) for scores in (found, plain))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    assert torch.equal(rows.gradient, weights)


def trained(
    graph: KnowledgeGraph, config: TrainConfig, monkeypatch: pytest.MonkeyPatch, threads: int | None
) -> Training:
    """Train over rows with so many threads, or over copies of them (None)."""
    monkeypatch.setattr(
        state, "row_pass", lambda tables, model, drop, _, loop: threads and row_pass(tables, model, drop, threads, loop)
    )
    monkeypatch.setattr("kgcore.training.row_pass.LEAST", 4)  # several parts
    return train(graph, config, CPU)


@pytest.mark.parametrize("model", ON_ROWS)
@pytest.mark.parametrize("chunk", [1, 7])
def test_a_training_over_rows_is_that_over_copies(
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
        {"lp_weight": 0.1, "lp_power": 2.5, "model": "complex"},
        {"sides_apart": True, "loss": "multiclass_nll"},
        {"inverse_relations": True},
        {"training_strategy": {"uniform": 1.0, "kbgan": 1.0}},
        {"sides_apart": True, "training_eta": 5},
        {"sides_apart": True, "inverse_relations": True, "model": "complex"},
        {"sides_apart": True, "training_sides": "subject", "model": "distmult"},
        {"training_sides": "object", "model_options": {"norm": 2}},
        {"model_options": {"norm": 2}},
    ],
)
@pytest.mark.parametrize("chunk", [1, 7])
def test_every_setting_trains_over_rows(
    small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], chunk: int
) -> None:
    config = TrainConfig(k=6, epochs=2, batch_size=100, chunk_size=chunk, training_eta=4).replace(**changed)
    rows, copies = (trained(small_graph, config, monkeypatch, threads) for threads in (2, None))
    torch.testing.assert_close(rows.model.embeddings.entities, copies.model.embeddings.entities, rtol=1e-3, atol=1e-5)


WITH_A_LOOP = ["complex", "distmult", "hole_complex", "rotate", "transe"]


def test_the_step_loop_is_for_these_models() -> None:
    for name in MODELS.names():
        model, loss = build(MODELS.get(name), {}, 4), build(LOSSES.get("nll"), {})
        assert bool(step_loop(model, loss, TrainConfig(), rewarded=False)) == (name in WITH_A_LOOP)
        assert step_loop(model, loss, TrainConfig(), rewarded=True) is None


@pytest.mark.parametrize("name", WITH_A_LOOP)
@pytest.mark.parametrize("loss", LOSSES.names())
def test_a_step_by_the_step_loop_is_that_by_automatic_differentiation(
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
    monkeypatch.setattr("kgcore.training.step_loop.PARTS", 1)
    monkeypatch.setattr("kgcore.training.row_pass.PARTS", 1)
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


def test_confidences_train_over_rows(small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = small_graph.train
    sure = Split(facts.triples, facts.labels, np.random.default_rng(0).random(len(facts)))
    graph, config = replace(small_graph, train=sure), TrainConfig(k=6, epochs=2, batch_size=100, chunk_size=1)
    rows, copies = (trained(graph, config, monkeypatch, threads) for threads in (2, None))
    torch.testing.assert_close(rows.model.embeddings.entities, copies.model.embeddings.entities, rtol=1e-3, atol=1e-5)


def test_numbers_that_are_not_finite_stay() -> None:
    for comparator in COMPARATORS:
        queries = torch.tensor([[0.0] * 20, [np.nan] * 20, [np.inf] * 20])
        rows = TableRows(torch.ones(2, 20), np.array([[1], [1], [1]]), Workers(1))
        zero, nan, infinite = compare(comparator.kind or 0, queries, rows).ravel()
        assert zero.isfinite()
        assert nan.isnan()
        assert infinite.isinf()


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
