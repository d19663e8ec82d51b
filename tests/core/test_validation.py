"""Which calibrator answers: the order by cross-fitted Brier scores, and calibration errors above the tolerance."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import calibration_bases
from kgcore.calibrate.sample import CalibrationSample
from kgcore.calibrate.validation import (
    FIGURE,
    FIT_ERROR,
    answering_label,
    answering_notes,
    answers_because,
    cautions,
    fit_errors,
    held_out,
    held_out_figures,
    in_order,
    row_groups,
)
from kgcore.config import CalibrateConfig, ClassifyConfig, EvaluateConfig
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.errors import MismatchError
from kgcore.measure.evaluation.evaluate import TOLERANCE, evaluate, miscalibrated
from kgcore.measure.evaluation.predictions import Predictions, classify
from kgcore.measure.metrics.proper import brier
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import ScoreTable, score_table
from tests.core.calibrator_samples import bound_to, fitted_to
from tests.core.dense_graphs import Dense, dense_graph

CONFIG = CalibrateConfig(calibrators=("platt", "per_relation", "beta"), base_rate=0.1)


@pytest.fixture(scope="module")
def dense() -> Dense:
    return dense_graph(np.random.default_rng(1), predicates=6)


def scored(dense: Dense) -> tuple[ScoreTable, np.ndarray]:
    """Return a score table, and the sources of its validation corruptions."""
    rng = np.random.default_rng(0)
    made = corrupt_held_out(dense.graph, 20, Mixture(dense.graph, {"typed": 1.0}), rng, "both", True)
    return score_table(dense.graph, made, dense.model), made["valid"].source


def labels(fitted: list[Calibrated]) -> list[str]:
    return [bound.label for bound in fitted]


def test_the_order_is_that_of_brier_scores_of_calibrators_that_have_not_seen_the_row(dense: Dense) -> None:
    """A second formula: each fold is predicted by a calibrator that was fitted to all rows outside it."""
    table, source = scored(dense)
    sample = calibration_bases(table, CONFIG)["synthetic"].sample
    groups = row_groups(table, source, CONFIG.weighted)["synthetic"]
    fitted = [bound for bound in fitted_to(table, CONFIG) if bound.negatives == "synthetic"]
    pairs = [(b, sample) for b in fitted]
    figures = held_out_figures(pairs, *held_out(pairs, groups, 5, np.random.default_rng(0)))
    assert figures.keys() == {f"{FIGURE}{name}" for name in CONFIG.calibrators}
    for number, name in enumerate(CONFIG.calibrators):
        q, parts = np.empty(len(groups)), np.random.default_rng(number).permutation(int(groups.max()) + 1)[groups] % 5
        for part in range(5):
            own = parts == part
            outside = CALIBRATORS.get(name)().fit_sample(sample.part(~own))
            q[own] = outside.calibrate_of(sample.scores[own], sample.predicates[own])
        assert figures[FIGURE + name] == pytest.approx(brier(q, sample.labels, sample.weights), rel=0.02)
    ordered = in_order(fitted, {"synthetic": figures})
    found = [figures[FIGURE + bound.name] for bound in ordered]
    assert found == sorted(found)
    assert sorted(labels(ordered)) == sorted(labels(fitted))


def test_a_positive_and_its_corruptions_are_one_group(dense: Dense) -> None:
    table, source = scored(dense)
    groups = row_groups(table, source, weighted=True)["synthetic"]
    positives = len(groups) - len(source)
    used = table.triples[table.rows("valid", "labelled")]
    corrupted = table.triples[table.corruptions()]
    assert groups[:positives].tolist() == list(range(positives))
    same = corrupted == used[groups[positives:]]
    assert (same.sum(axis=1) == 2).all()
    with pytest.raises(MismatchError, match="must come from one corrupt run"):
        row_groups(table, source[1:], weighted=True)


@pytest.mark.parametrize("cold", [0, 2])
def test_the_rows_of_a_cold_entity_are_one_group(cold: int, dense: Dense) -> None:
    table, source = scored(dense)
    groups = row_groups(table, source, weighted=True, cold=cold)
    positives = table.triples[table.rows("valid", "labelled")]
    assert groups["synthetic"].tolist() == [*positives[:, cold], *positives[source, cold]]
    assert groups["ground_truth"].tolist() == positives[:, cold].tolist()


def test_the_error_of_a_fit_is_that_of_whole_groups() -> None:
    """A positive and a negative share a score in each of 40 or 400 groups, whose scores say nothing.

    The slope of Platt scaling is then 0 but for noise: its error falls with the root of the number of groups, and
    hardly changes if each row is there ten times.
    """
    errors = []
    for number, copies in ((40, 1), (400, 1), (40, 10)):
        rng = np.random.default_rng(3)
        scores = rng.normal(size=2 * number)
        rows = np.tile(np.arange(2 * number), copies)
        labels = (rows % 2).astype(float)
        sample = CalibrationSample(scores[rows], labels, np.ones(len(rows)))
        fitted = CALIBRATORS.get("platt")().fit_sample(sample)
        bound = bound_to("platt", "synthetic", 0.5, "m", "d", fitted)
        figures = fit_errors([(bound, sample)], rows // 2, np.random.default_rng(0))
        errors.append(figures[FIT_ERROR + "platt"])
    assert errors[1] == pytest.approx(errors[0] / np.sqrt(10), rel=0.4)
    assert errors[2] == pytest.approx(errors[0], rel=0.1)


def test_a_sample_with_repeated_rows_keeps_its_base_rate(dense: Dense) -> None:
    table, _ = scored(dense)
    sample = calibration_bases(table, CONFIG)["synthetic"].sample
    times = np.random.default_rng(0).poisson(1.0, len(sample.scores))
    again = sample.repeated(times)
    assert again.base_rate == pytest.approx(sample.base_rate)
    own = again.labels == 1
    expected = (sample.weights * times)[(times > 0) & (sample.labels == 1)]
    np.testing.assert_allclose(again.weights[own] / again.weights[own].sum(), expected / expected.sum())


def test_each_kind_of_negatives_has_an_order_and_calibrators_without_a_figure_come_last(dense: Dense) -> None:
    table, _ = scored(dense)
    fitted = fitted_to(table, CONFIG)
    every = [*fitted, *(replace(b, negatives="ground_truth") for b in fitted if b.negatives == "synthetic")]
    figures = {"synthetic": {FIGURE + "beta": 0.1, FIGURE + "platt": 0.2}, "ground_truth": {FIGURE + "platt": 0.3}}
    assert labels(in_order(every, figures)) == [
        "uncalibrated",
        "base_rate",
        "ground_truth.platt",
        "ground_truth.per_relation",
        "ground_truth.beta",
        "synthetic.beta",
        "synthetic.platt",
        "synthetic.per_relation",
    ]
    assert answering_label(in_order(every, figures)) == "ground_truth.platt"
    assert answering_label(in_order(fitted, figures)) == "synthetic.beta"
    assert answering_label(fitted[:2]) == ""


def test_there_is_no_figure_without_two_groups_of_a_label(dense: Dense) -> None:
    table, source = scored(dense)
    sample = calibration_bases(table, CONFIG)["synthetic"].sample
    [bound, *_] = [b for b in fitted_to(table, CONFIG) if b.negatives == "synthetic"]
    groups = row_groups(table, source, CONFIG.weighted)["synthetic"]
    few = np.flatnonzero(groups == groups[0])
    mask = np.isin(np.arange(len(groups)), few)
    pairs = [(bound, sample.part(mask))]
    assert held_out_figures(pairs, *held_out(pairs, groups[mask], 5, np.random.default_rng(0))) == {}


def test_the_answer_says_why() -> None:
    figures = {FIGURE + "per_relation": 0.0406, FIGURE + "boosted_trees": 0.0191, FIGURE + "beta": 0.05}
    because = (
        "The calibrator boosted trees answers: the best of 3 on validation (Brier score 0.0191; next: per relation, "
        "0.0406)."
    )
    assert answers_because(figures) == because
    assert answers_because({FIGURE + "beta": 0.05}) == answers_because({}) == ""
    notes = answering_notes({"synthetic": {FIGURE + "beta": 0.2}, "ground_truth": figures})
    assert notes[0] == because
    assert len(notes) == 2
    uncertain = {FIT_ERROR + "boosted_trees": 0.052, FIT_ERROR + "beta": 0.1}
    assert len(answering_notes({"ground_truth": figures | {FIT_ERROR + "boosted_trees": 0.019}})) == 2
    [*_, said] = answering_notes({"ground_truth": figures | uncertain})
    assert said.startswith("The probabilities of boosted trees are off by about 0.05 because validation has so few")
    assert cautions({"ground_truth": figures | uncertain}, "ground_truth.boosted_trees") == [said]
    assert cautions({"ground_truth": figures | uncertain}, "ground_truth.per_relation") == []


def judged(dense: Dense, distort: float, base_rate: float, incomplete: bool = False) -> dict[str, str]:
    """Return what is said about calibrators whose probabilities are for a base rate that is `distort` too high."""
    table, _ = scored(dense)
    config = CONFIG.replace(base_rate=base_rate)
    fitted = [b for b in fitted_to(table, config) if b.negatives == "synthetic"]
    moved = [b.at(b.base_rate + distort) for b in fitted]
    predictions: Predictions = classify(table, moved, len(dense.graph.predicates), base_rate, ClassifyConfig())
    measured = evaluate(predictions, EvaluateConfig(bootstrap_replicates=50))
    return miscalibrated({b.label: b for b in moved}, predictions, measured, incomplete)


def test_an_error_that_is_significantly_above_the_tolerance_is_told_in_a_sentence(dense: Dense) -> None:
    assert "synthetic.per_relation" not in judged(dense, 0.0, 0.1)
    found = judged(dense, 0.049, 0.02)
    assert "synthetic.per_relation" in found
    text = found["synthetic.per_relation"]
    assert text.startswith("The probabilities of synthetic.per relation are not calibrated: their debiased RMSCE on ")
    assert text.endswith(f"and {TOLERANCE:g} is the tolerance.")


def test_a_calibrator_is_judged_on_its_own_test_alone(dense: Dense) -> None:
    """Not at another base rate, and not by corruptions if the graph is stated to be incomplete."""
    assert judged(dense, 0.3, 0.1) == {}
    assert judged(dense, 0.049, 0.02, incomplete=True) == {}
    assert judged(dense, 0.049, 0.02)
