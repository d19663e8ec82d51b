"""Populations: the candidates of a question, weighted draws, and how many candidates are true."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.answer.domains import Domains
from kgcore.answer.pairs import PairBlock
from kgcore.answer.population.draw import RULE, DrawSize, draw
from kgcore.answer.population.population import Population, stated_facts
from kgcore.data.completeness import read_completeness
from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.pairs import Rules
from tests.core.calibrated_models import trained_on
from tests.core.populations import graph_with_types

GRAPH = graph_with_types(0)
DOMAINS = Domains(GRAPH, is_typed=False)
WHOLE = Population.of_predicates(DOMAINS, [0, 1, 2])


def every_candidate(predicate: int) -> np.ndarray:
    numbers = np.arange(len(GRAPH.entities))
    pairs = np.stack(np.meshgrid(numbers, numbers, indexing="ij"), -1).reshape(-1, 2)
    triples = np.stack([pairs[:, 0], np.full(len(pairs), predicate), pairs[:, 1]], axis=1)
    return triples[~GRAPH.all_known.contains(triples) & (triples[:, 0] != triples[:, 2])]


def test_the_candidates_are_the_unknown_pairs_of_each_block() -> None:
    assert WHOLE.sizes.tolist() == [len(every_candidate(p)) for p in range(3)]
    every = GRAPH.all_known.triples
    assert WHOLE.known.tolist() == np.bincount(every[:, 1]).tolist()
    valid = np.unique(GRAPH.valid.positives, axis=0)
    assert sorted(map(tuple, WHOLE.positives)) == sorted(map(tuple, valid))
    part = Population(DOMAINS, (PairBlock(1, np.arange(10), np.arange(5, 50)),))
    inside = every[(every[:, 1] == 1) & (every[:, 0] < 10) & (every[:, 2] >= 5) & (every[:, 2] < 50)]
    of_block = valid[(valid[:, 1] == 1) & (valid[:, 0] < 10) & (valid[:, 2] >= 5) & (valid[:, 2] < 50)]
    share = len(of_block) / (valid[:, 1] == 1).sum()
    assert part.known.tolist() == pytest.approx([share * (every[:, 1] == 1).sum()])
    assert part.sizes.tolist() == [10 * 45 - len(inside) - 5]  # five pairs of an entity with itself


def test_the_top_of_a_draw_has_the_highest_scores_and_the_weights_are_those_of_all_candidates() -> None:
    trained = trained_on(GRAPH)
    drawn = draw(WHOLE, trained, DrawSize(top=6_000, rest=1_500, pool=60_000), np.random.default_rng(0))
    for predicate, size in enumerate(WHOLE.sizes.tolist()):
        rows = drawn.triples[:, 1] == predicate
        assert drawn.weights[rows].sum() == pytest.approx(size)
        top = drawn.triples[rows & drawn.in_top]
        every = every_candidate(predicate)
        scores = trained.score(every)
        limit = np.sort(scores)[-len(top)]
        assert sorted(map(tuple, top)) == sorted(map(tuple, every[scores >= limit]))
        assert drawn.lowest[predicate] == limit
        rest = drawn.triples[rows & ~drawn.in_top]
        assert len(np.unique(rest, axis=0)) == len(rest) > 400
        assert not GRAPH.all_known.contains(rest).any()
        assert (trained.score(rest) < limit).all()


@pytest.mark.parametrize("most", [6_000, 1_500])
def test_the_top_also_has_the_candidates_that_a_rule_proposes(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with the rules of every candidate. If they propose too many, those with the best rules are drawn."""
    monkeypatch.setattr("kgcore.answer.population.draw.FEWEST_TOP", 200)
    trained = trained_on(GRAPH)
    rules = Rules.of(Source(GRAPH, trained))
    size = DrawSize(top=most, rest=1_500, pool=60_000)
    drawn = draw(WHOLE, trained, size, np.random.default_rng(0), rules=rules)
    for predicate, candidates in enumerate(WHOLE.sizes.tolist()):
        rows = drawn.triples[:, 1] == predicate
        assert drawn.weights[rows].sum() == pytest.approx(candidates)
        assert len(np.unique(drawn.triples[rows], axis=0)) == rows.sum()
        every, limit = every_candidate(predicate), drawn.rules[predicate]
        confidences = rules.values(every)[:, 0].astype(np.float32)
        high, proposed = trained.score(every) >= drawn.lowest[predicate], confidences >= limit
        assert sorted(map(tuple, drawn.triples[rows & drawn.in_top])) == sorted(map(tuple, every[high | proposed]))
        assert 100 < (proposed & ~high).sum() < proposed.sum() <= high.sum() * 1.01
        lower = confidences[(confidences < limit) & (confidences >= RULE)]
        assert (most == 6_000) == (len(lower) == 0)
        assert not len(lower) or (confidences >= lower.max()).sum() > high.sum()


def test_a_draw_estimates_sums_over_all_candidates() -> None:
    trained = trained_on(GRAPH)
    every = np.concatenate([every_candidate(p) for p in range(3)])
    truth = np.exp(trained.score(every) / 4).sum()
    estimates = []
    for seed in range(20):
        drawn = draw(WHOLE, trained, DrawSize(top=6_000, rest=1_500, pool=60_000), np.random.default_rng(seed))
        estimates.append(drawn.weights @ np.exp(trained.score(drawn.triples) / 4))
    assert np.mean(estimates) == pytest.approx(truth, abs=4 * np.std(estimates) / np.sqrt(20))
    assert np.std(estimates) < 0.02 * truth


def test_a_small_population_is_drawn_in_full() -> None:
    drawn = draw(WHOLE, trained_on(GRAPH), DrawSize(), np.random.default_rng(0))
    assert len(drawn) == WHOLE.sizes.sum()
    assert drawn.in_top.all()
    assert (drawn.weights == 1).all()


def test_completeness_says_how_many_candidates_are_true() -> None:
    total = stated_facts(WHOLE, "0.8", None)
    assert total is not None
    assert total.total == pytest.approx(WHOLE.known.sum() * 0.25)
    share = np.bincount(WHOLE.positives[:, 1]) / len(WHOLE.positives)
    np.testing.assert_allclose(total.values, total.total * share)
    interval = stated_facts(WHOLE, "0.75:0.9", None)
    assert interval is not None
    assert interval.low.sum() == pytest.approx(WHOLE.known.sum() / 9)
    assert interval.high.sum() == pytest.approx(WHOLE.known.sum() / 3)
    by_rate = stated_facts(WHOLE, "", "0.01:0.04")
    assert by_rate is not None
    shares = [by_rate.low.sum() / WHOLE.sizes.sum(), by_rate.high.sum() / WHOLE.sizes.sum()]
    assert shares == pytest.approx([0.01, 0.04])
    assert by_rate.stated == "base rate 0.0201 [0.01, 0.04]"
    rate = stated_facts(WHOLE, "", 0.01)
    assert rate is not None
    assert rate.total == pytest.approx(0.01 * WHOLE.sizes.sum())
    assert stated_facts(WHOLE, "", None) is None


def test_a_file_has_the_completeness_of_each_predicate(tmp_path: Path) -> None:
    file = tmp_path / "shares.tsv"
    file.write_text("p0\t0.5\n\np1\t0.8\np2\t0.6:0.9\n")
    true = stated_facts(WHOLE, str(file), None)
    assert true is not None
    known = WHOLE.known
    np.testing.assert_allclose(true.values, [known[0], known[1] / 4, known[2] / 3])
    np.testing.assert_allclose(true.high, [known[0], known[1] / 4, known[2] * 2 / 3])
    assert true.stated == "completeness shares.tsv"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.2", "completeness is '1.2': it must be above 0 and below 1, or LOW:HIGH, such as 0.7:0.9"),
        ("0.9:0.8", "completeness is '0.9:0.8': it must be above 0 and below 1, or LOW:HIGH"),
        ("nan", "completeness is 'nan': it must be above 0 and below 1"),
        ("most", "completeness is 'most': it must be a share above 0 and below 1, an interval LOW:HIGH, or a file"),
    ],
)
def test_a_wrong_completeness_is_reported(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_completeness(text, GRAPH)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("p0\t0.5\nlikes\t0.5\n", "line 2: the graph circle has no predicate 'likes'"),
        ("p0 0.5\n", "line 1: it must be a predicate, a tab, and a share above 0 and below 1 or LOW:HIGH"),
        ("p0\t2\n", "completeness is '2': it must be above 0 and below 1"),
        ("p0\t0.5\n", "completeness shares.tsv lacks p1, p2: add a line for each"),
    ],
)
def test_a_fault_in_a_file_of_completeness_is_reported(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "shares.tsv"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        stated_facts(WHOLE, str(file), None)


def test_only_one_of_completeness_and_base_rate_is_stated() -> None:
    with pytest.raises(InputError, match=r"completeness is 0.8 and base_rate is 0.1: .* state one of them"):
        stated_facts(WHOLE, "0.8", 0.1)


def test_a_question_has_its_pairs_as_population_if_validation_knows_enough_of_them() -> None:
    few = PairBlock(1, np.arange(20), np.arange(20))
    population = Population.asked(DOMAINS, 1, 5, few)
    assert population is not None
    assert [block.predicate for block in population.blocks] == [0, 1, 2]  # p1 has fewer than 200 validation facts
    assert len(population.blocks[1].subjects) == len(GRAPH.entities)
    assert Population.asked(DOMAINS, 1, 10_000) is None
    whole = Population.asked(DOMAINS, None, 5)
    assert whole is not None
    assert whole.sizes.tolist() == WHOLE.sizes.tolist()
