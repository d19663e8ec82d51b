"""Checkpoints: an interrupted and resumed training ends with the same bits as an uninterrupted one."""

from pathlib import Path

import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.training import loop
from kgcore.embed.training.loop import Checkpoint, read_checkpoint, write_checkpoint
from kgcore.registries import OPTIMISERS
from tests.core.trainings import CPU, StoppedError, same, stop_at


@pytest.mark.parametrize(
    ("model", "strategy", "chunk"),
    [
        ("transe", {"uniform": 1}, 64),
        ("complex", {"uniform": 1}, 64),
        ("tucker", {"typed": 1}, 64),
        ("transe", {"kbgan": 1}, 1),
        ("distmult", {"uniform": 1, "kbgan": 2}, 64),
        ("kbgat", {"uniform": 1}, 64),
        ("transe", {"near_miss": 1, "nearest": 1}, 8),
    ],
)
def test_an_interrupted_training_ends_with_the_same_bits(
    small_graph: KnowledgeGraph, tmp_path: Path, model: str, strategy: dict[str, float], chunk: int
) -> None:
    config = TrainConfig(
        model=model,
        k=8,
        epochs=4,
        batch_size=128,
        training_eta=3,
        training_strategy=strategy,
        chunk_size=chunk,
        learning_rate=0.02,
        dropout=0.1,
    )
    undisturbed = loop.train(small_graph, config, CPU)

    path = tmp_path / "deep" / "train.safetensors"
    with pytest.raises(StoppedError):
        loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop_at(3))
    resumed = loop.train(small_graph, config, CPU, path, checkpoint_seconds=0)
    assert resumed.resumed_at == 2
    assert same(resumed, undisturbed)


def test_a_checkpoint_has_the_state_of_every_optimiser(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    for name in OPTIMISERS.names():
        config = TrainConfig(k=8, epochs=5, batch_size=128, optimiser=name, learning_rate=0.05)
        undisturbed = loop.train(small_graph, config, CPU)
        path = tmp_path / f"{name}.safetensors"
        with pytest.raises(StoppedError):
            loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop_at(3))
        assert same(loop.train(small_graph, config, CPU, path), undisturbed)
        assert undisturbed.losses[-1] < undisturbed.losses[0]


def test_a_damaged_checkpoint_is_ignored(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "train.safetensors"
    write_checkpoint(path, Checkpoint({"a": torch.ones(3)}, {"epoch": 1}))
    assert read_checkpoint(path).state == {"epoch": 1}
    path.write_bytes(path.read_bytes()[:-5])
    assert read_checkpoint(path) is None
    path.write_bytes(b"")
    assert read_checkpoint(path) is None
    assert loop.train(small_graph, TrainConfig(k=4, epochs=1), CPU, path).resumed_at == 0
