"""Training: the row-wise Adam, learning, determinism, and resuming to the bit."""

import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore.adam import RowAdam
from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.registries import LOSSES, MODELS
from kgcore.registry import build
from kgcore.training import loop
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
    config = TrainConfig(k=4, epochs=2, batch_size=130, chunk_size=chunk, training_eta=eta)
    assert np.isfinite(loop.train(small_graph, config, CPU).losses).all()


def test_the_seed_decides_everything(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128)
    assert same(loop.train(small_graph, config, CPU), loop.train(small_graph, config, CPU))
    other = loop.train(small_graph, TrainConfig(k=8, epochs=3, batch_size=128, seed=1), CPU)
    assert not same(loop.train(small_graph, config, CPU), other)


def test_the_model_is_shown_after_chosen_epochs_and_training_is_no_other_for_it(small_graph: KnowledgeGraph) -> None:
    config, seen = TrainConfig(k=8, epochs=5, batch_size=128, learning_rate_end=1.0), {}

    def see(epoch: int, model: TrainedModel) -> None:
        seen[epoch] = model.fingerprint()

    watched = loop.train(small_graph, config, CPU, on_model=see, model_epochs=(2, 5, 9))
    assert same(watched, loop.train(small_graph, config, CPU))
    at_two = loop.train(small_graph, replace(config, epochs=2), CPU).model  # at a constant step size
    assert seen == {2: at_two.fingerprint(), 5: watched.model.fingerprint()}

    def stop(epoch: int, model: TrainedModel) -> None:
        raise InterruptedTrainingError

    with pytest.raises(InterruptedTrainingError):
        loop.train(small_graph, config, CPU, on_model=stop, model_epochs={4})


class InterruptedTrainingError(Exception):
    pass


@pytest.mark.parametrize(
    ("model", "negatives", "chunk"),
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
def test_an_interrupted_training_ends_with_the_same_bits(small_graph, tmp_path: Path, model, negatives, chunk) -> None:
    config = TrainConfig(
        model=model,
        k=8,
        epochs=7,
        batch_size=128,
        training_eta=3,
        training_strategy=negatives,
        chunk_size=chunk,
        learning_rate=0.02,
        dropout=0.1,
    )
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


def test_a_model_that_encodes_is_trained_through_the_encoding_and_kept_encoded(small_graph: KnowledgeGraph) -> None:
    """One step of one triple, against autograd through the whole tables: Adam's first moment is a tenth of it."""
    config = TrainConfig(model="kbgat", model_options={"filters": 3}, loss="nll", k=4, batch_size=1, training_eta=2)
    model, loss = build(MODELS.get("kbgat"), config.model_options, 4), build(LOSSES.get("nll"), {})
    state = loop._State(small_graph, model, loss, config, CPU, compiled=False)
    leaves = {name: table.table.clone().requires_grad_() for name, table in state._tables().items()}
    shared = {name.removeprefix("shared."): table for name, table in leaves.items() if name.startswith("shared.")}
    whole, facts = model.bound(shared), torch.from_numpy(small_graph.train.triples)
    entities, predicates = whole.encode(leaves["entities"], leaves["predicates"], facts)
    kept = state.embeddings()
    assert torch.equal(kept.entities, entities)
    assert torch.equal(kept.predicates, predicates)
    assert not torch.equal(kept.entities, state.entities.table)

    drawn = np.array([[5]]), np.array([[7]]), np.zeros((1, 2), dtype=bool)
    state.negatives.draw = lambda batch, chunk: drawn
    [s, p, o] = small_graph.train.triples[0]
    assert not {5, 7} & {s, o}
    triples = torch.tensor([[s, p, o], [s, p, 7], [5, p, o]])
    scores = whole.score(entities[triples[:, 0]], predicates[triples[:, 1]], entities[triples[:, 2]])
    value = loss(scores[:1], scores[None, 1:])
    told = state._step(small_graph.train.triples[:1], 1, 1, 0.1)
    assert told.item() == pytest.approx(value.item())
    gradients = torch.autograd.grad(value, list(leaves.values()))
    for table, gradient in zip(state._tables().values(), gradients, strict=True):
        torch.testing.assert_close(table.first, 0.1 * gradient)
    assert (state.entities.first != 0).any(1).sum() > 10  # neighbours of the four, and theirs


def test_compiled_training_is_the_same_up_to_rounding_and_resumes_to_the_bit(small_graph, tmp_path: Path) -> None:
    config = TrainConfig(k=8, epochs=3, batch_size=128, chunk_size=32, training_eta=4)
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
from kgcore.compiling import compile_if_possible
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    double = compile_if_possible(lambda x: (x * 2).sum(), "training")
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


def test_sides_apart_is_one_softmax_a_side(small_graph: KnowledgeGraph) -> None:
    def value(apart: bool) -> float:
        config = TrainConfig(
            model="distmult", loss="multiclass_nll", k=4, training_eta=5, training_sides="object=0.4", sides_apart=apart
        )
        model, loss = build(MODELS.get("distmult"), {}, 4), build(LOSSES.get("multiclass_nll"), {})
        state = loop._State(small_graph, model, loss, config, CPU, compiled=False)
        own = torch.zeros(2, 5, dtype=torch.bool)
        return float(state._dense_loss({}, p, (s, o, in_subject, in_object), torch.cat([s, o]), own, 2, 2)[0])

    s, p, o, in_subject, in_object = (torch.randn(n, 4, dtype=torch.float64) for n in (2, 2, 2, 3, 2))
    true = np.exp((s * p * o).sum(-1).numpy())
    objects, subjects = (np.exp(((a * p) @ b.T).numpy()).sum(1) for a, b in ((s, in_object), (o, in_subject)))
    apart = -np.log(true / (true + objects)) - np.log(true / (true + subjects))
    together = -np.log(true / (true + objects + subjects))
    assert value(apart=True) == pytest.approx(apart.sum(), rel=1e-6)
    assert value(apart=False) == pytest.approx(together.sum(), rel=1e-6)


def test_the_learning_rate_falls_to_what_is_asked(small_graph: KnowledgeGraph, monkeypatch) -> None:
    rates: list[float] = []
    real = loop._State._step

    def noted(self: loop._State, batch: np.ndarray, chunk: int, step: int, rate: float) -> torch.Tensor:
        rates.append(rate)
        return real(self, batch, chunk, step, rate)

    monkeypatch.setattr(loop._State, "_step", noted)
    config = TrainConfig(k=4, epochs=2, batch_size=100, learning_rate=0.1)
    loop.train(small_graph, config, CPU)
    assert rates == pytest.approx([0.1 * (1 - i / 12) for i in range(12)])
    rates.clear()
    loop.train(small_graph, replace(config, learning_rate_end=1.0), CPU)
    assert rates == pytest.approx([0.1] * 12)


def test_every_training_of_a_process_is_compiled(tmp_path: Path) -> None:
    script = """
import torch
from kgcore.compiling import compile_if_possible
graphs = []
def counted(graph, example):
    graphs.append(graph)
    return graph
real = torch.compile
torch.compile = lambda function, **options: real(function, backend=counted, **options)
class Training:
    def __init__(self, factor): self.factor = factor
    def loss(self, x): return (x * self.factor).sum()
for number in range(12):
    compile_if_possible(Training(number + 2.5).loss, "training")(torch.ones(3 + number))
print(len(graphs))
"""
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert made.stdout.split()[-1] == "12"
