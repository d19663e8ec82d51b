"""The search for the highest scores among more corruptions than fit in memory, against all corruptions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.arrays import Floats
from kgcore.calibrate.fit import calibration_bases
from kgcore.calibrate.per_relation import RelationCounts
from kgcore.calibrate.sample import even_sample
from kgcore.calibrate.support import Support
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.config import stages as bounds
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Corruptions, Mixture, corrupt, subject_shares
from kgcore.embed.corruptions.held_out import Further, Top, every_corruption
from kgcore.registries import CALIBRATORS
from kgcore.scores.search import searched_table
from kgcore.scores.table import CORRUPTION, SEARCHED, ScoreTable, score_table
from tests.docs.scripts import script

ETA, MOST, RATE, SEPARATED = 12, 400, 0.01, 2.5
SHARES = {"typed": 0.5, "uniform": 0.5}


class Known:
    """A model whose scores are standard normal, and SEPARATED higher for facts."""

    cohort = None

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.sizes = len(graph.entities), len(graph.predicates)
        self._scores = np.random.default_rng(3).normal(size=(self.sizes[0], self.sizes[1], self.sizes[0]))
        for split in (graph.train, graph.valid, graph.test):
            self._scores[tuple(split.positives.T)] += SEPARATED

    def score(self, triples: np.ndarray) -> Floats:
        return self._scores[tuple(triples.T)]

    raw_score = score

    def normalise(self, raw: Floats, triples: np.ndarray) -> Floats:
        return raw

    def fingerprint(self) -> str:
        return "known"


class Case:
    """A small graph, a model, the draws of a seed, and the search among all corruptions or further draws."""

    def __init__(self, graph: KnowledgeGraph, seed: int = 0, shares: dict[str, float] = SHARES) -> None:
        self.model = Known(graph)
        self.graph, self.strategy, self.sides = graph, Mixture(graph, shares), subject_shares(graph, "both")
        self.rng = np.random.default_rng(seed)
        drawn = corrupt(graph.valid.positives, ETA, self.strategy, self.rng, self.sides, graph.known)
        self.table = score_table(graph, {"valid": drawn}, self.model)

    def searched(self, looks: int = 10**9) -> ScoreTable:
        positives = self.graph.valid.positives
        further = Further(positives, ETA, looks, self.strategy, self.sides, self.graph.known, self.rng)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kgcore.scores.search.MOST", MOST)
            return searched_table(self.table, further, self.model)

    def all(self) -> Corruptions:
        made = every_corruption(self.graph.valid.positives, 10**9, self.strategy, self.sides, self.graph.known)
        assert made is not None
        return made


def weights_of(triples: np.ndarray, source: np.ndarray | None, weights: Floats) -> dict[tuple[int, ...], Floats]:
    """Return the sorted weights of each triple: two positives may have the same corruption."""
    order = np.lexsort((weights, *triples.T))
    keys, first = np.unique(triples[order], axis=0, return_index=True)
    return dict(zip(map(tuple, keys.tolist()), np.split(weights[order], first[1:]), strict=True))


def test_the_top_is_that_of_all_corruptions(small_graph: KnowledgeGraph) -> None:
    case = Case(small_graph)
    made, found = case.all(), case.searched()
    scores, kept = case.model.score(made.triples), found.origin == SEARCHED
    assert len(scores) > 5 * MOST
    assert MOST / 2 <= kept.sum() <= MOST
    high = scores > np.sort(scores)[-MOST // 2 - 1]
    expected = weights_of(made.triples[high], None, made.weights[high])
    top = kept & (found.scores >= scores[high].min())
    assert top.sum() == high.sum()
    mine = weights_of(found.triples[top], None, found.weights[top])
    assert mine.keys() == expected.keys()
    for triple, own in mine.items():
        np.testing.assert_allclose(own, expected[triple], rtol=1e-9)
    np.testing.assert_array_equal(found.scores[kept], case.model.score(found.triples[kept]))


def test_each_relation_has_the_weight_of_all_its_corruptions_for_every_seed(small_graph: KnowledgeGraph) -> None:
    made = Case(small_graph).all()
    size = len(small_graph.predicates)
    expected = np.bincount(made.triples[:, 1], made.weights, size)
    for seed in range(5):
        found = Case(small_graph, seed).searched()
        used = found.corruptions()
        assert found.weights[used].min() > 0
        own = np.bincount(found.triples[used, 1], found.weights[used], size)
        np.testing.assert_allclose(own, expected, rtol=1e-9)
        assert found.search_figures()["looked_at"] == len(made.triples)


def test_the_weights_below_the_top_are_unbiased(small_graph: KnowledgeGraph) -> None:
    made = Case(small_graph).all()
    points = np.quantile(Case(small_graph).model.score(made.triples), (0.1, 0.3, 0.5, 0.7))
    expected = made.weights @ (Case(small_graph).model.score(made.triples)[:, None] <= points)
    shares = []
    for seed in range(60):
        found = Case(small_graph, seed).searched()
        used = found.corruptions()
        shares.append(found.weights[used] @ (found.scores[used, None] <= points))
    error = np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    assert (np.abs(np.mean(shares, axis=0) - expected) < 4 * error).all()
    assert (error < 0.01 * len(made.triples)).all()


@pytest.mark.parametrize("name", ["isotonic", "smoothed_isotonic", "beta", "venn_abers", "per_relation"])
def test_calibrators_are_those_of_all_corruptions(small_graph: KnowledgeGraph, name: str) -> None:
    case, config = Case(small_graph), CalibrateConfig(base_rate=RATE)
    everything = score_table(small_graph, {"valid": case.all()}, case.model)
    tables = (everything, case.searched(), case.table)
    fits, samples = [], []
    for table in tables:
        samples.append(calibration_bases(table, config)["synthetic"].sample)
        fits.append(CALIBRATORS.get(name)().fit_sample(samples[-1]))
    assert samples[1].base_rate == pytest.approx(RATE)
    scores, own = case.table.scores[case.table.rows("valid", "labelled", 1)], case.table.triples
    predicates = own[case.table.rows("valid", "labelled", 1), 1]
    q, mine, drawn = (one.calibrate_of(scores, predicates) for one in fits)
    if name == "isotonic":  # its curve at the top depends on the rows at the top only
        cut = np.quantile(everything.scores[everything.corruptions()], 0.98)
        assert (scores > cut).sum() > 20
        np.testing.assert_allclose(mine[scores > cut], q[scores > cut], rtol=1e-9)
    error, of_draws = (np.abs(other - q).mean() for other in (mine, drawn))
    assert error < min(0.01, of_draws / 2)


@pytest.mark.parametrize("shares", [{"uniform": 1.0}, {"typed": 0.5, "similar": 0.5}])
def test_effective_weights_are_those_of_all_corruptions(small_graph: KnowledgeGraph, shares: dict[str, float]) -> None:
    case, config = Case(small_graph, shares=shares), CalibrateConfig(base_rate=RATE)
    everything = score_table(small_graph, {"valid": case.all()}, case.model)
    every, mine = (calibration_bases(t, config)["synthetic"].sample for t in (everything, case.searched()))
    own = [sample.effective_weights[sample.labels == 0] for sample in (every, mine)]
    assert own[1].sum() == pytest.approx(own[0].sum(), rel=1e-9)
    size = len(np.unique(every.predicates))
    counted = [
        RelationCounts.of(s.predicates, np.zeros(len(s.scores)), s.labels, s.weights, s.concentrations)
        for s in (every, mine)
    ]
    assert len(counted[0].rows) == size
    np.testing.assert_allclose(counted[1].rows, counted[0].rows, rtol=1e-9)
    np.testing.assert_allclose(counted[1].offset, counted[0].offset, rtol=1e-9)


def test_a_row_that_stands_for_many_is_one_observation(small_graph: KnowledgeGraph) -> None:
    case, config = Case(small_graph, shares={"uniform": 1.0}), CalibrateConfig(base_rate=RATE)
    everything = score_table(small_graph, {"valid": case.all()}, case.model)
    every, sample, drawn = (
        calibration_bases(t, config)["synthetic"].sample for t in (everything, case.searched(), case.table)
    )
    many = (sample.labels == 0) & (sample.concentrations != 1)
    np.testing.assert_allclose(sample.counts[many] * sample.concentrations[many], 1, rtol=0.1)  # k equal ones: 1 / k
    assert sample.sizes[0] < (sample.labels == 0).sum() < every.sizes[0]
    supports = [Support.fit(one, False) for one in (every, sample, drawn)]
    top = np.sort(sample.scores[sample.labels == 1])[-10:]
    widths = [np.subtract(*own.limits(top, None)[::-1]).mean() for own in supports]
    assert widths[0] * 0.9 < widths[1] < widths[2]

    even = even_sample(sample, np.random.default_rng(0), repeat=True)
    scores, there = np.unique(sample.scores[many], return_counts=True)  # draws can repeat a corruption
    for score, rows in zip(scores.tolist(), there.tolist(), strict=True):
        assert (even.scores == score).sum() <= rows + (sample.scores[~many] == score).sum()
    assert even.base_rate == pytest.approx(RATE, rel=1e-6)
    assert (even.labels == 0).sum() <= (drawn.labels == 0).sum()


def test_more_draws_where_all_corruptions_are_too_many(small_graph: KnowledgeGraph) -> None:
    """The kept draws weigh 1, and all weights sum to the number of draws."""
    positives = len(small_graph.valid.positives)
    case = Case(small_graph, shares={"batch": 1.0})  # its corruptions have no formula
    found = case.searched(looks=40 * positives)
    looked = found.search_figures()["looked_at"]
    assert 0.8 * 40 * positives < looked < 40 * positives  # known facts are left out
    np.testing.assert_allclose(found.weights[found.origin == SEARCHED], 1)
    thin = found.rows("valid", CORRUPTION) & (found.weights > 0)
    assert found.weights[thin].mean() == pytest.approx((looked - (found.origin == SEARCHED).sum()) / thin.sum())


def test_without_the_search_a_table_is_what_it_was(small_graph: KnowledgeGraph) -> None:
    case = Case(small_graph)
    found = case.searched()
    again = found.without_search()
    assert case.table.without_search() is case.table
    assert again.weights is None
    for name in ("triples", "labels", "scores", "split", "origin"):
        np.testing.assert_array_equal(getattr(again, name), getattr(case.table, name))
    np.testing.assert_array_equal(found.measured("valid")[: len(case.table)], case.table.measured("valid"))
    assert not found.measured("valid")[len(case.table) :].any()
    assert found.left_out("valid") == case.table.left_out("valid")


def test_equal_scores_have_no_top(small_graph: KnowledgeGraph) -> None:
    case = Case(small_graph)
    case.model._scores[:] = 1
    case.table = replace(case.table, scores=np.ones(len(case.table)))
    assert case.searched() is case.table


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(0, 10**6), st.booleans())
def test_the_top_of_a_stream_by_brute_force(most: int, block: int, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    relations, scores = rng.integers(0, 3, 500), rng.normal(size=500)
    scores = np.round(scores, 1) if ties else scores
    triples, by_relation = np.c_[np.arange(500), relations, np.zeros(500, dtype=np.int64)], np.array([5, 1, 0])
    top = Top(most, by_relation)
    for start in range(0, 500, block):
        part = slice(start, start + block)
        top.add(triples[part], scores[part], np.ones(len(scores[part])))
    found, _, weights = top.kept()
    every = np.sort(scores)[::-1][most // 2]
    own = (most - most // 2) * by_relation // 6
    each = np.array([np.sort(scores[relations == r])[::-1][own[r]] for r in range(3)])
    high = scores > np.minimum(every, each)[relations]
    assert sorted(found[:, 0].tolist()) == np.flatnonzero(high).tolist()
    assert len(weights) <= most
    assert top.held <= 2 * most + block
    assert top.rows == top.seen.sum() == 500


def test_a_search_needs_more_than_the_draws_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert CorruptConfig(for_base_rate=1e-6).looks_at(1000) == 100_000_000
    assert CorruptConfig(for_base_rate=2e-5).looks_at(1000) is None
    assert CorruptConfig(for_base_rate=1e-6, calibration_eta="20").looks_at(1000) is None
    assert CorruptConfig().looks_at(10) is None
    monkeypatch.setattr(bounds, "MOST_CORRUPTIONS", 1000)
    assert CorruptConfig(for_base_rate=1e-2).looks_at(10) == 10_000


def test_a_search_is_nearer_to_a_known_truth_than_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 draws fit in memory, and 1,000,000 are needed at 1e-4."""
    monkeypatch.setattr(bounds, "MOST_CORRUPTIONS", 20_000)
    monkeypatch.setattr("kgcore.scores.search.MOST", 4_000)
    module = script("all_corruptions")
    drawn, searched = (
        [module.rare(1e-4, search, seed)["smoothed_isotonic"] for seed in range(5)] for search in (False, True)
    )
    (mean, loss, _, held, low), (mean_found, loss_found, _, held_found, low_found) = (
        np.array(runs)[:, :5].mean(axis=0) for runs in (drawn, searched)
    )
    assert abs(mean_found - 1) < 0.06 < abs(mean - 1)
    assert loss_found < 1.02 < loss
    assert held_found == held == 1
    assert low_found > low + 1
    assert searched[0][5:] == (1_000_000, pytest.approx(21_000 + 2_000, abs=200))
