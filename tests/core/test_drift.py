"""Drift: the stability index, and checks of a calibrated model: level, power and sentences, by simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, norm

from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Estimate
from kgcore.wings.monitoring.drift import (
    LABEL,
    NONE,
    REFIT,
    SCORES_SHARE,
    SHIFT,
    Check,
    DriftEvidence,
    DriftReference,
    check,
    corrected,
    find_evidence,
    report,
    stability,
)
from kgcore.wings.monitoring.moves import moves
from kgcore.wings.monitoring.two_samples import NewTriples
from tests.core.monitoring_samples import drawn, ground_truth, synthetic
from tests.docs.scripts import script

CONFIG = WatchConfig()


def origin_of(rng: np.random.Generator, sample: CalibrationSample, base_rate: float = 0.5) -> DriftReference:
    """Return the origin of a calibrator that was fitted on the sample and measured on 1,000 test triples."""
    return DriftReference(sample, base_rate, False, drawn(rng, 1000)[0], np.ones(1000))


def checked(rng: np.random.Generator, scores: np.ndarray, labels: np.ndarray, number: int = 1) -> Check:
    """Fit isotonic regression on 1,000 triples, and check it on new ones."""
    sample = ground_truth(rng, 1000)
    q = Isotonic().fit_sample(sample).calibrate(scores)
    return check(q, NewTriples(scores, labels), origin_of(rng, sample), CONFIG, number)


def test_the_stability_index_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.wings.monitoring.drift.BINS", 2)
    reference, scores = np.arange(100.0), np.arange(50.0, 100.0)
    index, p = stability(reference, scores)  # the bin edge is 49: the counts are 50 and 50, against 0 and 50
    e, a = np.array([50.5, 50.5]) / 101, np.array([0.5, 50.5]) / 51
    assert index == pytest.approx(((a - e) * np.log(a / e)).sum())
    assert p < 1e-9
    assert stability(reference, reference)[0] == pytest.approx(0)


def test_p_of_the_stability_index_is_uniform_without_drift(rng: np.random.Generator) -> None:
    reference = rng.normal(size=3000)
    found = np.array([stability(reference, rng.normal(size=400))[1] for _ in range(300)])
    for level in (0.05, 0.5):
        assert abs((found < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 300)


def test_the_stability_index_uses_the_weights_of_the_reference(rng: np.random.Generator) -> None:
    positives, negatives = rng.normal(2, 1, 500), rng.normal(-2, 1, 500)
    reference = np.r_[positives, negatives]
    weights = np.r_[np.full(500, 0.1), np.full(500, 0.9)]
    scores = np.r_[rng.normal(2, 1, 50), rng.normal(-2, 1, 450)]  # one triple in ten is positive
    assert stability(reference, scores, weights)[1] > 0.01
    assert stability(reference, scores)[1] < 1e-6


def test_empty_scores_have_no_stability_index() -> None:
    with pytest.raises(InputError, match="there are 3 reference scores and 0 new scores: a stability index needs both"):
        stability(np.arange(3.0), np.array([]))


def findings_of(evidence: DriftEvidence) -> bool:
    return bool(report(evidence, CONFIG).findings)


@pytest.mark.long
def test_many_checks_of_a_growing_file_find_nothing_without_drift() -> None:
    """20 checks at 50, 100, ... 1,000 labels, calibrated on 400: alpha is paid once, for all of them."""
    rng, repetitions, false = np.random.default_rng(4), 20, 0
    for _ in range(repetitions):
        sample = ground_truth(rng, 400)
        calibrator, origin, (scores, labels) = (
            Isotonic().fit_sample(sample),
            origin_of(rng, sample),
            drawn(rng, 1000),
        )
        q, found = calibrator.predict(scores), False
        for number, n in enumerate(range(50, 1001, 50), start=1):
            found = found or findings_of(find_evidence(q[:n], NewTriples(scores[:n], labels[:n]), origin, number))
        false += found
    assert false <= binom.ppf(0.99, repetitions, 0.015)


def test_a_shift_of_one_is_found_with_500_labels() -> None:
    rng, repetitions, found = np.random.default_rng(5), 100, 0
    for _ in range(repetitions):
        sample, (scores, labels) = ground_truth(rng, 1000), drawn(rng, 500, expit(1.0))
        q = Isotonic().fit_sample(sample).calibrate(scores)
        evidence = find_evidence(q, NewTriples(scores, labels), origin_of(rng, sample))
        found += report(evidence, CONFIG).answer == SHIFT
    assert found >= 90


def test_a_shift_that_the_labels_hardly_show_is_found_in_the_scores() -> None:
    rng, repetitions, found = np.random.default_rng(5), 100, 0
    for _ in range(repetitions):  # scores that separate true and false triples well
        labels = (rng.random(500) < expit(1.0)).astype(float)
        scores, test = rng.normal(4 * labels - 2), rng.normal(4 * (rng.random(1000) < 0.5) - 2)
        index, p = stability(test, scores)
        found += corrected(p, SCORES_SHARE, 1) < CONFIG.alpha and index > CONFIG.psi
    assert found >= 90


def test_the_test_of_the_base_rate_is_as_good_as_the_best_one() -> None:
    best, rng = script("best_drift"), np.random.default_rng(7)
    ours, theirs = np.empty(60), np.empty(60)
    for number in range(60):
        labels, later = ((rng.random(size) < share).astype(float) for size, share in ((400, 0.5), (500, expit(0.7))))
        sample = ground_truth_sample(rng.normal(2 * labels - 1), labels)
        new = NewTriples(rng.normal(2 * later - 1), later)
        ours[number] = moves(sample, sample.base_rate, new).shift_p
        root = best.signed_root("normal", sample, (new.scores, new.labels), sample.base_rate, 0.0)
        theirs[number] = 2 * norm.sf(abs(root))
    assert (theirs < 0.01).mean() > 0.5
    assert (ours < 0.01).mean() >= (theirs < 0.01).mean() - 0.05


def test_the_corrections_of_all_checks_and_tests_sum_to_alpha() -> None:
    """A raw p-value is found if it is below alpha * share / (k (k + 1))."""
    spent = [0.01 / corrected(1e-9, share, k) * 1e-9 for share in (0.4, 0.4, 0.2) for k in range(1, 5000)]
    assert sum(spent) == pytest.approx(0.01, rel=1e-3)
    assert corrected(0.3, 0.4, 1) == 1


def test_a_base_rate_that_moved_is_answered_by_a_shift(rng: np.random.Generator) -> None:
    found = checked(rng, *drawn(rng, 2000, 0.2))
    assert found.report.answer == SHIFT
    assert found.report.findings[0].startswith(
        "the base rate moved: since calibration, the log-odds have changed by -1."
    )
    rate = found.evidence.moved_base_rate
    assert rate.low < 0.2 < rate.high
    assert found.metrics()["moved_base_rate"] == rate.value
    assert found.metrics()["shift"] == pytest.approx(logit(0.2), abs=0.4)
    assert found.metrics()["brier_low"] < found.metrics()["brier"] < found.metrics()["brier_high"]


def test_an_interval_of_the_base_rate_makes_a_move_of_it_less_certain(rng: np.random.Generator) -> None:
    """With an interval of 0.2 to 0.42 for the base rate 0.3, new labels of which 40 % are true show no drift."""
    sample, (scores, labels) = synthetic(rng, 500, 8, 0.3), drawn(rng, 2000, 0.4)
    origin, q = origin_of(rng, sample, 0.3), Isotonic().fit_sample(sample).calibrate(scores)
    exact, uncertain = (
        find_evidence(q, NewTriples(scores, labels), replace(origin, limits=limits)) for limits in (None, (0.2, 0.42))
    )
    assert exact.shift_p < 0.01 < uncertain.shift_p
    assert uncertain.moved_base_rate.value == pytest.approx(exact.moved_base_rate.value, abs=1e-2)


def test_a_map_that_moved_is_answered_by_a_refit(rng: np.random.Generator) -> None:
    scores, _ = drawn(rng, 2000)
    found = checked(rng, scores, (rng.random(2000) < expit(0.6 * scores)).astype(float))
    assert found.report.answer == REFIT
    [finding] = found.report.findings
    assert finding.startswith("the map moved")
    assert found.evidence.misfit.low > 0


def test_scores_that_moved_are_found_although_the_labels_fit(rng: np.random.Generator) -> None:
    scores = rng.normal(1, 1, 800)
    found = checked(rng, scores, (rng.random(800) < expit(2 * scores)).astype(float))
    [finding] = found.report.findings
    assert "the scores have drifted" in finding
    assert found.report.notes == ("the labels show no change of the base rate or of the map",)
    assert found.report.answer == NONE
    assert found.metrics()["psi"] > 0.2


def test_no_drift_has_no_answer(rng: np.random.Generator) -> None:
    found = checked(rng, *drawn(rng, 800))
    assert (found.report.findings, found.report.notes, found.report.answer) == ((), (), NONE)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_of_one_class_are_named_and_never_refitted(rng: np.random.Generator, label: float) -> None:
    found = checked(rng, drawn(rng, 200)[0], np.full(200, label))
    [finding] = found.report.findings
    assert f"all 200 labels are {'true' if label else 'false'}" in finding
    assert "label a random sample" in finding
    assert found.report.answer == LABEL


def test_labels_of_one_class_that_are_expected_are_a_note(rng: np.random.Generator) -> None:
    sample, scores = ground_truth(rng, 1000), rng.normal(-3, 0.5, 60)
    q = Isotonic().fit_sample(sample).calibrate(scores)
    origin = replace(origin_of(rng, sample), test_scores=scores, test_weights=np.ones(60))
    found = check(q, NewTriples(scores, np.zeros(60)), origin, CONFIG)
    assert found.report.findings == ()
    assert found.report.answer == NONE
    assert found.report.notes[0].startswith("all 60 labels are false; the calibrator expects")


def evidence(**changed: object) -> DriftEvidence:
    none = Estimate(0.0, -0.1, 0.1)
    rate = Estimate(0.01, 0.008, 0.012)
    return replace(
        DriftEvidence(1000, 10, 10.0, 0.001, none, none, none, 0.01, rate, shift_p=1.0, map_p=1.0, psi=0.0, psi_p=1.0),
        **changed,  # type: ignore[arg-type]
    )


def test_a_small_move_is_no_finding_and_a_large_one_is_at_any_base_rate() -> None:
    small, large = Estimate(0.2, 0.1, 0.3), Estimate(1.0, 0.9, 1.1)
    assert report(evidence(shift=small, shift_p=1e-9), CONFIG).answer == NONE
    assert report(evidence(shift=large, shift_p=1e-9), CONFIG).answer == SHIFT
    assert report(evidence(shift=large, shift_p=0.02), CONFIG).answer == NONE
    assert report(evidence(misfit=small, map_p=1e-9), CONFIG).answer == NONE
    assert report(evidence(misfit=small, map_p=1e-9, ece=0.05), CONFIG).answer == REFIT
    assert report(evidence(shift=large, shift_p=1e-9, misfit=large, map_p=1e-3), CONFIG).answer == REFIT


def test_a_check_of_too_few_triples_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="20 new triples have labels and known names: at least 50 are needed"):
        checked(rng, *drawn(rng, 20))
