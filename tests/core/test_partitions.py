"""Training in partitions: the rounds, the merge of predicates, and the same bits on any workers, interrupted or not."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training.loop import train
from kgcore.embed.training.step import initial_rows
from kgcore.errors import InputError
from kgcore.wings.partitions import Bucket, Change, Partitions, check_settings, merged, rounds, train_in_partitions

CPU = torch.device("cpu")
CONFIG = TrainConfig(
    model="distmult", k=4, epochs=3, batch_size=16, chunk_size=4, optimiser="adagrad", learning_rate=0.1, partitions=3
)


class StoppedError(Exception):
    """What ends a training at some moment."""


def trained(graph: KnowledgeGraph, folder: Path, config: TrainConfig = CONFIG, **options: object) -> str:
    return train_in_partitions(graph, config, CPU, folder, **options).model.fingerprint()  # type: ignore[arg-type]


@pytest.mark.parametrize("count", range(1, 9))
def test_each_pair_of_partitions_is_in_one_round(count: int) -> None:
    made = rounds(count)
    for pairs in made:
        assert sorted({number for pair in pairs for number in pair}) == list(range(count))
        assert sum(len({*pair}) for pair in pairs) == count
    pairs = [pair for one in made for pair in one if pair[0] != pair[1]]
    assert sorted(pairs) == list(combinations(range(count), 2))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_buckets_of_an_epoch_have_each_triple_once(count: int, small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    partitions, members = Partitions.of(small_graph, count, tmp_path, np.random.default_rng(0))
    assert sorted(np.concatenate(members).tolist()) == list(range(len(small_graph.entities)))
    assert max(map(len, members)) - min(map(len, members)) <= 1
    found = []
    for pair in combinations(range(count), 2):
        bucket = Bucket(*pair, whole=(pair if pair == (0, 1) else (pair[1],)) if pair[0] == 0 else (), seed=0, files={})
        triples = partitions.split(bucket).triples
        names = np.concatenate([members[number] for number in pair])
        found.append(np.stack([names[triples[:, 0]], triples[:, 1], names[triples[:, 2]]], 1))
    assert sorted(map(tuple, np.concatenate(found))) == sorted(map(tuple, small_graph.train.triples))


def test_predicates_take_the_mean_of_their_changes_by_their_uses() -> None:
    table, sums = np.array([[1.0], [2.0], [3.0]], np.float32), np.array([1.0, 1.0, 1.0], np.float32)
    first = Change(
        np.array([[2.0], [2.0], [3.0]], np.float32), np.array([4.0, 1.0, 1.0], np.float32), np.array([3, 0, 0]), 0
    )
    second = Change(
        np.array([[5.0], [4.0], [3.0]], np.float32), np.array([2.0, 3.0, 1.0], np.float32), np.array([1, 2, 0]), 0
    )
    new_table, new_sums = merged(table, sums, [first, second])
    np.testing.assert_array_equal(new_table, [[1 + 0.75 * 1 + 0.25 * 4], [4], [3]])
    np.testing.assert_array_equal(new_sums, [1 + 3 + 1, 3, 1])


def test_two_partitions_learn_as_one_memory_does(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    made = train_in_partitions(small_graph, CONFIG.replace(partitions=2, epochs=30), CPU, tmp_path)
    alone = train(small_graph, CONFIG.replace(partitions=1, epochs=30), CPU)
    assert made.losses[0] == pytest.approx(alone.losses[0], rel=0.1)
    assert made.losses[-1] < 0.8 * made.losses[0]
    assert made.losses[-1] == pytest.approx(alone.losses[-1], rel=0.1)


@pytest.mark.parametrize("settings", [{}, {"inverse_relations": True}, {"model": "transe", "partitions": 4}])
def test_an_interrupted_training_ends_with_the_same_bits(
    settings: dict[str, object], small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config, done = CONFIG.replace(**settings), 0
    whole = trained(small_graph, tmp_path / "whole", config)

    def each(
        stop: int, function: Callable[[Bucket], Change], shared: Sequence[object], parts: Sequence[Bucket]
    ) -> Iterator[tuple[int, Change]]:
        nonlocal done
        for number, part in reversed([*enumerate(parts)]):
            if done == stop:
                raise StoppedError
            done += 1
            yield number, function(part)

    for stop in (1, 4, 5, 7):
        with pytest.raises(StoppedError):
            trained(small_graph, tmp_path / "parts", config, each_part=partial(each, stop))
    files = {path.name for path in (tmp_path / "parts").glob("*.table.npy")}
    assert trained(small_graph, tmp_path / "parts", config) == whole
    assert len(files) <= 2 * (config.partitions + 1)  # the tables of finished rounds are deleted


def test_a_part_of_a_table_starts_as_wide_as_the_whole() -> None:
    config = CONFIG.replace(initialiser="glorot")
    part = initial_rows(config, 20_000, 4, 1.0, np.random.default_rng(0), of=80_000)
    assert part.std() == pytest.approx((2 / 80_004) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"optimiser": "adam"}, "optimiser is adam"),
        ({"model": "conve"}, "model is conve"),
        ({"training_strategy": {"kbgan": 1.0}}, "strategy kbgan"),
        ({"partitions": 1000}, "at most"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    settings: dict[str, object], reason: str, small_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = CONFIG.replace(**settings)
    with pytest.raises(InputError, match=reason):
        train_in_partitions(small_graph, config, CPU, tmp_path)
    if config.partitions == CONFIG.partitions:
        with pytest.raises(InputError, match=reason):
            check_settings(config)
