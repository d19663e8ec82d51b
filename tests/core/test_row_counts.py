"""Rows that stand for several rows: each consumer of a calibration sample must count them so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from kgcore.answer.calibration_evidence import evidence_of
from kgcore.answer.conformal import conformal_p_values
from kgcore.arrays import draw_folds
from kgcore.calibrate.fit import calibration_bases
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, even_sample, label_sizes, synthetic_sample
from kgcore.calibrate.support import Band, Support
from kgcore.calibrate.validation import NEGATIVES, POSITIVES, cross_fitted, score_audit, thin_figures
from kgcore.config import CalibrateConfig
from kgcore.embed.corruptions.base import Corruptions
from kgcore.errors import MismatchError
from kgcore.registries import CALIBRATORS, POOLS
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable
from kgcore.storage.tables import read_corruptions, read_scores, write_corruptions, write_scores
from kgcore.wings.ensembles.fit import bounds, check_same_rows
from kgcore.wings.monitoring.two_samples import NewTriples, TwoSamples, cells_of, normal_scores
from tests.core.calibrator_samples import bound_to

ALPHA = 0.03
GRID = np.linspace(-3, 5, 81)
EXACT = ("isotonic",)  # every fit that uses weights alone


def both(rows: int = 600) -> tuple[CalibrationSample, CalibrationSample, np.ndarray]:
    """Return a sample with counts, the same sample with copies of its rows, and the positions of the copied rows."""
    rng = np.random.default_rng(5)
    positives, negatives = rng.normal(2, 1, 200).round(1), rng.normal(0, 1, rows).round(1)
    relations = rng.integers(0, 3, 200), rng.integers(0, 3, rows)
    counts = 1 + rng.binomial(9, norm.cdf(negatives))  # high scores count more, so ignored counts would be seen
    copies = np.repeat(np.arange(rows), counts)
    one = synthetic_sample(positives, negatives, ALPHA, predicates=relations, counts=counts / counts.mean())
    two = synthetic_sample(positives, negatives[copies], ALPHA, predicates=(relations[0], relations[1][copies]))
    return one, two, np.r_[np.arange(200), 200 + copies]


def with_counts(value: float, rows: int = 600) -> tuple[CalibrationSample, CalibrationSample]:
    """Return a sample without counts, and the same one in which all counts of the negatives are equal."""
    one, _, _ = both(rows)
    true = one.labels == 1
    scores, relations = (one.scores[true], one.scores[~true]), (one.predicates[true], one.predicates[~true])
    made = [synthetic_sample(*scores, ALPHA, predicates=relations, counts=c) for c in (None, np.full(rows, value))]
    return made[0], made[1]


def test_weights_and_copies_give_each_row_the_same_share() -> None:
    one, two, place = both()
    shares = np.bincount(place, two.weights / two.weights.sum())
    np.testing.assert_allclose(one.weights / one.weights.sum(), shares, rtol=1e-9)
    assert one.base_rate == pytest.approx(ALPHA)
    for relation in range(3):
        assert one.part(one.predicates == relation).base_rate == pytest.approx(ALPHA)


@pytest.mark.parametrize("name", EXACT)
def test_weights_and_copies_give_the_same_curve(name: str) -> None:
    one, two, _ = both()
    curves = [CALIBRATORS.get(name)().fit_sample(sample).calibrate(GRID) for sample in (one, two)]
    np.testing.assert_allclose(*curves, rtol=1e-6)


@pytest.mark.parametrize("name", sorted(set(CALIBRATORS.names()) - set(EXACT)))
def test_weights_and_copies_give_nearly_the_same_curve(name: str) -> None:
    """The other fits have a prior or a smoothing, which counts effective rows: fewer than the copies."""
    one, two, _ = both(4000)
    curves = [CALIBRATORS.get(name)().fit_sample(sample).calibrate_of(GRID, None) for sample in (one, two)]
    plain = CALIBRATORS.get(name)().fit_sample(synthetic_sample(one.scores[:200], one.scores[200:], ALPHA))
    middle = GRID < 2.5  # above, few negatives are left, and the number of rows matters
    off, ignored = (np.abs(curve - curves[1])[middle].mean() for curve in (curves[0], plain.calibrate_of(GRID, None)))
    if name in ("uncalibrated", "base_rate"):
        assert off < 1e-9
    else:
        assert off < (0.8 if name == "bbq" else 0.4) * ignored  # the bins of bbq depend on the number of rows


@pytest.mark.parametrize("name", CALIBRATORS.names())
def test_counts_of_1_change_nothing(name: str) -> None:
    one, other = with_counts(1.0)
    np.testing.assert_array_equal(one.weights, other.weights)
    q = [CALIBRATORS.get(name)().fit_sample(sample).calibrate_of(GRID, np.full(81, 1)) for sample in (one, other)]
    if name == "venn_abers":  # counts in finer steps
        np.testing.assert_allclose(*q, atol=1e-3)
    else:
        np.testing.assert_array_equal(*q)
    assert Support.fit(one, True).to_json() == Support.fit(other, True).to_json()
    assert score_audit(one)["effective_sample_size"] == score_audit(other)["effective_sample_size"]
    assert bounds(one) == bounds(other)


def test_the_scale_of_counts_does_not_matter() -> None:
    one, two = with_counts(1.0)[1], with_counts(7.0)[1]
    np.testing.assert_allclose(one.weights, two.weights, rtol=1e-12)
    assert one.sizes == two.sizes == (600, 200)


def test_copies_are_no_further_evidence() -> None:
    one, two, _ = both()
    assert one.sizes[0] < 600 < two.sizes[0]
    assert label_sizes(one.labels, one.counts)[1] == 200
    low, high = bounds(one)
    assert bounds(two)[0] == pytest.approx(low)
    assert high < bounds(two)[1]


def test_relations_are_balanced_by_the_sums_of_counts() -> None:
    labels, relations = np.r_[np.ones(4), np.zeros(5)], np.array([0, 0, 1, 1, 0, 0, 0, 1, 1])
    counts = np.r_[np.ones(4), 1, 1, 1, 1, 2]  # three for each relation
    weights = base_rate_weights(labels, 0.25, relations, counts)
    np.testing.assert_allclose(weights[4:] / weights[4], [1, 1, 1, 1, 2])
    np.testing.assert_allclose(weights[:4], weights[0])
    assert weights[labels == 1].sum() / weights.sum() == pytest.approx(0.25)


def test_the_overlap_counts_copies() -> None:
    one, two, _ = both()
    assert score_audit(one)["overlap"] == pytest.approx(score_audit(two)["overlap"])
    assert score_audit(replace(one, counts=None))["overlap"] != pytest.approx(score_audit(two)["overlap"], abs=1e-4)


def test_high_negatives_count_copies() -> None:
    one, two, _ = both(4000)
    made = CALIBRATORS.get("isotonic")().fit_sample(two)
    bound = bound_to("isotonic", "synthetic", ALPHA, "model", "graph", made, support=Support.fit(two, False))
    figures = [thin_figures(bound.at(0.5), sample) for sample in (one, two)]
    assert figures[0][f"{POSITIVES}.isotonic"] == figures[1][f"{POSITIVES}.isotonic"]
    counted, copied = (own[f"{NEGATIVES}.isotonic"] for own in figures)
    assert counted == pytest.approx(copied * 4000 / (two.labels == 0).sum(), abs=1)
    assert counted > 20


def test_drift_tests_see_the_same_normal_scores_and_offsets() -> None:
    one, two, _ = both()
    cells = [cells_of(GRID, normal_scores(s.scores, s.labels, s.counts), 512) for s in (one, two)]
    np.testing.assert_array_equal(*cells)
    rng = np.random.default_rng(0)
    new = NewTriples(rng.normal(size=50), rng.integers(0, 2, 50).astype(float))
    made = [TwoSamples.of(sample, ALPHA, new).fit(shift=True).values[-1] for sample in (one, two)]
    assert made[0] == pytest.approx(made[1], abs=0.1)


def test_an_even_sample_has_the_distribution_of_the_copies() -> None:
    """Conformal p-values and the evidence of an explanation are computed from it."""
    one, two, _ = both(20_000)
    even = even_sample(one, np.random.default_rng(0))
    new = np.linspace(-1, 3, 9)
    p = [conformal_p_values(new, sample.scores[sample.labels == 0]) for sample in (even, two)]
    np.testing.assert_allclose(*p, atol=0.015)
    found = [evidence_of(sample, 1, 1.5, ALPHA) for sample in (even, two)]
    below = [one.negatives_below / one.negatives for one in found]
    assert below[0] == pytest.approx(below[1], abs=0.015)
    assert found[0].similar.low < found[1].similar.share < found[0].similar.high


def test_cross_fitting_and_pools_use_the_weights() -> None:
    one, two, place = both()
    fold = draw_folds(np.arange(800), one.labels, 3, np.random.default_rng(0))
    q = cross_fitted(CALIBRATORS.get("isotonic"), one, fold)
    np.testing.assert_allclose(q[place], cross_fitted(CALIBRATORS.get("isotonic"), two, fold[place]), rtol=1e-6)
    q = np.stack([q.clip(0.01, 0.9), cross_fitted(CALIBRATORS.get("beta"), one, fold)], axis=1)
    for name in POOLS.names():
        pools = [POOLS.get(name).fit(q[rows], s.labels, s.weights) for s, rows in ((one, slice(None)), (two, place))]
        np.testing.assert_allclose(pools[0].log_odds(q), pools[1].log_odds(q), rtol=1e-4, atol=1e-4)


def test_limits_hold_the_share_that_copies_show() -> None:
    """A band of weighted rows is wider than that of as many drawn rows, and about the same in the middle."""
    one, two, _ = both(4000)
    low, high = Band.fit(one).limits(GRID)
    q = CALIBRATORS.get("smoothed_isotonic")().fit_sample(two).calibrate(GRID)
    assert ((low <= q) & (q <= high)).mean() > 0.95
    further = Band.fit(two).limits(GRID)
    assert (high - low).mean() > (further[1] - further[0]).mean()
    assert one.effective_weights[one.labels == 0].sum() < 4000


def table(weights: np.ndarray | None) -> ScoreTable:
    return ScoreTable(
        triples=np.array([[0, 0, 1], [1, 0, 2], [0, 0, 3], [1, 0, 3], [1, 0, 1]]),
        labels=np.array([1.0, 1, 0, 0, 0]),
        scores=np.arange(5.0),
        split=np.repeat("valid", 5),
        origin=np.array([LABELLED, LABELLED, CORRUPTION, CORRUPTION, CORRUPTION]),
        model="m",
        dataset="d",
        weights=weights,
    )


def test_tables_keep_their_weights_and_hand_them_to_the_sample(tmp_path: Path) -> None:
    weights = np.array([1, 1, 0.5, 1, 1.5])
    for own in (table(weights), table(None)):
        write_scores(tmp_path / "scores.parquet", own)
        again = read_scores(tmp_path / "scores.parquet")
        np.testing.assert_equal(again.weights, own.weights)
        sample = calibration_bases(again, CalibrateConfig(base_rate=0.2))["synthetic"].sample
        assert sample.base_rate == pytest.approx(0.2)
        np.testing.assert_allclose(
            sample.weights[2:] / sample.weights[3], (1, 1, 1) if own.weights is None else (0.5, 1, 1.5)
        )
    unweighted = calibration_bases(table(weights), CalibrateConfig(weighted=False))["synthetic"].sample
    np.testing.assert_allclose(unweighted.weights, weights)
    with pytest.raises(MismatchError, match="other rows"):
        check_same_rows([table(weights), replace(table(None), model="n")])


def test_stored_corruptions_keep_their_weights(tmp_path: Path) -> None:
    triples, source = table(None).triples, np.array([0, 0, 1, 1, 1])
    made = {"valid": Corruptions(triples, source, 1, weights=np.array([0.5, 1, 1, 1, 1.5]))}
    made["test"] = Corruptions(triples[:2], source[:2], 0, 3, 4)
    write_corruptions(tmp_path / "made.parquet", made)
    again = read_corruptions(tmp_path / "made.parquet")
    np.testing.assert_array_equal(again["valid"].weights, made["valid"].weights)
    assert again["test"].weights is None
    assert (again["test"].fallbacks, again["test"].redrawn) == (3, 4)
