"""The selection of candidates with few false ones: p-values by predicate, and the share of false ones."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.answer.answers import FEWEST_NEGATIVES, Answers, Negatives, Selection, mark, table_of
from kgcore.answer.conformal import benjamini_hochberg
from kgcore.calibrate.sample import CalibrationSample
from kgcore.data.graph import KnowledgeGraph, Split
from tests.core.calibrated_models import calibrated


def sample_of(negatives: np.ndarray, predicates: np.ndarray) -> CalibrationSample:
    """Return a sample with these negatives, and one positive of each predicate."""
    own = np.unique(predicates)
    labels = np.r_[np.ones(len(own)), np.zeros(len(negatives))]
    return CalibrationSample(
        np.r_[np.full(len(own), 9.0), negatives], labels, np.ones(len(labels)), np.r_[own, predicates]
    )


@pytest.fixture
def answers(small_graph: KnowledgeGraph) -> Answers:
    return Answers(calibrated(small_graph, "platt"), 0.5, 0)


def scored(answers: Answers, triples: np.ndarray, scores: np.ndarray) -> pa.Table:
    return answers.named(triples).append_column("score", pa.array(scores))


def unknown_triples(graph: KnowledgeGraph, predicate: int, count: int) -> np.ndarray:
    """Return triples of a predicate that are no facts of train or valid."""
    places = np.stack(np.meshgrid(np.arange(len(graph.entities)), [predicate], np.arange(len(graph.entities))), -1)
    triples = places.reshape(-1, 3)
    return triples[~graph.known.contains(triples)][:count]


def test_a_candidate_is_compared_with_the_negatives_of_its_predicate(answers: Answers) -> None:
    graph = answers.model.graph
    few, many = np.arange(FEWEST_NEGATIVES - 1.0), np.arange(200.0)
    predicates = np.repeat([0, 1], [len(few), len(many)])
    negatives = Negatives.of(sample_of(np.r_[few, many], predicates))
    fact = graph.train.positives[graph.train.positives[:, 1] == 1][:1]
    asked = np.r_[unknown_triples(graph, 1, 3), unknown_triples(graph, 0, 1), fact]
    table = scored(answers, asked, np.array([500.0, 150, -1, 500, 500]))
    unknown = table_of([("nobody", graph.predicates[1], graph.entities[0])]).append_column(
        "score", pa.array([None], pa.float64())
    )
    found = negatives.p_values(answers, pa.concat_tables([table, unknown]))
    # predicate 1: 0, 50 and 200 of its negatives are at least as high; predicate 0 has too few; a fact; an unknown name
    np.testing.assert_allclose(found[:3], [1 / 201, 51 / 201, 1])
    assert np.isnan(found[3:]).all()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.3]), st.integers(1, 5))
def test_tables_are_selected_as_one(seed: int, level: float, parts: int) -> None:
    rng = np.random.default_rng(seed)
    p = (rng.integers(1, 60, 40) ** 2 / 3600).clip(max=1)
    p[rng.random(40) < 0.1] = np.nan

    class Fixed(Negatives):
        def p_values(self, answers: Answers, table: pa.Table) -> np.ndarray:
            return table["score"].to_numpy()

    selection = Selection(Fixed({}), answers=None)  # type: ignore[arg-type]
    tables = [selection.add(pa.table({"score": part})) for part in np.array_split(p, parts)]
    limit = selection.limit(level)
    selected = np.concatenate([mark(table, limit)["selected"].to_pandas().to_numpy() for table in tables])
    known = ~np.isnan(p)
    assert all(value is None for value in selected[~known])
    assert selected[known].tolist() == benjamini_hochberg(p[known], level).tolist()


def test_the_expected_share_of_false_candidates_is_controlled(answers: Answers) -> None:
    """400 lists: negatives and false candidates score N(0, 1), true ones N(3, 1)."""
    graph, shares, lengths = answers.model.graph, [], []
    triples = unknown_triples(replace(graph, valid=Split(graph.valid.triples[:0], graph.valid.labels[:0])), 1, 150)
    triples = triples[~graph.known.contains(triples)][:120]
    true = np.arange(len(triples)) < len(triples) // 4
    for seed in range(400):
        rng = np.random.default_rng(seed)
        selection = Selection(Negatives.of(sample_of(rng.normal(size=300), np.ones(300, dtype=int))), answers)
        table = selection.add(scored(answers, triples, rng.normal(np.where(true, 3.0, 0.0))))
        selected = mark(table, selection.limit(0.1))["selected"].to_numpy(zero_copy_only=False)
        shares.append((selected & ~true).sum() / max(selected.sum(), 1))
        lengths.append(selected.sum())
    share, error = np.mean(shares), 2 * np.std(shares) / 20
    assert 0.06 < share < 0.075 + error  # the level times the share of false candidates
    assert np.mean(lengths) > 15
