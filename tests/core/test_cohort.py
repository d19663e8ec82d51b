"""Cohort-normalised scores: scores by hand, the members of a cohort, and what a cohort does not change."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from kgcore.config import ClassifyConfig, TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.cohort import Cohort, draw_cohort
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.embed.training.loop import train
from kgcore.measure.evaluation.predictions import UNCALIBRATED_RAW, classify
from kgcore.scores.table import score_table
from kgcore.storage.folders import read_model, write_model
from kgcore.storage.tables import read_scores, write_scores

CPU = torch.device("cpu")
CONFIG = TrainConfig(k=6, epochs=3, batch_size=128, cohort_weight=0.5, cohort_size=9)


def test_cohort_scores_by_hand() -> None:
    """TransE on a line with r = 1 and the cohort at 0, 2 and 4: for (0, r, 2) the distances are 1, 1 and 3."""
    entities = torch.tensor([[0.0], [2.0], [4.0], [7.0]])
    plain = TrainedModel("transe", 1, Embeddings(entities, torch.tensor([[1.0], [5.0]])))
    cohort = Cohort(0.25, 0.5, np.array([0, 1, 2, 3]), np.array([0, 3, 4]))
    triples = np.array([[0, 0, 1], [0, 0, 3], [1, 1, 3]])
    level = np.log((np.exp(-2) + np.exp(-2) + np.exp(-6)) / 3) / 2
    expected = [-1 - 0.25 * level, -6 - 0.25 * level, 0]  # the last cohort has one member, the object itself
    np.testing.assert_allclose(replace(plain, cohort=cohort).score(triples), expected, rtol=1e-6)


@given(st.floats(0.05, 10), st.integers(0, 1000))
def test_the_level_is_between_the_mean_and_the_maximum(temperature: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = Embeddings(*(torch.from_numpy(rng.normal(size=(rows, 4)).astype(np.float32)) for rows in (9, 2)))
    plain = TrainedModel("distmult", 4, tables)
    cohort = Cohort(1.0, temperature, np.array([1, 3, 5, 2]), np.array([0, 3, 4]))
    triples = rng.integers((9, 2, 9), size=(20, 3))
    levels = cohort.levels(plain.model, tables, triples)
    for (s, p, _), level in zip(triples, levels, strict=True):
        members = cohort.members[cohort.starts[p] : cohort.starts[p + 1]]
        scores = plain.score(np.array([[s, p, c] for c in members]))
        assert scores.mean() - 1e-5 <= level <= scores.max() + 1e-5
    np.testing.assert_allclose(replace(plain, cohort=cohort).score(triples), plain.score(triples) - levels)


def test_a_cohort_holds_objects_of_the_predicate_in_training(small_graph: KnowledgeGraph) -> None:
    train_ = small_graph.train
    kept = train_.triples[:, 1] != 2
    graph = replace(small_graph, train=Split(train_.triples[kept], train_.labels[kept]))
    for size in (5, 1000):
        cohort = draw_cohort(graph, size, 0.5, 0.5, np.random.default_rng(0))
        for predicate in range(3):
            members = cohort.members[cohort.starts[predicate] : cohort.starts[predicate + 1]]
            own = np.unique(train_.triples[train_.triples[:, 1] == predicate, 2]) if predicate < 2 else np.arange(40)
            assert len(members) == len(np.unique(members)) == min(size, len(own))
            assert set(members) <= set(own)
    again = draw_cohort(graph, 5, 0.5, 0.5, np.random.default_rng(0))
    np.testing.assert_array_equal(again.members, draw_cohort(graph, 5, 0.5, 0.5, np.random.default_rng(0)).members)


@pytest.mark.parametrize("inverse", [False, True])
def test_a_cohort_changes_neither_training_nor_ranks(
    small_graph: KnowledgeGraph, tmp_path: Path, inverse: bool
) -> None:
    config = CONFIG.replace(inverse_relations=inverse)
    normalised, plain = (train(small_graph, config.replace(cohort_weight=weight), CPU).model for weight in (0.5, 0.0))
    assert torch.equal(normalised.embeddings.entities, plain.embeddings.entities)
    triples = small_graph.test.triples
    ranks = [filtered_ranks(model, triples, small_graph.known) for model in (normalised, plain)]
    np.testing.assert_array_equal(*ranks)
    # the cohort shifts the scores by one number per subject and predicate
    difference = plain.score(triples) - normalised.score(triples)
    assert len(np.unique(difference.round(5))) == len(np.unique(triples[:, :2], axis=0))
    assert normalised.fingerprint() != plain.fingerprint()
    write_model(tmp_path, normalised)
    read = read_model(tmp_path)
    assert read.fingerprint() == normalised.fingerprint()
    np.testing.assert_array_equal(read.score(triples), normalised.score(triples))


def test_blocks_do_not_change_scores(small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    model, triples = train(small_graph, CONFIG, CPU).model, small_graph.test.triples
    whole = model.score(triples)
    monkeypatch.setattr("kgcore.embed.models.cohort.LARGEST_BLOCK", 10)
    np.testing.assert_allclose(model.score(triples), whole, rtol=1e-6)
    np.testing.assert_allclose([model.score(triples[i : i + 1])[0] for i in range(9)], whole[:9], rtol=1e-6)
    assert model.score(triples[:0]).shape == (0,)


def test_a_score_table_keeps_the_raw_scores(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    trained = train(small_graph, CONFIG, CPU).model
    plain = replace(trained, cohort=None)
    write_scores(tmp_path / "scores.parquet", score_table(small_graph, {}, trained))
    table = read_scores(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(table.raw, plain.score(table.triples))
    np.testing.assert_array_equal(table.scores, trained.score(table.triples))
    assert score_table(small_graph, {}, plain).raw is None
    q = classify(table, [], 3, 0.5, ClassifyConfig()).probabilities
    np.testing.assert_allclose(q[UNCALIBRATED_RAW], expit(plain.score(small_graph.test.triples)))
    assert (
        UNCALIBRATED_RAW
        not in classify(score_table(small_graph, {}, plain), [], 3, 0.5, ClassifyConfig()).probabilities
    )
