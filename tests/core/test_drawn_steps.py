"""The steps that a GPU draws: numbers by counter, their distribution, and the training that they make."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.training.batches import SharedCorruptions, TrainingBatch
from kgcore.embed.training.loop import TrainingState, built, with_inverses
from kgcore.wings.fast_gpu.draws import GAMMA, Counters, DrawnSteps, mixed
from kgcore.wings.fast_gpu.training import GpuBackend
from tests.core.trainings import CPU

SETTINGS: dict[str, dict[str, Any]] = {
    "uniform, shared": {"chunk_size": 16},
    "uniform, of each": {"chunk_size": 1, "training_eta": 5},
    "typed": {"chunk_size": 8, "training_strategy": {"typed": 1.0}},
    "mixed, bernoulli": {
        "chunk_size": 8,
        "training_strategy": {"typed": 0.3, "uniform": 0.7},
        "training_sides": "bernoulli",
    },
    "inverse": {"chunk_size": 16, "inverse_relations": True},
    "object": {"chunk_size": 1, "training_sides": "object=0.9"},
}


def graph() -> KnowledgeGraph:
    drawn = np.random.default_rng(0).integers((40, 3, 40), size=(500, 3))
    drawn[:, 2] = 4 * (drawn[:, 2] // 4) + drawn[:, 1]  # predicates have different objects
    none, names = Split(drawn[:0], np.zeros(0)), [str(number) for number in range(40)]
    return KnowledgeGraph("small", names, names[:3], Split(drawn, np.ones(500)), none, none)


def graph_of(settings: dict[str, Any]) -> KnowledgeGraph:
    return with_inverses(graph()) if settings.get("inverse_relations") else graph()


def state(settings: dict[str, Any], backend: type[GpuBackend] | None) -> TrainingState:
    config = TrainConfig(model="complex", k=8, epochs=3, batch_size=96, lp_weight=1e-3, **settings)
    with patch("kgcore.embed.training.loop.backend_of", lambda device: backend):
        return TrainingState(graph_of(settings), *built(config), config, CPU, False)


def drawn_steps(settings: dict[str, Any]) -> tuple[DrawnSteps, TrainingState]:
    plain = state(settings, None)
    return DrawnSteps(graph_of(settings), plain.corruptions, plain.batches, 0, CPU), plain


def test_the_mix_gives_the_published_numbers_of_splitmix64() -> None:
    counters = torch.arange(1, 4) * GAMMA  # with the seed 0
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [number % 2**64 for number in mixed(counters).tolist()] == expected


def test_a_number_depends_on_its_step_and_not_on_what_is_drawn_with_it() -> None:
    together = Counters.of(3).draw(1, torch.tensor([7, 8, 9]), (4, 2))
    assert torch.equal(together[1:2], Counters.of(3).draw(1, torch.tensor([8]), (4, 2)))
    for seed, purpose in ((3, 2), (4, 1)):
        assert (together != Counters.of(seed).draw(purpose, torch.tensor([7, 8, 9]), (4, 2))).all()


@pytest.mark.parametrize("settings", ["uniform, shared", "typed", "mixed, bernoulli", "object"])
def test_corruptions_have_the_distribution_of_their_strategies(settings: str) -> None:
    drawn, plain = drawn_steps(SETTINGS[settings] | {"chunk_size": 1, "training_eta": 7})
    for row in (0, 1, 2):
        ids, left_out = drawn.draw(torch.full((4_000, 1), row), 1, torch.arange(1, 4_001))
        most = drawn.most[SUBJECT]
        of_subject, of_object = ids[:, 2 : 2 + most], ids[:, 2 + most : -1]
        positive = graph().train.triples[row : row + 1]
        share = plain.corruptions.shares[positive[0, 1]]
        kept = {SUBJECT: ~left_out[:, 0, drawn.most[OBJECT] :], OBJECT: ~left_out[:, 0, : drawn.most[OBJECT]]}
        assert kept[SUBJECT].sum() / 4_000 == pytest.approx(7 * share, abs=0.05)
        assert torch.equal(kept[SUBJECT].sum(1) + kept[OBJECT].sum(1), torch.full((4_000,), 7))
        for column, entities in ((SUBJECT, of_subject), (OBJECT, of_object)):
            chances = plain.corruptions.strategy.distribution(positive, column)
            assert chances is not None
            if not kept[column].any():
                continue
            counts = np.bincount(entities.flatten().numpy(), minlength=40)
            assert not counts[chances[0] == 0].any()
            possible = chances[0] > 0
            assert chisquare(counts[possible], chances[0][possible] * counts.sum()).pvalue > 1e-4


@pytest.mark.parametrize("settings", SETTINGS)
def test_an_epoch_has_each_positive_once_in_chunks_of_one_predicate(settings: str) -> None:
    drawn, plain = drawn_steps(SETTINGS[settings])
    shapes, kinds = drawn.epoch(1)
    assert len(kinds) == len(plain.batches)
    assert np.bincount(kinds).tolist() == [len(steps.rows) for steps in shapes]
    rows = torch.cat([steps.rows[:, : steps.count].flatten() for steps in shapes])
    assert torch.equal(rows.sort().values, torch.arange(len(plain.positives)))
    assert not torch.equal(rows, torch.cat([s.rows[:, : s.count].flatten() for s in drawn.epoch(2)[0]]))
    if plain.corruptions.by_predicate:
        for steps in shapes:
            predicates = torch.from_numpy(plain.positives)[steps.rows, 1].view(-1, steps.chunk)
            assert (predicates == predicates[:, :1]).all()


def batches(drawn: DrawnSteps, epoch: int, length: int) -> list[TrainingBatch]:
    """Return the steps of an epoch as a host draws them."""
    shapes, kinds = drawn.epoch(epoch)
    made = []
    for place, kind in enumerate(kinds):
        steps, shapes[kind] = shapes[kind].cut(1)
        ids, left_out = drawn.draw(steps.rows, steps.chunk, torch.tensor([1 + (epoch - 1) * length + place]))
        rows, chunks = steps.rows.shape[1], steps.rows.shape[1] // steps.chunk
        m, n = drawn.most[SUBJECT], drawn.most[OBJECT]
        s, o, subjects, objects, p = torch.split(ids[0], [rows, rows, chunks * m, chunks * n, rows])
        shared = SharedCorruptions(
            subjects.view(chunks, m).numpy(), objects.view(chunks, n).numpy(), left_out[0].numpy()
        )
        made.append(TrainingBatch(torch.stack([s, p, o], 1).numpy(), steps.count, steps.chunk, shared))
    return made


@pytest.mark.parametrize("settings", SETTINGS)
def test_epochs_train_as_single_steps_with_their_batches_do(settings: str) -> None:
    ours, (drawn, plain) = state(SETTINGS[settings], GpuBackend), drawn_steps(SETTINGS[settings])
    length = len(plain.batches)
    for epoch in (1, 2, 3):
        loss = ours.run_epoch(epoch)
        expected = 0.0
        for place, batch in enumerate(batches(drawn, epoch, length)):
            done = (epoch - 1) * length + place
            expected += float(plain.step.run(batch, 1 + done, 5e-3 * (1 - done / (3 * length))))
        assert loss == pytest.approx(expected / len(plain.positives), rel=1e-5)
    for name, table in plain.tables.by_name().items():
        np.testing.assert_allclose(ours.tables.by_name()[name].table, table.table, atol=2e-5)


def test_a_training_goes_on_from_a_checkpoint_with_the_same_numbers() -> None:
    whole = state(SETTINGS["typed"], GpuBackend)
    losses = [whole.run_epoch(epoch) for epoch in (1, 2, 3)]
    begun, resumed = (state(SETTINGS["typed"], GpuBackend) for _ in range(2))
    begun.run_epoch(1)
    assert resumed.load(begun.save()) == 1
    assert [resumed.run_epoch(epoch) for epoch in (2, 3)] == losses[1:]
