"""Hidden facts among corruptions: how many there are, without a look at test, and what calibrators gain from it."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.base_rate import HiddenShare
from kgcore.calibrate.fit import synthetic_of
from kgcore.calibrate.hidden import HiddenFacts, chances_of, hidden_facts, hidden_hits
from kgcore.calibrate.per_relation import PerRelation
from kgcore.calibrate.sample import base_rate_weights, both_labels
from kgcore.calibrate.support import Support
from kgcore.combiners.hidden import with_hidden_log_odds
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import corrupt, hits_of, subject_shares
from kgcore.embed.corruptions.held_out import every_corruption
from kgcore.evidence.base import Source
from kgcore.measure.metrics.proper import brier
from kgcore.registries import CALIBRATORS, STRATEGIES
from kgcore.scores.table import ScoreTable
from kgcore.storage.tables import read_corruptions, read_scores, write_corruptions, write_scores
from tests.core.calibrator_samples import fitted_to
from tests.core.dense_graphs import Dense, dense_graph
from tests.core.drawn import drawing
from tests.core.samples import figure

USUAL = {"typed": 0.5, "similar": 0.5}


@pytest.fixture(scope="module")
def dense() -> Dense:
    return dense_graph(np.random.default_rng(0))


def ring(valid: list[int], test: list[int]) -> KnowledgeGraph:
    """Return a graph of the subject 0, a predicate and objects up to 7: train has 1, valid and test have others."""
    splits = [Split(np.array([[0, 0, o] for o in own]), np.ones(len(own))) for own in ([1], valid, test)]
    return KnowledgeGraph("ring", [f"e{i}" for i in range(8)], ["p"], *splits)


def test_hits_by_hand() -> None:
    """Objects 2 and 3 are in valid. Each replaces the other; 4 to 7 and 0 are in no split that the fit sees.

    With uniform corruptions of the object, the other fact of valid is one of 6 possible draws outside train: 5 unknown
    entities and itself.
    """
    graph = ring([2, 3], [4])
    strategy, shares = STRATEGIES.get("uniform")(graph), subject_shares(graph, "object")
    seen = graph.index(graph.train.positives)
    made = every_corruption(graph.valid.positives, 100, strategy, shares, graph.known, seen)
    assert made is not None
    np.testing.assert_allclose(made.hits, [[0, 1 / 6 / 2], [0, 1 / 6 / 2]])
    drawn = corrupt(graph.valid.positives, 40_000, strategy, np.random.default_rng(0), shares, graph.known, seen)
    np.testing.assert_allclose(drawn.hits, made.hits, rtol=0.03)


def test_a_fact_that_occurs_twice_shares_its_hits(small_graph: KnowledgeGraph) -> None:
    positives = small_graph.valid.positives[[0, 1, 0]]
    triples, source = small_graph.valid.positives[[0, 1, 2]], np.array([1, 1, 1])
    hits = hits_of(triples, np.array([4.0, 1.0, 9.0]), source, positives, small_graph.known)
    assert hits.sum(axis=1).tolist() == [2, 1, 2]


@pytest.mark.parametrize("name", ["uniform", "typed", "similar", "near_miss", "relational"])
def test_draws_count_the_hits_of_all_corruptions(name: str, dense: Dense) -> None:
    graph, strategy = dense.graph, drawing(name, dense.graph)
    seen, shares = graph.index(graph.train.positives), subject_shares(graph, "both")
    every = every_corruption(graph.valid.positives, 10**7, strategy, shares, graph.known, seen)
    drawn = corrupt(graph.valid.positives, 300, strategy, np.random.default_rng(1), shares, graph.known, seen)
    assert every is not None
    assert every.hits is not None
    assert drawn.hits is not None
    assert drawn.hits.sum() == pytest.approx(every.hits.sum(), rel=0.05)
    counts, expected = (len(drawn.triples) * hits[every.hits > 0] for hits in (drawn.hits, every.hits))
    assert ((counts - expected) ** 2 / expected).mean() < 1.3  # the variance of a count is about its mean


def test_counting_hits_changes_no_corruption(dense: Dense) -> None:
    graph, shares = dense.graph, subject_shares(dense.graph, "both")
    strategy, seen = STRATEGIES.get("typed")(graph), graph.index(graph.train.positives)
    made = [
        corrupt(graph.valid.positives, 5, strategy, np.random.default_rng(0), shares, graph.known, own)
        for own in (None, seen)
    ]
    np.testing.assert_array_equal(made[0].triples, made[1].triples)
    assert made[0].hits is None


@pytest.mark.parametrize(
    ("strategy", "completeness"),
    [({"typed": 1.0}, 1.0), (USUAL, 1.0), (USUAL, 0.5), ({"typed": 1.0}, (0.3, 0.5, 0.8, 0.95))],
)
def test_the_share_of_true_corruptions_is_estimated_without_test(
    strategy: dict[str, float], completeness: float | tuple[float, ...]
) -> None:
    """Over twelve graphs, the mean estimate is within 8 % of the truth, and the intervals cover it."""
    found = []
    for seed in range(12):
        dense = dense_graph(np.random.default_rng(100 + seed), completeness=completeness)
        table = dense.table(strategy, seed, completeness=stated(completeness))
        hidden = hidden_facts(table)
        assert hidden is not None
        share, true = hidden.share, float(dense.true(table.triples[table.corruptions()]).mean())
        found.append((share.share, true, share.low <= true <= share.high))
    estimates, truths, covered = np.array(found).T
    assert estimates.mean() == pytest.approx(truths.mean(), rel=0.08)
    assert covered.mean() >= 0.8


@pytest.mark.parametrize("completeness", [1.0, 0.5, (0.3, 0.5, 0.8, 0.95)])
@pytest.mark.parametrize("sides", ["subject", "both"])
def test_after_a_split_by_cold_entities_facts_of_other_entities_are_hit_by_replacing_the_entity_only(
    sides: str, completeness: float | tuple[float, ...]
) -> None:
    """Over ten graphs with cold objects, the mean estimate is within 15 % of the truth; 0 if it is 0."""
    found = []
    for seed in range(10):
        dense = dense_graph(np.random.default_rng(100 + seed), 120, completeness=completeness, cold=True)
        table = replace(dense, sides=sides).table({"uniform": 1.0}, seed, 5, completeness=stated(completeness))
        hidden = hidden_facts(table)
        assert hidden is not None
        found.append((hidden.share.share, float(dense.true(table.triples[table.corruptions()]).mean())))
    estimate, truth = np.mean(found, axis=0)
    assert estimate == pytest.approx(truth, rel=0.15)


def stated(completeness: float | tuple[float, ...]) -> str:
    """Return the completeness of a graph, or of each of its predicates, as a user states it."""
    if isinstance(completeness, float):
        return "" if completeness == 1 else str(completeness)
    return "".join(f"p{number}\t{share}\n" for number, share in enumerate(completeness))


def test_the_estimate_uses_only_the_number_of_the_facts_of_test(dense: Dense) -> None:
    graph, rng = dense.graph, np.random.default_rng(0)
    size = len(graph.entities)
    other = np.stack([rng.integers(size, size=len(graph.test)), rng.integers(4, size=len(graph.test))], axis=1)
    facts = np.concatenate([other, rng.integers(size, size=(len(graph.test), 1))], axis=1)
    changed = replace(dense, graph=replace(graph, test=Split(facts, graph.test.labels)))
    shares = [hidden_facts(one.table(USUAL, 0)) for one in (dense, changed)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[0].share == shares[1].share


def measured(dense: Dense, table: ScoreTable, alpha: float, name: str) -> list[tuple[float, float]]:
    """Return the Brier score and the calibration error if all corruptions are false, corrected, true ones removed."""
    config, hidden = CalibrateConfig(base_rate=alpha), hidden_facts(table)
    assert hidden is not None
    every = synthetic_of(table, config, None, 0.0)
    assert every.predicates is not None
    kept = every.labels == 1
    kept[~kept] = ~dense.true(table.triples[table.corruptions()])
    kept[kept] = both_labels(every.labels[kept], every.predicates[kept])
    rest = every.part(kept)
    removed = replace(rest, weights=base_rate_weights(rest.labels, alpha, rest.predicates))
    rows = table.measured("test")
    labels, predicates = table.labels[rows], table.triples[rows, 1]
    weights = base_rate_weights(labels, alpha, predicates)
    found = []
    for sample in (every, synthetic_of(table, config, hidden, hidden.share.share), removed):
        q = CALIBRATORS.get(name)().fit_sample(sample).calibrate_of(table.scores[rows], predicates)
        found.append((brier(q, labels, weights), figure("debiased_rmsce")(q, labels, weights)))
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ["smoothed_isotonic", "per_relation", "beta"])
@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_the_correction_is_nearly_as_good_as_to_remove_the_true_corruptions(name: str, alpha: float) -> None:
    found = []
    for seed in range(6):
        dense = dense_graph(np.random.default_rng(seed))
        found.append(measured(dense, dense.table(USUAL, seed), alpha, name))
    (plain, plain_error), (corrected, error), (removed, _) = np.mean(found, axis=0)
    assert abs(corrected - removed) < 0.45 * (plain - removed)
    assert abs(corrected - removed) < 0.003
    assert error < 0.6 * plain_error


def test_noise_does_not_make_the_highest_scores_certain() -> None:
    """Only half of the facts are known, so most of the corruptions with the highest scores are true."""
    for seed in range(6):
        dense = dense_graph(np.random.default_rng(seed), completeness=0.5)
        table = dense.table(USUAL, seed, completeness="0.5")
        hidden = hidden_facts(table)
        assert hidden is not None
        chances = hidden.chances(hidden.share.share)
        assert chances.max() <= hidden.most < 0.98
        config = CalibrateConfig(base_rate=0.1)
        for bound in fitted_to(table, config):
            if bound.negatives == "synthetic":
                q = bound.predict(table.scores, table.model, table.triples[:, 1])
                assert (q > 0.999).mean() < 0.01


def test_chances_have_the_mean_that_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2, 500)
    hidden = HiddenFacts(HiddenShare(0.3, 0.2, 0.4), rng.lognormal(0, 3, 500), weights, 0.9)
    for share in (0.01, 0.3, 0.8):
        chances = hidden.chances(share)
        assert np.average(chances, weights=weights) == pytest.approx(share, abs=1e-9)
        assert chances.max() <= 0.9
        assert (np.diff(chances[np.argsort(hidden.odds)]) >= 0).all()
    assert hidden.chances(0.95) == pytest.approx(np.full(500, 0.9))
    assert not hidden.chances(0.0).any()


def test_facts_that_are_hidden_from_the_fit(dense: Dense) -> None:
    """With completeness c, there are test facts, and known facts (1 - c) / c in no split."""
    graph = dense.graph
    known = np.concatenate([split.triples for split in (graph.train, graph.valid, graph.test)])[:, 1]
    of_valid = np.bincount(graph.valid.triples[:, 1])
    each, everywhere = len(graph.test) / len(graph.valid), len(known) / len(graph.valid)
    by_predicate = each + np.array([9, 1, 1 / 4, 1 / 9]) * np.bincount(known) / of_valid
    for text, expected in (
        ("", [each] * 4),
        ("0.25", [each + 3 * everywhere] * 4),
        ("p0\t0.1\np1\t0.5\np2\t0.8\np3\t0.9", by_predicate),
    ):
        table = dense.table({"typed": 1.0}, 0, eta=1, completeness=text)
        assert table.hits is not None
        positives = table.hits.any(axis=1)
        found = hidden_hits(table)[0, positives] / table.hits[positives].sum(axis=1)
        np.testing.assert_allclose(found, np.array(expected)[table.triples[positives, 1]])
    low, high = hidden_hits(dense.table({"typed": 1.0}, 0, eta=1, completeness="0.2:0.3"))[1:]
    assert low[positives].sum() < high[positives].sum()


def test_corruptions_with_known_facts_stay_as_they_are(dense: Dense) -> None:
    """As in the paper's published code: nothing is counted, and the samples are the former ones."""
    table = dense.table({"uniform": 1.0}, 0, filtered=False)
    assert table.hits is None
    assert hidden_facts(table) is None
    fitted = fitted_to(table, CalibrateConfig(calibrators=("platt",)), CorruptConfig(calibration_filtered=False))
    assert [bound.hidden for bound in fitted] == [None] * len(fitted)


def test_without_a_hit_no_corruption_counts_less() -> None:
    graph = ring([2], [4])
    seen, shares = graph.index(graph.train.positives), subject_shares(graph, "object")
    made = every_corruption(graph.valid.positives, 100, STRATEGIES.get("uniform")(graph), shares, graph.known, seen)
    assert made is not None
    assert made.hits is not None
    assert made.hits.tolist() == [[0, 0]]


def test_intervals_contain_those_at_both_ends_of_the_share(dense: Dense) -> None:
    table, config = dense.table(USUAL, 0), CalibrateConfig(base_rate=0.1, calibrators=("per_relation", "beta"))
    hidden = hidden_facts(table)
    assert hidden is not None
    scores, predicates = table.scores, table.triples[:, 1]
    for bound in fitted_to(table, config):
        if bound.negatives == "synthetic":
            assert bound.hidden == hidden.share
            assert bound.support is not None
            low, high = bound.support.limits(scores, predicates)
            by_predicate = bound.name == "per_relation"
            for end, inner in ((hidden.share.low, 0), (hidden.share.high, 1)):
                sample = synthetic_of(table, config, hidden, end)
                own = Support.fit(sample, by_predicate).limits(scores, predicates)
                assert (low <= own[inner] + 1e-12).all() if inner == 0 else (high >= own[inner] - 1e-12).all()


def test_hits_and_facts_are_read_as_they_were_written(dense: Dense, tmp_path) -> None:
    graph, shares = dense.graph, subject_shares(dense.graph, "both")
    strategy, seen = STRATEGIES.get("typed")(graph), graph.index(graph.train.positives)
    made = corrupt(graph.valid.positives, 5, strategy, np.random.default_rng(0), shares, graph.known, seen)
    write_corruptions(tmp_path / "corruptions.parquet", {"valid": made})
    np.testing.assert_array_equal(read_corruptions(tmp_path / "corruptions.parquet")["valid"].hits, made.hits)
    table = replace(dense, cold=2).table({"typed": 1.0}, 0, eta=2)
    table = replace(table, hidden_log_odds=np.where(table.hits.any(axis=1), table.scores, np.nan))
    write_scores(tmp_path / "scores.parquet", table)
    again = read_scores(tmp_path / "scores.parquet")
    np.testing.assert_array_equal(again.hits, table.hits)
    np.testing.assert_array_equal(again.hidden_log_odds, table.hidden_log_odds)
    assert again.cold == 2


def test_the_share_in_words_and_numbers() -> None:
    share = HiddenShare(0.34, 0.3, 0.383)
    assert str(share) == "34 % [30, 38]"
    assert HiddenShare.of_figures({"overlap": 0.1, **share.figures()}) == share
    assert HiddenShare.of_figures({"overlap": 0.1}) is None


def test_per_relation_orders_the_odds_of_a_predicate_by_score(dense: Dense) -> None:
    assert PerRelation.by_predicate
    table = dense.table(USUAL, 0)
    hidden = hidden_facts(table)
    assert hidden is not None
    rows = table.corruptions()
    for predicate in range(4):
        own = table.triples[rows, 1] == predicate
        order = np.argsort(table.scores[rows][own])
        assert (np.diff(hidden.odds[own][order]) >= -1e-12).all()


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_chances_of_gives_the_log_odds_their_slope_and_the_share(share: float) -> None:
    """Hidden facts have the log-odds N(1, 1), false corruptions N(-1, 1): the right probability is expit(2 z + c)."""
    rng = np.random.default_rng(0)
    hits, true = rng.normal(1, 1, 40_000), rng.random(40_000) < share
    z = rng.normal(np.where(true, 1, -1), 1)
    chances = chances_of(z, np.ones(len(z)), float(hits.mean()), share)
    assert chances.mean() == pytest.approx(share, rel=1e-3)
    slope, constant = np.polyfit(z, np.log(chances / (1 - chances)), 1)
    assert slope == pytest.approx(2, rel=0.05)  # a ridge draws it to 0
    assert constant == pytest.approx(np.log(share / (1 - share)), abs=0.1)
    twice = chances_of(np.repeat(z, 2), np.full(2 * len(z), 3.0), float(hits.mean()), share)
    np.testing.assert_allclose(twice[::2], chances, rtol=1e-4)


def test_evidence_finds_hidden_facts_that_the_scores_do_not_show(dense: Dense) -> None:
    table = dense.table(USUAL, 0, eta=6)
    table = replace(table, scores=np.random.default_rng(0).normal(size=len(table)))
    groups = ("score", "degrees", "types")
    seen = with_hidden_log_odds(table, Source(dense.graph, dense.model), groups, np.random.default_rng(0))
    corruptions = table.corruptions()
    true, found = dense.true(table.triples[corruptions]), []
    for one in (table, seen):
        hidden = hidden_facts(one)
        assert hidden is not None
        chances = hidden.chances(hidden.share.share)
        assert chances.mean() == pytest.approx(hidden.share.share, rel=0.01)
        found.append(chances[true].mean() / chances[~true].mean())
    assert found[1] > 2 * found[0]
    assert seen.hidden_log_odds is not None
    _, place = np.unique(table.triples[corruptions], axis=0, return_inverse=True)
    log_odds = seen.hidden_log_odds[corruptions]
    assert np.ptp(log_odds[place == place[0]]) == 0  # a triple has one value, however often it is drawn
    rows = corruptions | (table.rows("valid", "labelled", 1) & table.hits.any(axis=1))
    np.testing.assert_array_equal(np.isfinite(seen.hidden_log_odds), rows)


def test_few_hits_need_no_evidence(dense: Dense) -> None:
    table = dense.table(USUAL, 0)
    assert table.hits is not None
    few = replace(table, hits=table.hits * 1e-2)
    assert with_hidden_log_odds(few, Source(dense.graph, dense.model), ("score",), np.random.default_rng(0)) is few
