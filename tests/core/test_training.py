"""Training: the row-wise Adam, learning, determinism, and resuming to the bit."""

import subprocess
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.training import loop
from kgcore.training.adam import RowAdam
from kgcore.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

CPU = torch.device("cpu")


def same(a: loop.Training, b: loop.Training) -> bool:
    return a.losses == b.losses and all(
        torch.equal(getattr(a.model.embeddings, t), getattr(b.model.embeddings, t)) for t in ("entities", "predicates")
    )


def test_row_adam_is_adam_when_every_row_is_touched() -> None:
    torch.manual_seed(0)
    start, target = torch.randn(6, 4), torch.randn(6, 4)
    reference = start.clone().requires_grad_()
    adam = torch.optim.Adam([reference], lr=0.01)
    ours = RowAdam(start.clone())
    for step in range(1, 30):
        adam.zero_grad()
        ((reference - target) ** 2).sum().backward()
        adam.step()
        order = torch.randperm(6)
        ours.step(order, 2 * (ours.table - target)[order], step, 0.01)
    np.testing.assert_allclose(ours.table, reference.detach(), atol=1e-6)


def test_untouched_rows_stand_still() -> None:
    adam = RowAdam(torch.ones(5, 2))
    adam.step(torch.tensor([1, 3]), torch.ones(2, 2), 1, 0.1)
    assert adam.table[[0, 2, 4]].eq(1).all()
    assert adam.table[[1, 3]].lt(1).all()


@pytest.mark.parametrize("model", MODELS.names())
@pytest.mark.parametrize("loss", LOSSES.names())
def test_every_model_learns_with_every_loss(small_graph: KnowledgeGraph, model: str, loss: str) -> None:
    options = {"filters": 4} if "filters" in signature(MODELS.get(model)).parameters else {}
    config = TrainConfig(
        model=model,
        model_options=options,
        loss=loss,
        k=16,
        epochs=40,
        batch_size=100,
        chunk_size=20,
        learning_rate=0.02,
    )
    training = loop.train(small_graph, config, CPU)
    assert len(training.losses) == 40
    assert training.losses[-1] < training.losses[0]
    trained = training.model
    rng = np.random.default_rng(0)
    others = np.c_[rng.integers(40, size=500), rng.integers(3, size=500), rng.integers(40, size=500)]
    assert trained.score(small_graph.train.triples).mean() > trained.score(others).mean()


@pytest.mark.parametrize(("chunk", "eta"), [(1, 3), (7, 1), (64, 20), (1000, 5)])
def test_chunks_and_etas_of_every_size_train(small_graph: KnowledgeGraph, chunk: int, eta: int) -> None:
    config = TrainConfig(k=4, epochs=2, batch_size=130, chunk_size=chunk, eta=eta)
    assert np.isfinite(loop.train(small_graph, config, CPU).losses).all()


def test_the_seed_decides_everything(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128)
    assert same(loop.train(small_graph, config, CPU), loop.train(small_graph, config, CPU))
    other = loop.train(small_graph, TrainConfig(k=8, epochs=3, batch_size=128, seed=1), CPU)
    assert not same(loop.train(small_graph, config, CPU), other)


class InterruptedTrainingError(Exception):
    pass


@pytest.mark.parametrize("model", ["transe", "complex"])
def test_an_interrupted_training_ends_with_the_same_bits(small_graph, tmp_path: Path, model: str) -> None:
    config = TrainConfig(model=model, k=8, epochs=7, batch_size=128, eta=3)
    undisturbed = loop.train(small_graph, config, CPU)

    def stop(epoch: int, loss: float) -> None:
        if epoch == 5:
            raise InterruptedTrainingError

    path = tmp_path / "deep" / "train.safetensors"
    with pytest.raises(InterruptedTrainingError):
        loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop)
    resumed = loop.train(small_graph, config, CPU, path, checkpoint_seconds=0)
    assert resumed.resumed_at == 4
    assert same(resumed, undisturbed)


def test_compiled_training_is_the_same_up_to_rounding_and_resumes_to_the_bit(small_graph, tmp_path: Path) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128, chunk_size=32, eta=4)
    plain = loop.train(small_graph, config, CPU, compiled=False)
    compiled = loop.train(small_graph, config, CPU, compiled=True)
    np.testing.assert_allclose(compiled.losses, plain.losses, rtol=1e-4)

    def stop(epoch: int, loss: float) -> None:
        if epoch == 2:
            raise InterruptedTrainingError

    path = tmp_path / "train.safetensors"
    with pytest.raises(InterruptedTrainingError):
        loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop, compiled=True)
    assert same(loop.train(small_graph, config, CPU, path, compiled=True), compiled)


def test_without_a_compiler_training_goes_on_with_one_warning(tmp_path: Path) -> None:
    script = """
import torch, warnings
from kgcore.training.loop import _compiled
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    double = _compiled(lambda x: (x * 2).sum())
    print([double(torch.ones(300)).item() for _ in range(3)])
    print([str(w.message) for w in caught if w.category.__name__ == "KgcalWarning"])
"""
    environment = {"PATH": str(tmp_path), "CXX": "no-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    values, said = done.stdout.splitlines()
    assert values == "[600.0, 600.0, 600.0]"
    assert said.count("training goes on without torch.compile") == 1


def test_the_mean_loss_takes_every_positive_once(small_graph: KnowledgeGraph) -> None:
    losses = []
    for chunk in (1, 7, 64, 600):  # 600 positives in batches of 128: chunks that fit and chunks that do not
        config = TrainConfig(k=8, epochs=1, batch_size=128, chunk_size=chunk, learning_rate=1e-9)
        losses += loop.train(small_graph, config, CPU).losses
    np.testing.assert_allclose(losses, losses[0], rtol=0.02)


def test_a_damaged_checkpoint_is_no_checkpoint(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "train.safetensors"
    write_checkpoint(path, Checkpoint({"a": torch.ones(3)}, {"epoch": 1}))
    assert read_checkpoint(path).state == {"epoch": 1}
    path.write_bytes(path.read_bytes()[:-5])
    assert read_checkpoint(path) is None
    path.write_bytes(b"")
    assert read_checkpoint(path) is None
    assert loop.train(small_graph, TrainConfig(k=4, epochs=1), CPU, path).resumed_at == 0


def test_a_loss_that_explodes_is_told(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(model="distmult", loss="multiclass_nll", k=4, epochs=50, learning_rate=1e30)
    with pytest.raises(FitError, match="lower the learning rate"):
        loop.train(small_graph, config, CPU)
