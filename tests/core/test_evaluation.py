"""The evaluation of calibrators: values, intervals compared with simulations, clusters, and undefined metrics."""

import math
from pathlib import Path

import numpy as np
import pytest

from kgcore.config import EvaluateConfig
from kgcore.errors import MismatchError
from kgcore.measure.evaluation import evaluate as module
from kgcore.measure.evaluation.evaluate import evaluate, kept_sources
from kgcore.measure.evaluation.groups import reliability_by_relation
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.base import estimate, resampled
from kgcore.measure.metrics.proper import brier, brier_parts, log_loss, log_loss_parts
from kgcore.measure.metrics.reliability import ece
from kgcore.storage.folders import read_measured, write_measured
from tests.core.judged import FAST, measure, predictions
from tests.core.samples import DISTORTIONS, calibrated, figure, pair_weights, tally_of


def test_evaluation_measures_the_metrics_of_kgcore_metrics(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 6000)  # more distinct probabilities than resamplings tell apart
    judged = (q, y, pair_weights(y, 0.2))
    metrics = measure(*judged).metrics
    expected = {
        "brier": brier(*judged),
        "log_loss": log_loss(*judged),
        "ece": ece(*judged),
        "accuracy": float(np.average((q > 0.5) == y, weights=judged[2])),
    }
    names = ("debiased_rmsce", "smooth_ece", "ece_equal_mass", "auroc", "average_precision", "sharpness")
    tally = tally_of(*judged)
    expected |= {name: figure(name)(*judged) for name in names}
    for name, parts in (("brier", brier_parts(tally)), ("log_loss", log_loss_parts(tally))):
        expected |= {f"{name}_{part}": value for part, value in vars(parts).items()}
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, abs=1e-9), name


def test_intervals_are_as_wide_as_new_samples_vary() -> None:
    """Compare half-widths with the standard deviation over fresh samples, for miscalibrated probabilities."""
    rng = np.random.default_rng(5)
    values, widths = [], []
    for _ in range(60):
        q, y = calibrated(rng, 1000)
        found = measure(DISTORTIONS["overconfident"](q), y)
        values.append(found.metrics)
        widths.append({name: (high - low) / 2 / 1.96 for name, (low, high) in found.intervals.items()})
    for name in widths[0]:
        if name.endswith("_uncertainty"):  # at equal shares it is maximal: no first-order variation
            continue
        spread = np.std([value[name] for value in values], ddof=1)
        assert np.mean([width[name] for width in widths]) == pytest.approx(spread, rel=0.35), name


def test_pooling_neighbours_does_not_change_an_interval(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, y = calibrated(rng, 5000)
    pooled = measure(q, y).intervals
    monkeypatch.setattr(module, "FINEST", 10_000)
    for name, (low, high) in measure(q, y).intervals.items():
        assert np.subtract(*pooled[name][::-1]) == pytest.approx(high - low, rel=0.02), name


def test_intervals_depend_on_the_seed_and_not_on_the_other_calibrators(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 300)
    both = evaluate(predictions({"a": q, "b": q**2}, y), FAST)
    assert both["a"].intervals == measure(q, y).intervals
    other = EvaluateConfig(bootstrap_replicates=50, bootstrap_seed=1)
    assert both["a"].intervals != measure(q, y, config=other).intervals


def test_a_higher_level_has_a_wider_interval_inside_the_range(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 200)
    usual, sure = (measure(q, y, config=EvaluateConfig(bootstrap_level=level)) for level in (0.95, 0.9999))
    for name, (low, high) in sure.intervals.items():
        assert 0 <= low <= usual.intervals[name][0] <= usual.metrics[name] <= usual.intervals[name][1] <= high
        assert high <= 1 or name.startswith("log_loss")


def test_corruptions_are_drawn_with_their_positive(rng: np.random.Generator) -> None:
    """Twenty equal corruptions of a positive hold as much information as one corruption."""
    positives = 100
    source = np.repeat(np.arange(positives), 20)
    shared = rng.random(positives) * 0.9
    q = np.r_[rng.random(positives) * 0.1 + 0.9, shared[source]]
    y = np.r_[np.ones(positives), np.zeros(len(source))]
    w = pair_weights(y, 0.5)
    config = EvaluateConfig()
    alone, together = measure(q, y, w, config), measure(q, y, w, config, source=source)
    assert alone.metrics == together.metrics
    pairs = measure(np.r_[q[:positives], shared], y[: 2 * positives], config=config, source=np.arange(positives))
    widths = [np.subtract(*found.intervals["brier"][::-1]) for found in (alone, together, pairs)]
    assert widths[1] > 1.5 * widths[0]
    assert widths[1] == pytest.approx(widths[2], rel=0.1)


def test_sources_that_do_not_fit_are_refused(rng: np.random.Generator) -> None:
    y = np.array([1.0, 0, 0])
    with pytest.raises(MismatchError, match="1 sources do not fit 2 negatives and 1 positives"):
        measure(np.full(3, 0.5), y, source=np.array([0]))
    with pytest.raises(MismatchError, match="2 sources do not fit 2 negatives and 1 positives"):
        measure(np.full(3, 0.5), y, source=np.array([0, 1]))


def test_a_metric_that_is_not_defined_is_left_out(tmp_path: Path) -> None:
    """Without negatives there is no ROC curve. With one negative, resamplings without this negative are left out."""
    q = np.array([0.2, 0.6, 0.7, 0.9])
    found = measure(q, np.ones(4))
    assert "auroc" not in found.metrics
    assert "auroc" not in found.intervals
    assert "average_precision" in found.metrics
    assert all(math.isfinite(value) for value in found.metrics.values())
    write_measured(tmp_path / "measured.json", {"a": found})
    assert "NaN" not in (tmp_path / "measured.json").read_text()
    few = measure(q, np.array([0.0, 1, 1, 1]))
    assert few.metrics["auroc"] == 1
    assert few.intervals["auroc"] == (1, 1)


def test_an_estimate_leaves_out_nan() -> None:
    assert estimate(1.0, [0.5, math.nan, 1.5]) == estimate(1.0, [0.5, 1.5])
    assert math.isnan(estimate(1.0, [0.5, math.nan]).low)


def test_a_resampling_draws_as_many_rows_or_clusters_as_there_are(rng: np.random.Generator) -> None:
    clusters = np.array([0, 1, 1, 2, 2, 2])
    for counts in resampled(6, rng, 20, clusters):
        assert counts[[0, 1, 3]].sum() == 3
        assert (counts == counts[[0, 1, 1, 3, 3, 3]]).all()
    drawn = np.array(list(resampled(50, rng, 2000)))
    assert (drawn.sum(axis=1) == 50).all()
    np.testing.assert_allclose(drawn.mean(axis=0), 1, atol=0.12)
    assert drawn.var() == pytest.approx(1, abs=0.05)


def test_measured_results_survive_json(tmp_path: Path, rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 100)
    found = measure(q, y)
    write_measured(tmp_path / "new.json", {"a": found})
    back = read_measured(tmp_path / "new.json")["a"]
    assert back.metrics == found.metrics
    assert back.intervals == found.intervals


def test_each_relation_is_measured_separately() -> None:
    triples = np.array([[0, 0, 1], [1, 0, 2], [2, 3, 0], [3, 3, 1], [4, 3, 2]])
    predictions = Predictions(
        triples=triples,
        labels=np.array([1.0, 0, 1, 1, 0]),
        weights=np.array([1.0, 3, 1, 1, 1]),
        scores=np.zeros(5),
        probabilities={"synthetic.platt": np.array([0.5, 0.1, 1, 1, 1])},
        accuracies={},
        accuracy_per_relation={},
        relations=[],
        synthetic_negatives=False,
    )
    first, second = reliability_by_relation(predictions)
    assert (first.predicate, first.triples, first.observed) == (0, 2, 0.25)
    assert first.calibrators["synthetic.platt"] == pytest.approx({"predicted": 0.2, "brier": 0.07})
    assert first.low < 0.25 < first.high
    assert (second.predicate, second.calibrators["synthetic.platt"]["predicted"]) == (3, 1)
    assert second.observed == pytest.approx(2 / 3)
    assert second.high < 1  # the calibrator is too confident, and the interval shows it


def test_sources_are_counted_without_the_positives_that_are_left_out() -> None:
    """Positives 1 and 3 are of a relation without corruptions. Positive 2 has none itself, but its relation has."""
    kept = kept_sources(np.array([0, 4, 4]), np.array([7, 8, 7, 8, 9]), np.array([7, 9, 9]))
    np.testing.assert_array_equal(kept, [0, 2, 2])


def test_groups_of_rows_vary_as_rows_do(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many rows, the bootstrap draws numbers of groups instead of rows."""
    q, y = calibrated(rng, 20_000)
    judged = predictions({"x": DISTORTIONS["overconfident"](q)}, y, pair_weights(y, 0.2))
    config = EvaluateConfig(bootstrap_replicates=300)
    [by_rows] = evaluate(judged, config).values()
    monkeypatch.setattr(module, "MOST_RESAMPLED", 1000)
    [by_groups] = evaluate(judged, config).values()
    assert by_groups.metrics == by_rows.metrics
    assert by_groups.intervals != by_rows.intervals
    for name, (low, high) in by_rows.intervals.items():
        found = by_groups.intervals[name]
        assert found[1] - found[0] == pytest.approx(high - low, rel=0.25), name
