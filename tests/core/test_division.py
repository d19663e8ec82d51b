"""How a stated number of true candidates is divided among the predicates of a file."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.answer.domains import Domains
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.division import FEWEST, LEAST_TRUE, Shares, divided
from kgcore.answer.population.draw import DrawSize
from kgcore.answer.population.population import Population, stated_facts, unstored
from kgcore.answer.population.survey import Survey, survey
from kgcore.arrays import Bools, Floats, Triples
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.mixture.samples import MixtureData, ScoreSample
from tests.core.calibrated_models import trained_on
from tests.core.populations import GROUPS, graph_with_types

SIZES = np.array([400, 300, 500, 200])


def mixture(shares: list[float], seed: int = 0, apart: float = 0.0, facts: int = 80) -> tuple[MixtureData, Floats]:
    """Return log-odds of groups of SIZES candidates, and how many are true.

    True candidates and facts have the mean 1.5, mistakes that of corruptions, which is -1, plus `apart`.
    """
    rng, groups = np.random.default_rng(seed), np.arange(len(SIZES))
    of_candidates = np.repeat(groups, SIZES)
    is_true = rng.random(len(of_candidates)) < np.array(shares)[of_candidates]
    z = rng.normal(np.where(is_true, 1.5, apart - 1.0))
    of_facts, of_false = np.repeat(groups, facts), np.repeat(groups, 300)
    positives = ScoreSample(rng.normal(1.5, 1, len(of_facts)), predicates=of_facts)
    false = ScoreSample(rng.normal(-1, 1, len(of_false)), predicates=of_false)
    candidates = ScoreSample(z, predicates=of_candidates)
    return MixtureData(positives, {"typed": false}, candidates), np.bincount(of_candidates, is_true)


@pytest.mark.parametrize("apart", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_groups_with_different_shares_get_their_own_numbers(seed: int, apart: float) -> None:
    data, true = mixture([0.0, 0.7, 0.1, 0.4], seed, apart)
    found = Shares.of(data, SIZES.astype(float), true.sum(), 4)
    assert found.numbers.sum() == pytest.approx(true.sum(), rel=0.01)
    assert found.numbers[0] < 0.04 * SIZES[0]
    by_candidates = np.abs(SIZES * true.sum() / SIZES.sum() - true).sum()
    assert np.abs(found.numbers - true).sum() < 0.2 * by_candidates
    assert (np.abs(np.log(found.numbers[1:] / true[1:])) < 3 * found.spreads[1:] + 0.05).all()


def test_groups_with_equal_shares_are_not_torn_apart() -> None:
    """Each group has few candidates, so that its own estimate is far off, and the groups are alike."""
    errors = []
    for seed in range(10):
        data, true = mixture([0.3] * 4, seed)
        found = Shares.of(data, SIZES.astype(float), true.sum(), 4)
        errors.append(np.abs(found.numbers - true) / np.sqrt(0.21 * SIZES))
    assert np.mean(errors) < 1.0  # mean absolute error in standard deviations of the number of true candidates


def test_a_group_without_enough_facts_gets_the_share_that_the_others_suggest() -> None:
    data, true = mixture([0.3] * 4)
    rows = np.flatnonzero((data.positives.predicates != 3) | (np.arange(len(data.positives)) % 20 == 0))
    few = replace(data, positives=data.positives.part(rows))
    assert (few.positives.predicates == 3).sum() < FEWEST
    found = Shares.of(few, SIZES.astype(float), true.sum(), 3)
    assert 0.1 * SIZES[3] < found.numbers[3] < 0.5 * SIZES[3]


def test_candidates_may_be_a_random_part() -> None:
    data, true = mixture([0.0, 0.7, 0.1, 0.4])
    whole, part = (Shares.of(data, times * SIZES.astype(float), times * true.sum(), 4) for times in (1, 50))
    assert part.numbers == pytest.approx(np.maximum(50 * whole.numbers, LEAST_TRUE), rel=0.2)
    assert part.spreads == pytest.approx(whole.spreads, rel=0.05)


def file_of(shares: list[float]) -> tuple[KnowledgeGraph, Population, Survey, Bools]:
    """Return a graph, a file whose predicates have these shares of true rows, its survey, and which rows are true."""
    rng, made = np.random.default_rng(0), graph_with_types(1, facts=4_000)
    hidden = made.test.positives
    graph = replace(made, test=Split(hidden[:0], np.zeros(0)))
    rows = []
    for predicate, share in enumerate(shares):
        facts, subjects, objects = hidden[hidden[:, 1] == predicate], *rng.integers(120, size=(2, 600))
        pairs = np.column_stack([subjects, np.full(600, predicate), objects])
        false = unstored(graph, pairs[~graph.index(hidden).contains(pairs)])
        rows += [facts[: round(100 * share)], false[: round(100 * (1 - share))]]
    population = Population.of_rows(Domains(graph, is_typed=False), np.concatenate(rows), 5)
    assert population is not None
    surveyed = survey(population, [trained_on(graph, epochs=20)], DrawSize(), rng, groups=GROUPS)
    return graph, population, surveyed, graph.index(hidden).contains(surveyed.drawn.triples)


def test_a_file_whose_predicates_differ_is_calibrated_by_predicate() -> None:
    graph, population, surveyed, true = file_of([0.0, 0.7, 0.2])
    trained, rng = trained_on(graph, epochs=20), np.random.default_rng(0)
    rate = float(true.mean())
    stated = stated_facts(population, "", rate)
    assert stated is not None
    calibration = Calibration.of(population, surveyed, [trained], stated, rng)
    assert calibration.model.calibrator.base_rate == pytest.approx(rate, rel=1e-9)
    predicates = surveyed.drawn.triples[:, 1]
    q = calibration.fit.probabilities(surveyed.log_odds, predicates)
    expected, number = np.bincount(predicates, q), np.bincount(predicates, true)
    assert expected.sum() == pytest.approx(rate * len(q), rel=0.05)
    assert np.abs(expected - number).max() < 20  # as if they were alike: 30
    for predicate in range(3):
        rows = predicates == predicate
        count = calibration.fit.count(surveyed.log_odds[rows], predicates[rows], rng)
        assert count.low <= number[predicate] <= count.high
    assert "the predicates differ" in calibration.about
    assert "of those of p1 are expected to be true" in calibration.about


@pytest.mark.parametrize(("name", "value"), [("FEWEST", 10**6), ("CLEAN", 0.0)])
def test_without_facts_or_clean_corruptions_there_is_one_group(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    """Of dense graphs, and where few candidates are true, corruptions say nothing about mistakes."""
    _, population, surveyed, _ = file_of([0.3, 0.3, 0.3])
    stated = stated_facts(population, "", 0.3)
    assert stated is not None
    monkeypatch.setattr(f"kgcore.answer.population.division.{name}", value)

    def score(triples: Triples) -> Floats:
        raise AssertionError("one group needs no log-odds")

    groups, numbers = divided(population, surveyed, score, stated, np.random.default_rng(0))
    assert groups.tolist() == [0, 0, 0]
    assert numbers.values.tolist() == pytest.approx([stated.total])
    assert numbers.spreads is None
