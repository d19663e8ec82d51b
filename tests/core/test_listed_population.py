"""The population of a file: its unknown triples, the validation facts that stand for them, and its draw."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.answer.domains import Domains
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.draw import DrawSize, draw
from kgcore.answer.population.population import FEWEST_ROWS, Population, of_base_rate, stated_facts, unstored
from kgcore.answer.population.survey import survey
from kgcore.arrays import Triples
from kgcore.base_rate import BaseRate
from kgcore.data.graph import Split
from kgcore.errors import InputError
from tests.core.calibrated_models import trained_on
from tests.core.populations import GROUPS, graph_with_labels, graph_with_types

GRAPH = graph_with_types(1)
DOMAINS = Domains(GRAPH, is_typed=False)


def pairs(predicates: range, entities: int = 60) -> Triples:
    """Return all pairs of the first entities, known facts among them."""
    numbers = np.arange(entities)
    return np.stack(np.meshgrid(numbers, np.array(predicates), numbers, indexing="ij"), -1).reshape(-1, 3)


def of_rows(rows: Triples) -> Population:
    population = Population.of_rows(DOMAINS, rows, 5)
    assert population is not None
    return population


def test_the_candidates_are_the_unknown_rows_each_once() -> None:
    rows = pairs(range(2))
    population = of_rows(np.concatenate([rows, rows[:100]]))
    unknown = rows[~GRAPH.all_known.contains(rows)]
    assert population.sizes.tolist() == [(unknown[:, 1] == p).sum() for p in (0, 1)]
    drawn = draw(population, trained_on(GRAPH), DrawSize(), np.random.default_rng(0))
    assert sorted(map(tuple, drawn.triples)) == sorted(map(tuple, unknown))
    assert drawn.in_top.all()


def test_labelled_negatives_are_no_candidates() -> None:
    graph = graph_with_labels()
    stored = np.concatenate([graph.all_known.triples, graph.valid.negatives])
    assert not len(unstored(graph, stored))


def test_the_facts_of_a_file_stand_for_its_true_rows_if_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "kgcore.answer.population.population.FEWEST_OF_PREDICATE"
    valid, rows = np.unique(GRAPH.valid.positives, axis=0), pairs(range(2))
    in_file = valid[GRAPH.index(rows).contains(valid)]
    unknown, counts = unstored(GRAPH, rows), np.bincount(in_file[:, 1])
    monkeypatch.setattr(module, counts.min())
    assert sorted(map(tuple, of_rows(rows).positives)) == sorted(map(tuple, in_file))
    assert sorted(map(tuple, of_rows(unknown).positives)) == sorted(map(tuple, in_file))  # both entities are in it
    monkeypatch.setattr("kgcore.answer.population.population.NEARLY_ALL", 1.0)
    monkeypatch.setattr(module, counts.min() + 1)  # too many for one predicate: so all facts count, of both
    assert counts.min() < counts.max()
    assert len(of_rows(unknown).positives) == (valid[:, 1] < 2).sum()
    monkeypatch.setattr(module, counts.max() + 1)
    assert len(of_rows(unknown).positives) == (valid[:, 1] < 2).sum()
    assert of_rows(unknown).known.tolist() == [0, 0]  # completeness needs known facts in the file
    with pytest.raises(InputError, match="no fact among these pairs, so completeness says nothing about them"):
        stated_facts(of_rows(unknown), "0.9", None)
    share = [(in_file[:, 1] == p).sum() / (valid[:, 1] == p).sum() for p in (0, 1)]
    known = np.bincount(GRAPH.all_known.triples[:, 1])[:2]
    assert of_rows(rows).known.tolist() == pytest.approx((known * share).tolist())


def test_the_facts_of_a_file_have_predicates_with_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of the second predicate are stored, so that it has no candidates, and its facts stand for none."""
    monkeypatch.setattr("kgcore.answer.population.population.FEWEST_OF_PREDICATE", 1)
    rows = np.concatenate([pairs(range(1)), GRAPH.valid.positives[GRAPH.valid.positives[:, 1] == 1]])
    population = of_rows(rows)
    assert [block.predicate for block in population.blocks] == [0]
    assert set(population.positives[:, 1]) == {0}


def test_small_files_have_no_population() -> None:
    unknown = unstored(GRAPH, pairs(range(1)))
    assert Population.of_rows(DOMAINS, unknown[: FEWEST_ROWS - 1], 5) is None
    assert Population.of_rows(DOMAINS, unknown[:FEWEST_ROWS], 5) is not None
    assert Population.of_rows(DOMAINS, unknown, 10**6) is None  # validation facts are too few


def test_each_predicate_of_a_file_has_facts() -> None:
    """A subject whose only pair is its fact is in no file of unknown pairs. Its fact stands for true rows, though."""
    facts = GRAPH.valid.positives[GRAPH.valid.positives[:, 1] == 1]
    others = np.setdiff1d(np.arange(120), facts[:, 0])
    rows = np.concatenate([pairs(range(1)), pairs(range(1, 2), 120)])
    rows = unstored(GRAPH, rows[(rows[:, 1] == 0) | np.isin(rows[:, 0], others)])
    assert sorted(map(tuple, facts)) == sorted(map(tuple, (p := of_rows(rows).positives)[p[:, 1] == 1]))


def test_a_large_file_is_drawn_with_weights() -> None:
    population, trained = of_rows(pairs(range(1), 120)), trained_on(GRAPH)
    drawn = draw(population, trained, DrawSize(2_000, 500, 10_000), np.random.default_rng(0))
    assert drawn.in_top.sum() == 2_000
    assert drawn.weights.sum() == pytest.approx(population.sizes.sum())
    assert len(np.unique(drawn.triples, axis=0)) == len(drawn)
    assert trained.score(drawn.triples[~drawn.in_top]).max() <= drawn.lowest[0]


def test_a_base_rate_is_that_of_all_rows() -> None:
    population = of_rows(np.concatenate([unstored(GRAPH, pairs(range(p, p + 1)))[: 400 - 360 * p] for p in (0, 1)]))
    assert of_base_rate(population, BaseRate(0.9)).values.tolist() == pytest.approx([360, 36])


def test_the_probabilities_of_a_file_sum_to_its_stated_number_of_true_rows() -> None:
    """Hidden facts of test are the truth."""
    hidden = GRAPH.test.positives
    rng, graph = np.random.default_rng(0), replace(GRAPH, test=Split(hidden[:0], np.zeros(0)))
    false = unstored(GRAPH, pairs(range(3), 120))
    rows = np.concatenate([hidden, rng.permutation(false)[: 4 * len(hidden)]])
    population = Population.of_rows(Domains(graph, is_typed=False), rows, 5)
    assert population is not None
    trained = trained_on(graph, epochs=20)
    made = survey(population, [trained], DrawSize(), rng, groups=GROUPS)
    calibration = Calibration.of(population, made, [trained], stated_facts(population, "", 0.2), rng)
    q = calibration.fit.probabilities(made.log_odds, made.drawn.triples[:, 1])
    assert q.sum() == pytest.approx(0.2 * population.sizes.sum(), rel=0.01)
    true = graph.index(hidden).contains(made.drawn.triples)
    assert np.mean((q - true) ** 2) < 0.13  # that of the base rate is 0.16
    best = np.argsort(-q)[:60]
    count = calibration.fit.count(made.log_odds[best], made.drawn.triples[best, 1], rng)
    assert count.low <= true[best].sum() <= count.high
