"""The corruptions of a training step: which positives share corruptions, and which corruptions do not count."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, subject_shares
from kgcore.embed.losses.base import NO_CORRUPTION
from kgcore.embed.training import loop
from kgcore.embed.training.batches import Batches, StepCorruptions, fill_last_chunk
from kgcore.embed.training.loop import TrainingState, built
from kgcore.registries import LOSSES
from kgcore.registry import build
from tests.core.trainings import CPU


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


def test_shared_typed_corruptions_stay_in_the_range_of_their_predicate(small_graph: KnowledgeGraph) -> None:
    """The graph has three predicates of 20 triples each with disjoint ranges. A chunk has 16 positives."""
    rng = np.random.default_rng(0)
    triples = np.concatenate(
        [np.c_[rng.integers(10, size=20), np.full(20, p), 10 + 10 * p + rng.integers(10, size=20)] for p in range(3)]
    )
    graph = replace(small_graph, train=Split(triples, np.ones(60)))
    config = TrainConfig(k=4, chunk_size=16, batch_size=32, training_strategy={"typed": 1.0}, training_eta=6)
    state = TrainingState(graph, *built(config), config, CPU, compiled=False)
    ranges = [np.unique(triples[triples[:, 1] == p, 2]) for p in range(3)]
    seen = 0
    for rows, chunk in state.batches.draw(state.rng):
        batch, own = fill_last_chunk(state.positives[rows], chunk)
        drawn = state.corruptions.draw(batch, own)
        for predicate, objects in zip(batch[::own, 1], drawn.objects, strict=True):
            assert set(objects) <= set(ranges[predicate])
            seen += len(objects)
    assert seen


def test_a_shared_corruption_that_equals_the_positive_does_not_count(small_graph: KnowledgeGraph) -> None:
    batch = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 1], [5, 0, 6]])
    entities = {SUBJECT: np.array([[2], [9]]), OBJECT: np.array([[1, 3], [6, 7]])}
    config = TrainConfig(training_eta=3, training_sides=f"object={2 / 3}")
    corruptions = StepCorruptions(small_graph, config, np.random.default_rng(0))
    corruptions.strategy.draw = lambda leaders, column, count, rng: entities[column]
    drawn = corruptions.draw(batch, 2)
    np.testing.assert_array_equal(drawn.subjects, entities[SUBJECT])
    np.testing.assert_array_equal(drawn.objects, entities[OBJECT])
    expected = [[True, False, False], [False, True, True], [False, False, False], [True, False, False]]
    np.testing.assert_array_equal(drawn.left_out, expected)


def test_the_score_of_a_corruption_that_does_not_count_changes_no_loss_and_no_gradient() -> None:
    scores = torch.randn(4, 5, dtype=torch.float64)
    for name in LOSSES.names():
        loss = build(LOSSES.get(name), {})
        masked = torch.cat([scores, torch.full((4, 2), NO_CORRUPTION, dtype=torch.float64)], 1).requires_grad_()
        value = loss(torch.zeros(4, dtype=torch.float64), masked)
        torch.testing.assert_close(value, loss(torch.zeros(4, dtype=torch.float64), scores))
        (gradient,) = torch.autograd.grad(value, masked)
        assert (gradient[:, 5:] == 0).all()


def test_bernoulli_sides_follow_the_share_of_each_predicate(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(training_eta=7, training_sides="bernoulli", chunk_size=4)
    corruptions = StepCorruptions(small_graph, config, np.random.default_rng(0))
    assert corruptions.by_predicate
    shares = subject_shares(small_graph, "bernoulli")
    assert len(set(shares)) > 1
    batch = small_graph.train.triples[np.argsort(small_graph.train.triples[:, 1], kind="stable")]
    batch = np.concatenate([batch[batch[:, 1] == p][:120] for p in range(3)])
    counts = []
    for _ in range(60):
        drawn = corruptions.draw(batch, 4)
        on_object, on_subject = np.split(~drawn.left_out, [drawn.objects.shape[1]], axis=1)
        own = (batch[:, OBJECT].reshape(-1, 4, 1) == drawn.objects[:, None]).reshape(len(batch), -1)
        assert not on_object[own].any()
        used = on_subject.reshape(-1, 4, drawn.subjects.shape[1]).any(1).sum(1)
        assert (used + on_object.reshape(-1, 4, drawn.objects.shape[1]).any(1).sum(1) == 7).all()
        counts.append(used)
    for predicate in range(3):
        expected = 7 * shares[predicate]
        assert np.concatenate([row.reshape(3, -1)[predicate] for row in counts]).mean() == pytest.approx(
            expected, abs=0.1
        )


def test_a_training_with_bernoulli_sides_learns(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(k=4, training_eta=7, epochs=4, training_sides="bernoulli", chunk_size=4)
    losses = loop.train(small_graph, config, CPU).losses
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("filtered", [False, True])
def test_training_facts_are_left_out_if_filtered(small_graph: KnowledgeGraph, filtered: bool) -> None:
    batch, known = small_graph.train.triples[:64], small_graph.index(small_graph.train.positives)
    config = TrainConfig(training_eta=40, training_filtered=filtered)
    drawn = StepCorruptions(small_graph, config, np.random.default_rng(0)).draw(batch, 8)
    facts, own = [], []
    for column, entities in ((OBJECT, drawn.objects), (SUBJECT, drawn.subjects)):
        every = np.repeat(entities, 8, axis=0)  # (64, n)
        made = np.repeat(batch[:, None], entities.shape[1], axis=1)
        made[:, :, column] = every
        facts.append(known.contains(made.reshape(-1, 3)).reshape(len(batch), -1))
        own.append(batch[:, column, None] == every)
    known_facts, equal = np.concatenate(facts, axis=1), np.concatenate(own, axis=1)
    assert (known_facts & ~equal).any()
    np.testing.assert_array_equal(drawn.left_out, known_facts if filtered else equal)
