"""Inverse predicates: the training triples, the corruptions, and a single score for each triple."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import subject_shares
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import BothWays, TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.embed.training import loop
from kgcore.embed.training.batches import StepCorruptions
from kgcore.embed.training.loop import TrainingState, built, with_inverses
from kgcore.measure.metrics.classification import rank_metrics
from kgcore.registries import MODELS
from kgcore.registry import build
from kgcore.storage.folders import read_model, write_model
from tests.core.trainings import CPU, StoppedError, stop_at

CONFIG = TrainConfig(
    model="complex",
    loss="multiclass_nll",
    k=8,
    training_eta=6,
    epochs=20,
    batch_size=300,
    chunk_size=16,
    learning_rate=0.05,
    inverse_relations=True,
)


def test_every_triple_occurs_in_both_directions(small_graph: KnowledgeGraph) -> None:
    both, count = with_inverses(small_graph), len(small_graph.predicates)
    assert len(both.predicates) == len(set(both.predicates)) == 2 * count
    assert (len(both.train), len(both.valid), len(both.test)) == (
        2 * len(small_graph.train),
        2 * len(small_graph.valid),
        0,
    )
    for split in ("train", "valid"):
        given = getattr(small_graph, split)
        turned = given.triples[:, [2, 1, 0]] + [0, count, 0]
        np.testing.assert_array_equal(getattr(both, split).triples, np.r_[given.triples, turned])
        np.testing.assert_array_equal(getattr(both, split).labels, np.r_[given.labels, given.labels])
    shares = subject_shares(both, "bernoulli")
    np.testing.assert_allclose(shares[count:], 1 - shares[:count])


@pytest.mark.parametrize(("sides", "by_predicate"), [("both", False), ("object=0.75", True), ("bernoulli", True)])
def test_only_objects_are_replaced_as_often_as_their_side_would_be(
    small_graph: KnowledgeGraph, sides: str, by_predicate: bool
) -> None:
    both = with_inverses(small_graph)
    config = CONFIG.replace(training_eta=7, chunk_size=1, training_sides=sides)
    corruptions = StepCorruptions(both, config, np.random.default_rng(0))
    assert corruptions.by_predicate is by_predicate
    object_shares = 1 - subject_shares(small_graph, sides)
    for predicate, expected in enumerate(7 * np.r_[object_shares, 1 - object_shares]):
        batch = np.tile([[0, predicate, 1]], (500, 1))
        drawn = corruptions.draw(batch, 1)
        assert drawn.subjects.shape == (500, 0)
        used = (~drawn.left_out).sum(1)
        assert used.min() >= 1
        assert set(used) <= {max(1, int(np.floor(expected))), max(1, int(np.ceil(expected)))}
        assert used.mean() == pytest.approx(max(expected, 1), abs=0.15)
        assert (drawn.objects != 1).all()


def test_complex_in_both_directions_is_one_complex(rng: np.random.Generator) -> None:
    """Re <o, p', conj s> = Re <s, conj p', conj o>: the mean of both directions is ComplEx with (p + conj p') / 2."""
    model = build(MODELS.get("complex"), {}, 5)
    s, p, o, inverse = (torch.from_numpy(rng.normal(size=(7, 10))) for _ in range(4))
    conjugate = inverse * torch.tensor([1.0] * 5 + [-1.0] * 5)
    together = BothWays(model).score(s, torch.cat([p, inverse], -1), o)
    np.testing.assert_allclose(together, model.score(s, (p + conjugate) / 2, o))


def test_the_trained_model_scores_the_mean_of_both_directions(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    state = TrainingState(with_inverses(small_graph), *built(CONFIG), CONFIG, CPU, compiled=False)
    for epoch in range(1, CONFIG.epochs + 1):
        state.run_epoch(epoch)
    kept, apart, triples = state.trained(), state.trained(folds=False), small_graph.test.triples
    turned = triples[:, ::-1] + [0, len(small_graph.predicates), 0]
    np.testing.assert_allclose(kept.score(triples), (apart.score(triples) + apart.score(turned)) / 2, atol=1e-5)
    write_model(tmp_path, kept)
    read = read_model(tmp_path)
    assert (read.inverse, read.fingerprint()) == (True, kept.fingerprint())
    np.testing.assert_array_equal(read.score(triples), kept.score(triples))
    tables = Embeddings(kept.embeddings.entities, kept.embeddings.predicates)
    assert TrainedModel(kept.name, kept.k, tables).fingerprint() != kept.fingerprint()


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("complex", {}),
        ("transe", {"loss": "self_adversarial", "training_strategy": {"typed": 0.5, "near_miss": 0.5}}),
        ("kbgat", {"loss": "nll", "model_options": {"filters": 8}}),
        (
            "conve",
            {
                "k": 16,
                "model_options": {"filters": 8},
                "learning_rate": 0.01,
                "training_strategy": {"kbgan": 1.0},
                "training_filtered": True,
            },
        ),
    ],
)
def test_models_with_inverses_learn_and_resume_to_the_bit(
    small_graph: KnowledgeGraph, tmp_path: Path, model: str, settings: dict[str, object]
) -> None:
    config = CONFIG.replace(model=model, **settings)
    trained = loop.train(small_graph, config, CPU)
    assert trained.losses[-1] < trained.losses[0]
    positives = small_graph.train.positives
    start = loop.train(small_graph, config.replace(epochs=1, learning_rate=1e-30), CPU).model
    mrr = [rank_metrics(filtered_ranks(m, positives, small_graph.known))["mrr"] for m in (start, trained.model)]
    assert mrr[1] > 1.2 * mrr[0]

    path = tmp_path / "train.safetensors"
    with pytest.raises(StoppedError):
        loop.train(small_graph, config, CPU, path, checkpoint_seconds=0, on_epoch=stop_at(9))
    resumed = loop.train(small_graph, config, CPU, path, checkpoint_seconds=0)
    assert resumed.resumed_at == 8
    assert resumed.model.fingerprint() == trained.model.fingerprint()
