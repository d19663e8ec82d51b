"""Training: the row-wise Adam, learning, determinism, and resuming to the bit."""

import subprocess
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.corruptions import STRATEGIES
from kgcore.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.corruptions.sides import subject_shares
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.losses import LOSSES
from kgcore.models import MODELS
from kgcore.models.base import TrainedModel
from kgcore.registry import build
from kgcore.training import loop
from kgcore.training.adam import RowAdam
from kgcore.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from kgcore.training.negatives import Negatives
from kgcore.training.regulariser import lp

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
        model=model, k=8, epochs=7, batch_size=128, eta=3, negatives=negatives, chunk_size=chunk, learning_rate=0.02
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
    config = TrainConfig(model="kbgat", model_options={"filters": 3}, loss="nll", k=4, batch_size=1, eta=2)
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
    told = state._step(small_graph.train.triples[:1], 1, 0.1)
    assert told.item() == pytest.approx(value.item())
    gradients = torch.autograd.grad(value, list(leaves.values()))
    for table, gradient in zip(state._tables().values(), gradients, strict=True):
        torch.testing.assert_close(table.first, 0.1 * gradient)
    assert (state.entities.first != 0).any(1).sum() > 10  # neighbours of the four, and theirs


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


def test_a_generator_learns_to_pick_what_the_model_scores_high(small_graph: KnowledgeGraph) -> None:
    def mean_reward(kbgan: Strategy) -> float:
        drawn = kbgan.draw(small_graph.train.triples, OBJECT, 20, np.random.default_rng(1))
        return float(wanted[drawn].mean())

    rng = np.random.default_rng(0)
    wanted = rng.normal(size=40)  # a model that takes some objects for true, whatever the triple
    kbgan = STRATEGIES.get("kbgan")(small_graph)
    untrained = mean_reward(kbgan)
    kbgan.start(rng)
    assert mean_reward(kbgan) == untrained  # uniform, whatever it starts from
    for step in range(1, 800):
        triples = small_graph.train.triples[rng.integers(600, size=64)]
        drawn = kbgan.draw(triples, OBJECT, 4, rng)
        kbgan.learn(OBJECT, wanted[drawn], step)
    assert abs(untrained) < 0.3
    assert mean_reward(kbgan) > untrained + 0.5


@pytest.mark.parametrize("column", [SUBJECT, OBJECT])
def test_a_generator_climbs_the_expected_reward(small_graph: KnowledgeGraph, column: int) -> None:
    """The step's gradient against (reward - baseline) d log softmax, written out for a DistMult."""
    rng = np.random.default_rng(0)
    kbgan = STRATEGIES.get("kbgan")(small_graph, candidates=4, k=3)
    kbgan.start(rng)
    kbgan.tables["predicates"].table.copy_(torch.from_numpy(rng.normal(size=(3, 3))))
    e, r = (kbgan.tables[name].table.double().numpy() for name in ("entities", "predicates"))
    triples = small_graph.train.triples[:10]
    kbgan.draw(triples, column, 2, rng)
    _, offered, picks = kbgan._drawn[column]
    rewards = rng.normal(size=(10, 2))
    d_e, d_r = np.zeros_like(e), np.zeros_like(r)
    for i in range(10):
        kept, p = triples[i, OBJECT - column], triples[i, 1]
        for j in range(2):
            scores = np.array([(e[kept] * r[p] * e[c]).sum() for c in offered[i, j]])
            chances = np.exp(scores) / np.exp(scores).sum()
            for c, entity in enumerate(offered[i, j]):
                slope = (rewards[i, j] - rewards.mean()) * ((c == picks[i, j]) - chances[c])
                d_e[entity] += slope * e[kept] * r[p]
                d_e[kept] += slope * r[p] * e[entity]
                d_r[p] += slope * e[kept] * e[entity]
    kbgan.learn(column, rewards, 1)
    for name, expected in (("entities", d_e), ("predicates", d_r)):  # Adam descends, and holds a tenth of the gradient
        np.testing.assert_allclose(kbgan.tables[name].first, -0.1 * expected, atol=1e-6)


def test_a_generator_is_told_the_mean_score_of_each_stand_in(small_graph: KnowledgeGraph) -> None:
    corrupted, own = torch.arange(12.0).reshape(6, 2), torch.zeros(6, 2, dtype=torch.bool)
    own[2, 1] = True  # 5 does not count
    np.testing.assert_allclose(loop._mean_scores(corrupted, own, 3), [[2, 2], [8, 9]])


class Told(Strategy):
    """Draws one entity for all triples of a side, another for those that have it, and keeps what it is told."""

    tables: ClassVar = {"nothing": RowAdam(torch.zeros(1, 1))}
    told: ClassVar[dict[int, list[np.ndarray]]] = {SUBJECT: [], OBJECT: []}

    def draw(self, triples: np.ndarray, column: int, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.tile(self.stand_ins(triples, column)[:, None], count)

    @staticmethod
    def stand_ins(triples: np.ndarray, column: int) -> np.ndarray:
        return np.where(triples[:, column] == 37 + column, 0, 37 + column)

    def learn(self, column: int, rewards: np.ndarray, step: int) -> None:
        self.told[column].append(rewards)


@pytest.mark.parametrize("chunk", [1, 7])
def test_what_a_strategy_is_told_are_the_scores_of_its_own_column(small_graph: KnowledgeGraph, chunk: int) -> None:
    STRATEGIES.add("told", Told)
    try:
        config = TrainConfig(
            k=4, epochs=1, batch_size=600, chunk_size=chunk, eta=5, learning_rate=1e-9, negatives={"told": 1}
        )
        trained = loop.train(small_graph, config, CPU).model
    finally:
        STRATEGIES.remove("told")
    triples = small_graph.train.triples
    for column in (SUBJECT, OBJECT):
        [rewards] = Told.told[column]
        Told.told[column].clear()
        other = triples.copy()
        other[:, column] = Told.stand_ins(triples, column)
        np.testing.assert_allclose(rewards.mean(), trained.score(other).mean(), rtol=1e-5 if chunk == 1 else 0.03)


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


def test_chunks_that_share_typed_corruptions_are_of_one_predicate(small_graph: KnowledgeGraph) -> None:
    config = TrainConfig(k=4, chunk_size=16, batch_size=64, negatives={"typed": 1.0})
    model, loss = build(MODELS.get("transe"), {}, 4), build(LOSSES.get("nll"), {})
    state = loop._State(small_graph, model, loss, config, CPU, compiled=False)
    predicates = small_graph.train.triples[:, 1]
    orders = [state._order(), state._order()]
    for order in orders:
        assert sorted(order) == list(range(len(predicates)))  # each positive once
        chunks = [predicates[order[start : start + 16]] for start in range(0, len(order), 16)]
        mixed = sum(len(np.unique(chunk)) > 1 for chunk in chunks)
        assert mixed <= len(np.unique(predicates))  # what is left over of the predicates
    assert (orders[0] != orders[1]).any()


def test_a_shared_stand_in_that_is_the_positives_own_entity_counts_for_nothing(small_graph: KnowledgeGraph) -> None:
    batch = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 1], [5, 0, 6]])
    stand_ins = {SUBJECT: np.array([[2], [9]]), OBJECT: np.array([[1, 3], [6, 7]])}
    negatives = Negatives(small_graph, TrainConfig(eta=3, object_share=2 / 3), np.random.default_rng(0))
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
    config = TrainConfig(eta=7, bernoulli=True, chunk_size=4)
    negatives = Negatives(small_graph, config, np.random.default_rng(0))
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
    trained = loop.train(small_graph, TrainConfig(k=4, eta=7, epochs=4, bernoulli=True, chunk_size=4), CPU)
    assert trained.losses[-1] < trained.losses[0]


def test_training_facts_are_left_out_where_that_is_asked_for(small_graph: KnowledgeGraph) -> None:
    batch, known = small_graph.train.triples[:64], small_graph.index(small_graph.train.positives)
    for filtered in (False, True):
        config = TrainConfig(eta=40, filter_training=filtered)
        in_subject, in_object, left_out = Negatives(small_graph, config, np.random.default_rng(0)).draw(batch, 8)
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


def test_sides_apart_is_one_softmax_a_side(small_graph: KnowledgeGraph) -> None:
    def value(apart: bool) -> float:
        config = TrainConfig(model="distmult", loss="multiclass_nll", k=4, eta=5, object_share=0.4, sides_apart=apart)
        model, loss = build(MODELS.get("distmult"), {}, 4), build(LOSSES.get("multiclass_nll"), {})
        state = loop._State(small_graph, model, loss, config, CPU, compiled=False)
        own = torch.zeros(2, 5, dtype=torch.bool)
        return float(state._dense_loss({}, s, p, o, in_subject, in_object, own, 2, 2)[0])

    s, p, o, in_subject, in_object = (torch.randn(n, 4, dtype=torch.float64) for n in (2, 2, 2, 3, 2))
    true = np.exp((s * p * o).sum(-1).numpy())
    objects, subjects = (np.exp(((a * p) @ b.T).numpy()).sum(1) for a, b in ((s, in_object), (o, in_subject)))
    apart = -np.log(true / (true + objects)) - np.log(true / (true + subjects))
    together = -np.log(true / (true + objects + subjects))
    assert value(apart=True) == pytest.approx(apart.sum(), rel=1e-6)
    assert value(apart=False) == pytest.approx(together.sum(), rel=1e-6)


@pytest.mark.parametrize("power", [2.0, 3.0])
def test_the_regulariser_is_the_sum_of_powers_and_shrinks_embeddings(small_graph: KnowledgeGraph, power: float) -> None:
    rows = torch.randn(5, 3, dtype=torch.float64)
    assert lp(rows, power).item() == pytest.approx(sum(abs(x) ** power for x in rows.ravel().tolist()))
    config = TrainConfig(model="distmult", k=8, epochs=5, batch_size=128)
    sizes = [
        loop.train(small_graph, replace(config, lp_weight=weight, lp_power=power), CPU).model.embeddings.entities.norm()
        for weight in (0.0, 0.1)
    ]
    assert sizes[1] < 0.9 * sizes[0]


def test_the_learning_rate_falls_to_what_is_asked(small_graph: KnowledgeGraph, monkeypatch) -> None:
    rates: list[float] = []
    real = loop._State._step

    def noted(self: loop._State, batch: np.ndarray, step: int, rate: float) -> torch.Tensor:
        rates.append(rate)
        return real(self, batch, step, rate)

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
