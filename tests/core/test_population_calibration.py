"""Calibration to a population without labels: simulated surveys whose truth is known, and small graphs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

from kgcore.answer.domains import Domains
from kgcore.answer.pairs import PairBlock
from kgcore.answer.population.calibration import Calibration
from kgcore.answer.population.curve import TAU_OF_MAP, Cells, fit_curve, hinges, knots_of
from kgcore.answer.population.draw import DrawSize, ranked_by
from kgcore.answer.population.fit import Lost, fit_population, in_order
from kgcore.answer.population.lists import flagged
from kgcore.answer.population.population import Population, UnknownFacts, stated_facts
from kgcore.answer.population.survey import Survey, survey
from kgcore.answer.question import Question
from kgcore.combiners.base import Combiner
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.joined import Folded
from kgcore.config import EvidenceConfig
from kgcore.errors import InputError
from kgcore.evidence.fold import FOLDS, fold_of
from tests.core.calibrated_models import trained_on
from tests.core.populations import evidence_sample, graph_with_types, sampled_below_the_top, simulated_survey

GROUPS = tuple(name for name in EvidenceConfig().evidence if not name.startswith("name_"))


def stated(true: float) -> UnknownFacts:
    half = np.full(2, true / 2)
    return UnknownFacts(half, half, half, "a test", by_predicate=False)


def test_hinges_make_a_piecewise_linear_function() -> None:
    knots, slopes = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 0.0, 3.0])
    z = np.array([-3.0, -1.0, -0.5, 0.0, 1.0, 2.0, 4.0])
    np.testing.assert_allclose(hinges(z, knots) @ slopes, [-1.0, 0.0, 0.5, 1.0, 1.0, 1.0, 7.0])


def test_the_probabilities_of_all_candidates_sum_to_the_number_of_true_ones() -> None:
    made, _, _ = simulated_survey(1, true=400, facts=500)
    sizes = np.bincount(made.drawn.triples[:, 1])
    fit = fit_population(made, stated(400.0), sizes, "graph", np.random.default_rng(0))
    q = fit.probabilities(made.log_odds, made.drawn.triples[:, 1])
    assert q.sum() == pytest.approx(400, rel=5e-3)
    order = np.argsort(made.log_odds)
    for predicate in (0, 1):
        own = order[made.drawn.triples[order, 1] == predicate]
        assert (np.diff(q[own]) >= 0).all()


def test_the_map_recovers_known_probabilities() -> None:
    errors = []
    for seed in range(4):
        made, truth, _ = simulated_survey(seed, true=1_500, facts=3_000)
        sizes = np.bincount(made.drawn.triples[:, 1])
        fit = fit_population(made, stated(1_500.0), sizes, "graph", np.random.default_rng(0))
        q = fit.probabilities(made.log_odds, made.drawn.triples[:, 1])
        errors.append(np.sqrt(np.mean((q - truth)[truth > 0.05] ** 2)))
    assert np.mean(errors) < 0.03


@pytest.mark.long
def test_the_interval_of_a_list_holds_the_number_of_true_facts() -> None:
    held = []
    for seed in range(16):
        made, _, true = simulated_survey(100 + seed, true=400, facts=400, candidates=8_000)
        sizes = np.bincount(made.drawn.triples[:, 1])
        fit = fit_population(made, stated(400.0), sizes, "graph", np.random.default_rng(0))
        order = np.argsort(-made.log_odds)
        for n in (50, 200, 800):
            rows = order[:n]
            count = fit.count(made.log_odds[rows], made.drawn.triples[rows, 1], np.random.default_rng(1))
            held.append(count.low <= true[rows].sum() <= count.high)
    assert np.mean(held) >= 0.9


def test_the_interval_of_a_list_of_one_predicate_allows_for_its_own_slope() -> None:
    held = []
    for seed in range(8):
        made, _, true = simulated_survey(400 + seed, true=800, facts=800, candidates=8_000)
        predicates = made.drawn.triples[:, 1]
        made = replace(made, log_odds=made.log_odds * (1 + predicates), of_facts=made.of_facts * (1 + made.facts[:, 1]))
        fit = fit_population(made, stated(800.0), np.bincount(predicates), "graph", np.random.default_rng(0))
        order = np.argsort(-made.log_odds)
        for predicate in (0, 1):
            for n in (50, 100, 200):
                rows = order[predicates[order] == predicate][:n]
                count = fit.count(made.log_odds[rows], predicates[rows], np.random.default_rng(1))
                held.append(count.low <= true[rows].sum() <= count.high)
    assert np.mean(held) >= 0.9


def test_the_probabilities_of_a_predicate_have_the_slope_that_its_facts_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log-odds of one predicate have twice the scale of the other. Its facts show it; a shared slope does not."""
    made, q, _ = simulated_survey(7, true=2_000, facts=2_000, candidates=20_000)
    predicates = made.drawn.triples[:, 1]
    made = replace(made, log_odds=made.log_odds * (1 + predicates), of_facts=made.of_facts * (1 + made.facts[:, 1]))
    errors = []
    for tau in (TAU_OF_MAP, 1e-6):
        monkeypatch.setattr("kgcore.answer.population.fit.TAU_OF_MAP", tau)
        fit = fit_population(made, stated(2_000.0), np.bincount(predicates), "graph", np.random.default_rng(0))
        estimated = fit.probabilities(made.log_odds, predicates)
        errors.append(np.abs(estimated - q).mean())
        assert estimated.sum() == pytest.approx(2_000, rel=0.01)
    assert errors[0] < 0.8 * errors[1]


def test_the_interval_of_a_probability_holds_the_truth() -> None:
    held = []
    for seed in range(10):
        made, truth, _ = simulated_survey(200 + seed, true=400, facts=400, candidates=8_000)
        sizes = np.bincount(made.drawn.triples[:, 1])
        fit = fit_population(made, stated(400.0), sizes, "graph", np.random.default_rng(0))
        predicates = made.drawn.triples[:, 1]
        q = fit.probabilities(made.log_odds, predicates)
        low, high = fit.bound.interval(made.log_odds, q, predicates)
        likely = truth > 0.05
        held.append(((low <= truth) & (truth <= high))[likely].mean())
    assert np.mean(held) >= 0.93


@pytest.mark.long
def test_a_sample_of_the_candidates_below_the_top_does_not_move_the_top() -> None:
    held, errors = [], []
    for seed in range(10):
        made, truth, true = sampled_below_the_top(300 + seed, true=600, facts=600)
        fit = fit_population(made, stated(600.0), np.array([100_000, 100_000]), "graph", np.random.default_rng(0))
        rows, predicates = in_order(fit.survey, fit), made.drawn.triples[:, 1]
        for n in (50, 200, 800):
            count = fit.count(made.log_odds[rows[:n]], predicates[rows[:n]], np.random.default_rng(1))
            held.append(count.low <= true[rows[:n]].sum() <= count.high)
        q = fit.probabilities(fit.survey.log_odds, predicates)
        assert made.drawn.weights @ q == pytest.approx(600, rel=0.02)
        errors.append(q[rows].sum() / truth[rows].sum() - 1)
    assert np.mean(held) >= 0.9
    assert abs(np.mean(errors)) < 0.03


def test_a_fact_and_its_mirror_image_are_one_observation() -> None:
    made, _, _ = simulated_survey(7, true=300, facts=300, candidates=8_000)
    sizes = np.bincount(made.drawn.triples[:, 1])
    facts = made.facts + np.array([[0, 0, 8_000]])
    mirrored = np.concatenate([facts, facts[:, ::-1]])
    twice = replace(made, facts=mirrored, of_facts=np.tile(made.of_facts, 2), facts_in_top=np.ones(600, dtype=bool))
    order = np.argsort(-made.log_odds)[:200]
    widths = []
    for each in (made, twice):
        fit = fit_population(each, stated(300.0), sizes, "graph", np.random.default_rng(0))
        count = fit.count(each.log_odds[order], each.drawn.triples[order, 1], np.random.default_rng(1))
        widths.append(count.high - count.low)
    assert widths[1] > 0.85 * widths[0]


def test_the_sentence_about_a_population_says_that_the_evidence_contradicts_the_statement(
    surveyed: tuple[Population, Survey, Calibration],
) -> None:
    population, made, calibration = surveyed
    assert "look like these facts" not in calibration.about
    too_many = stated_facts(population, "", 0.9)
    models, rng = calibration.model.trained.embedding_models, np.random.default_rng(0)
    contradicted = Calibration.of(population, made, models, too_many, rng)
    assert " true candidates are stated, but only about " in contradicted.about
    assert "are expected to be true. The graph is more complete than stated" in contradicted.about


def test_the_sentence_about_a_population_names_the_predicates_that_have_no_candidates(
    surveyed: tuple[Population, Survey, Calibration],
) -> None:
    population, _, calibration = surveyed
    true = calibration.true
    assert true is not None
    first = replace(true, values=true.values[:1], low=true.low[:1], high=true.high[:1], everywhere=true.total)
    few = replace(calibration, population=replace(population, blocks=population.blocks[:1]), true=first)
    counts = np.bincount(population.graph.train.triples[:, 1])
    names = "p1, p2" if counts[1] >= counts[2] else "p2, p1"
    assert f"validation has few facts of their predicate, as of {names}, or an entity" in few.about
    whole = replace(true, everywhere=2 * true.total)
    assert "few facts of their predicate, or an entity" in replace(calibration, true=whole).about


def test_no_probability_is_beyond_what_the_facts_support() -> None:
    made, _, _ = simulated_survey(3, true=400, facts=50)
    sizes = np.bincount(made.drawn.triples[:, 1])
    fit = fit_population(made, stated(400.0), sizes, "graph", np.random.default_rng(0))
    beyond = np.array([fit.supported, fit.supported + 1, fit.supported + 50])
    q = fit.probabilities(beyond, np.zeros(3, dtype=np.int64))
    assert len(set(q.tolist())) == 1
    pooled = fit.bound.calibrator.calibrate(beyond)
    assert (pooled <= 51 / 52).all()
    _, high = fit.bound.interval(beyond, q, np.zeros(3, dtype=np.int64))
    assert (high[1:] == 1).all()


def test_neither_a_probability_nor_its_limits_are_lower_than_data_can_show() -> None:
    made, _, _ = simulated_survey(3, true=400, facts=50)
    made = replace(made, log_odds=np.where(np.arange(len(made.log_odds)) == 0, -400.0, made.log_odds))
    sizes = np.bincount(made.drawn.triples[:, 1])
    fit = fit_population(made, stated(400.0), sizes, "graph", np.random.default_rng(0))
    z, predicate = made.log_odds[:1], made.drawn.triples[:1, 1]
    q = fit.probabilities(z, predicate)
    low, high = fit.bound.interval(z, q, predicate)
    assert 1e-14 < low[0] <= q[0] <= high[0] < 1e-3


def test_a_triple_with_more_evidence_than_every_validation_fact_is_beyond_the_calibrated_range(
    surveyed: tuple[Population, Survey, Calibration],
) -> None:
    population, made, calibration = surveyed
    strongest = float(made.of_facts[made.facts_in_top].max())
    scores = pa.table({"score": [strongest - 1, strongest, strongest + 1e-6]})
    triples = population.positives[:3]
    flags = flagged(scores, triples, population.graph, calibration)["flag"].to_pylist()
    assert flags == [None, None, "beyond the calibrated range"]
    assert flagged(scores, triples, population.graph)["flag"].to_pylist() == [None, None, None]


def test_twice_the_candidates_of_which_twice_as_many_are_true_have_the_same_probabilities() -> None:
    made, _, _ = simulated_survey(4, true=300, facts=400, candidates=5_000)
    predicates = (made.drawn.triples[:, 1], made.facts[:, 1])
    knots = knots_of(made.of_facts)
    curves = []
    for times in (1.0, 2.0):
        weights = np.full(len(made.log_odds), times)
        cells = Cells.of((made.log_odds, made.of_facts), predicates, weights)
        curves.append(fit_curve(cells.counted(weights, np.ones(400)), np.array([150.0, 150.0]) * times, knots))
    np.testing.assert_allclose(curves[0].slopes, curves[1].slopes, atol=5e-3)  # cells have other mean log-odds
    np.testing.assert_allclose(curves[0].constants, curves[1].constants, atol=5e-3)


def folded(rules: dict[int, float]) -> tuple[Folded, list[Combiner]]:
    rngs = [np.random.default_rng(seed) for seed in range(FOLDS)]
    members = [BoostedTrees(trees=5).fit(evidence_sample(rng, 300), rng) for rng in rngs]
    return Folded("boosted_trees", tuple(members), {2: 0.25}, rules, 1.5, 0, 1), list(members)


@pytest.mark.parametrize("rules", [{}, {2: 0.8}])
def test_each_triple_is_judged_by_the_member_of_its_fold(rules: dict[int, float]) -> None:
    made, members = folded(rules)
    sample = evidence_sample(np.random.default_rng(9), 200)
    folds = np.arange(200) % FOLDS
    values = np.column_stack([sample.values, folds]).astype(np.float32)
    low = (sample.predicates == 2) & (sample.values[:, 0] < 0.25)
    low &= sample.values[:, 1] < (0.8 if rules else np.inf)
    assert 20 < low.sum() < 150
    expected = [
        members[folds[i]].log_odds(sample.values[i : i + 1], sample.predicates[i : i + 1])[0] - 1.5 * low[i]
        for i in range(200)
    ]
    np.testing.assert_array_equal(made.log_odds(values, sample.predicates), expected)
    constant, parts = made.contributions(values, sample.predicates)
    np.testing.assert_allclose(constant + parts.sum(axis=1), expected, atol=1e-9)
    read = Folded.from_parameters(json.loads(json.dumps(made.parameters())))
    np.testing.assert_array_equal(read.log_odds(values, sample.predicates), expected)


def test_folds_are_even_and_mirrored_triples_share_theirs() -> None:
    rng = np.random.default_rng(0)
    triples = np.stack([rng.integers(1_000, size=20_000) for _ in range(3)], axis=1)
    counts = np.bincount(fold_of(triples), minlength=FOLDS)
    assert (np.abs(counts - 4_000) < 4 * np.sqrt(4_000)).all()
    np.testing.assert_array_equal(fold_of(triples), fold_of(triples[:, ::-1]))
    np.testing.assert_array_equal(fold_of(triples[:7]), fold_of(triples)[:7])


@pytest.fixture(scope="module")
def surveyed() -> tuple[Population, Survey, Calibration]:
    graph = graph_with_types(1)
    trained = trained_on(graph, epochs=20)
    population = Population.asked(Domains(graph), None, 5)
    assert population is not None
    rng = np.random.default_rng(0)
    size = DrawSize(top=9_000, rest=2_000, pool=40_000)
    made = survey(population, [trained], size, rng, groups=GROUPS)
    true = stated_facts(population, "0.9", None)
    return population, made, Calibration.of(population, made, [trained], true, rng)


def test_a_survey_prefers_true_facts_that_nobody_told(surveyed: tuple[Population, Survey, Calibration]) -> None:
    _, made, _ = surveyed
    weights = made.drawn.weights / made.drawn.weights.sum()
    below = np.array([weights[made.log_odds < z].sum() for z in made.of_facts])
    assert below.mean() > 0.85


def test_the_log_odds_of_a_survey_are_those_of_its_combiners(
    surveyed: tuple[Population, Survey, Calibration], tmp_path: Path
) -> None:
    _, made, calibration = surveyed
    top, lowered, score = made.drawn.in_top, calibration.survey, calibration.model.trained.score
    without_stored = replace(calibration.model.trained, judged=None).score
    for own in (score, without_stored):
        np.testing.assert_array_equal(own(made.drawn.triples[top]), made.log_odds[top])
    np.testing.assert_array_equal(score(made.facts[made.facts_in_top]), made.of_facts[made.facts_in_top])
    np.testing.assert_allclose(score(made.drawn.triples), lowered.log_odds, rtol=1e-12)
    np.testing.assert_allclose(score(made.facts), lowered.of_facts, rtol=1e-12)
    made.write(tmp_path / "survey")
    read = Survey.read(tmp_path / "survey")
    np.testing.assert_array_equal(read.log_odds, made.log_odds)
    assert read.drawn.lowest == made.drawn.lowest
    assert read.combined.fingerprint() == made.combined.fingerprint()


def test_the_list_of_a_survey_is_that_of_a_search_through_all(
    surveyed: tuple[Population, Survey, Calibration],
) -> None:
    population, _, calibration = surveyed
    triples, lost = calibration.most_probable(Question(), 50)
    np.testing.assert_array_equal(triples, ranked_by(calibration.model, population, Question(), 50))
    assert lost.likely > 0
    assert lost.outside == 0
    assert 0 < lost.limit < 1
    for question in (Question(predicate=1), Question(3, 1), Question(None, 1, 7), Question(subject=3)):
        listed, _ = calibration.most_probable(question, 8)
        np.testing.assert_array_equal(listed, ranked_by(calibration.model, population, question, 8))


def test_a_part_of_a_block_is_ranked_as_the_whole_is(surveyed: tuple[Population, Survey, Calibration]) -> None:
    population, _, calibration = surveyed
    part = PairBlock(1, np.arange(40), np.arange(20, 100))
    listed, lost = calibration.ranked(part, 30)
    every = ranked_by(calibration.model, population, Question(predicate=1), 10**6)
    np.testing.assert_array_equal(listed, every[part.holds(every)][:30])
    assert lost == Lost()
    assert len(calibration.ranked(part, 10**6)[0]) == Population(population.domains, (part,)).sizes[0]


def test_a_list_above_a_probability_has_no_other_rows(surveyed: tuple[Population, Survey, Calibration]) -> None:
    _, _, calibration = surveyed
    for question in (Question(), Question(subject=4)):
        every, _ = calibration.most_probable(question, 60)
        q = calibration.fit.probabilities(calibration.model.trained.score(every), every[:, 1])
        assert (np.diff(q) <= 0).all()
        above, _ = calibration.most_probable(question, 60, above=float(q[20]))
        np.testing.assert_array_equal(above, every[q > q[20]])


def test_too_few_validation_facts_are_reported() -> None:
    graph = graph_with_types(2, facts=150)
    population = Population.of_predicates(Domains(graph), [0])
    with pytest.raises(InputError, match="facts of the kind that is asked for: probabilities need at least 20"):
        survey(population, [trained_on(graph)], DrawSize(), np.random.default_rng(0))


def test_the_slope_is_that_of_a_logistic_truth() -> None:
    made, truth, _ = simulated_survey(7, true=2_000, facts=20_000, candidates=20_000)
    weights, zeros = np.ones(20_000), (np.zeros(20_000, dtype=np.int64), np.zeros(20_000, dtype=np.int64))
    cells = Cells.of((made.log_odds, made.of_facts), zeros, weights)
    curve = fit_curve(cells.counted(weights, np.ones(20_000)), np.array([2_000.0]), np.array([0.0]))
    assert curve.slopes[1] == pytest.approx(1.5, abs=0.1)
    fitted = expit(curve.log_odds(made.log_odds, zeros[0]))
    assert np.abs(fitted - truth).max() < 0.03
