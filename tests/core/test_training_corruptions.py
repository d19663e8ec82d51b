"""The corruptions of a step of training: whose they are, and which do not count."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import TrainConfig
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.corruptions.sides import subject_shares
from kgcore.graph import KnowledgeGraph, Split
from kgcore.registries import LOSSES, MODELS
from kgcore.registry import build
from kgcore.training import loop
from kgcore.training.batches import Batches
from kgcore.training.corruptions import StepCorruptions

CPU = torch.device("cpu")


@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    chunk=st.integers(1, 9),
    chunks=st.integers(1, 4),
    by_predicate=st.booleans(),
)
def test_an_epoch_has_each_positive_once_in_chunks_of_one_predicate(
    counts: list[int], chunk: int, chunks: int, by_predicate: bool
) -> None:
    predicates = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    batches = Batches(predicates, chunk * chunks, chunk, by_predicate)
    steps = batches.draw(np.random.default_rng(0))
    assert len(steps) == len(batches)
    assert sorted(np.concatenate([rows for rows, _ in steps])) == list(range(len(predicates)))
    for rows, own in steps:
        assert 1 <= len(rows) <= chunk * chunks
        if by_predicate:
            parts = [predicates[rows[start : start + own]] for start in range(0, len(rows), own)]
            assert all(len(np.unique(part)) == 1 for part in parts)
    shared = sum(len(rows) for rows, own in steps if own > 1)
    if by_predicate and chunk > 1:
        assert shared == sum(count // chunk * chunk for count in counts)


def test_typed_corruptions_that_are_shared_stay_in_the_predicates_range(small_graph: KnowledgeGraph) -> None:
    """Predicates of 20 triples each with ranges of their own, in chunks of 16."""
    rng = np.random.default_rng(0)
    triples = np.concatenate(
        [np.c_[rng.integers(10, size=20), np.full(20, p), 10 + 10 * p + rng.integers(10, size=20)] for p in range(3)]
    )
    graph = replace(small_graph, train=Split(triples, np.ones(60)))
    config = TrainConfig(k=4, chunk_size=16, batch_size=32, training_strategy={"typed": 1.0}, training_eta=6)
    model, loss = build(MODELS.get("transe"), {}, 4), build(LOSSES.get("nll"), {})
    state = loop._State(graph, model, loss, config, CPU, compiled=False)
    ranges = [np.unique(triples[triples[:, 1] == p, 2]) for p in range(3)]
    seen = 0
    for rows, chunk in state.batches.draw(state.rng):
        batch, own = loop._chunked(state.positives[rows], chunk)
        _, in_object, _ = state.negatives.draw(batch, own)
        for predicate, stand_ins in zip(batch[::own, 1], in_object, strict=True):
            assert set(stand_ins) <= set(ranges[predicate])
            seen += len(stand_ins)
    assert seen


def test_a_shared_stand_in_that_is_the_positives_own_entity_counts_for_nothing(small_graph: KnowledgeGraph) -> None:
    batch = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 1], [5, 0, 6]])
    stand_ins = {SUBJECT: np.array([[2], [9]]), OBJECT: np.array([[1, 3], [6, 7]])}
    negatives = StepCorruptions(
        small_graph, TrainConfig(training_eta=3, training_sides="object=2 / 3"), np.random.default_rng(0)
    )
    negatives.strategy.draw = lambda leaders, column, count, rng: stand_ins[column]
    in_subject, in_object, left_out = negatives.draw(batch, 2)
    np.testing.assert_array_equal(in_subject, stand_ins[SUBJECT])
    np.testing.assert_array_equal(in_object, stand_ins[OBJECT])
    expected = [[True, False, False], [False, True, True], [False, False, False], [True, False, False]]
    np.testing.assert_array_equal(left_out, expected)
    scores = torch.randn(4, 5, dtype=torch.float64)
    for name in LOSSES.names():
        loss = build(LOSSES.get(name), {})
        masked = torch.cat([scores, torch.full((4, 2), loop.NO_CORRUPTION, dtype=torch.float64)], 1).requires_grad_()
        value = loss(torch.zeros(4, dtype=torch.float64), masked)
        torch.testing.assert_close(value, loss(torch.zeros(4, dtype=torch.float64), scores))
        (gradient,) = torch.autograd.grad(value, masked)
        assert (gradient[:, 5:] == 0).all()


def test_sides_by_bernoulli_are_each_predicates_own(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(training_eta=7, training_sides="bernoulli", chunk_size=4)
    negatives = StepCorruptions(small_graph, config, np.random.default_rng(0))
    assert negatives.by_predicate
    shares = subject_shares(small_graph, "bernoulli")
    assert len(set(shares)) > 1
    batch = small_graph.train.triples[np.argsort(small_graph.train.triples[:, 1], kind="stable")]
    batch = np.concatenate([batch[batch[:, 1] == p][:120] for p in range(3)])
    counts = []
    for _ in range(60):
        in_subject, in_object, left_out = negatives.draw(batch, 4)
        on_object, on_subject = np.split(~left_out, [in_object.shape[1]], axis=1)
        own = (batch[:, OBJECT].reshape(-1, 4, 1) == in_object[:, None]).reshape(len(batch), -1)
        assert not on_object[own].any()
        used = on_subject.reshape(-1, 4, in_subject.shape[1]).any(1).sum(1)
        assert (used + on_object.reshape(-1, 4, in_object.shape[1]).any(1).sum(1) == 7).all()
        counts.append(used)
    for predicate in range(3):
        expected = 7 * shares[predicate]
        assert np.concatenate([row.reshape(3, -1)[predicate] for row in counts]).mean() == pytest.approx(
            expected, abs=0.1
        )
    trained = loop.train(
        small_graph, TrainConfig(k=4, training_eta=7, epochs=4, training_sides="bernoulli", chunk_size=4), CPU
    )
    assert trained.losses[-1] < trained.losses[0]


def test_training_facts_are_left_out_where_that_is_asked_for(small_graph: KnowledgeGraph) -> None:
    batch, known = small_graph.train.triples[:64], small_graph.index(small_graph.train.positives)
    for filtered in (False, True):
        config = TrainConfig(training_eta=40, training_filtered=filtered)
        in_subject, in_object, left_out = StepCorruptions(small_graph, config, np.random.default_rng(0)).draw(batch, 8)
        facts = []
        for column, stand_ins in ((OBJECT, in_object), (SUBJECT, in_subject)):
            made = np.repeat(batch[:, None], stand_ins.shape[1], axis=1)
            made[:, :, column] = np.repeat(stand_ins, 8, axis=0)
            facts.append(known.contains(made.reshape(-1, 3)).reshape(len(batch), -1))
        every = np.concatenate(facts, axis=1)
        own = np.concatenate(
            [
                (batch[:, c, None] == np.repeat(drawn, 8, axis=0))
                for c, drawn in ((OBJECT, in_object), (SUBJECT, in_subject))
            ],
            axis=1,
        )
        assert (every & ~own).any()
        np.testing.assert_array_equal(left_out, every if filtered else own)
