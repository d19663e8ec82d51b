"""Few labelled false triples: corruptions answer and combine until there are enough, and say why."""

from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import kgcore as kg
from kgcore.answer.measured import MeasuredModel
from kgcore.calibrate.fit import GROUND_TRUTH, SYNTHETIC, calibration_bases, fit_calibrators
from kgcore.calibrate.sample import shift
from kgcore.calibrate.validation import (
    FIGURE,
    RIVAL,
    answering_kinds,
    answering_label,
    answering_notes,
    few_labels_note,
    held_out,
)
from kgcore.combiners.fit import Material, fit_evidence
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.models.trained import TrainedModel
from kgcore.scores.table import LABELLED, score_table


@cache
def trained() -> tuple[KnowledgeGraph, TrainedModel]:
    with TemporaryDirectory() as folder:
        graph = kg.read("family", size=300, folder=folder, progress=False)
    return graph, kg.train(graph, "transe", k=16, epochs=20, progress=False)


def with_negatives(number: int) -> KnowledgeGraph:
    """Return the graph with so many of the triples of valid that are labelled false, and a base rate of .2 of them."""
    graph, valid = trained()[0], trained()[0].valid
    false = np.random.default_rng(0).permutation(np.flatnonzero(valid.labels == 0))[:number]
    rows = np.sort(np.concatenate([np.flatnonzero(valid.labels == 1), false]))
    return replace(graph, valid=valid.part(rows), labelled_base_rate=0.2)


def calibrated(number: int, *calibrators: str) -> MeasuredModel:
    graph = with_negatives(number)
    return kg.calibrate(trained()[1], graph, calibrators=calibrators, calibration_eta=5, progress=False)


def test_a_handful_of_labels_does_not_answer_and_many_do() -> None:
    """Between them, the one that answers is the better one on test, at the base rate of the labels."""
    few, many = calibrated(4, "platt", "per_relation"), calibrated(621, "platt", "per_relation")
    assert few.label.startswith("synthetic.")
    assert many.label.startswith("ground_truth.")
    scores = few.evaluate(bootstrap_replicates=50).brier
    assert scores[few.label] < scores[[label for label in few.labels if label.startswith("ground_truth.")]].min()


def test_combiners_are_fitted_to_corruptions_until_enough_triples_are_labelled_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kgcore.config.calibrate.FEWEST", 100)
    labels = ["platt", "boosted_trees"]
    assert {"synthetic.boosted_trees", "ground_truth.platt"} <= set(calibrated(20, *labels).labels)
    assert "ground_truth.boosted_trees" not in calibrated(99, *labels).labels
    assert "ground_truth.boosted_trees" in calibrated(100, *labels).labels


def test_the_figure_of_corruptions_on_labels_is_a_brier_score() -> None:
    """A second formula: cross-fitted probabilities of the positives, and those of the labelled negatives, at .2."""
    graph, model = with_negatives(30), trained()[1]
    config, rng = CalibrateConfig(calibrators=("platt", "beta"), base_rate=0.1), np.random.default_rng(0)
    made = corrupt_held_out(graph, 5, Mixture(graph, {"typed": 1.0}), rng, "both", True)
    table = score_table(graph, made, model)
    bases = calibration_bases(table, config, CorruptConfig())
    material = Material(table, config, bases, made["valid"].source)
    fitted = fit_calibrators(table, config, bases)
    audits = fit_evidence(material, fitted).audits
    groups, sample = material.groups()[SYNTHETIC], bases[SYNTHETIC].sample
    synthetic = [(bound, sample) for bound in fitted if bound.negatives == SYNTHETIC]
    _, probabilities = held_out(synthetic, groups, config.combine_folds, np.random.default_rng(config.combine_seed))
    for bound, _ in synthetic:
        true = shift(probabilities[bound.name][sample.labels == 1], 0.1, 0.2)
        scores = table.scores[table.rows("valid", LABELLED, 0)]
        false = bound.at(0.2).predict(scores, model.fingerprint(), table.triples[table.rows("valid", LABELLED, 0), 1])
        expected = 0.2 * ((1 - true) ** 2).mean() + 0.8 * (false**2).mean()
        assert audits[GROUND_TRUTH][RIVAL + bound.name] == pytest.approx(expected, rel=1e-6)


def audits_of(own: dict[str, float], without: dict[str, float]) -> dict[str, dict[str, float]]:
    """Return audits with Brier scores on labelled triples: `own` fitted to them, `without` fitted to corruptions."""
    labelled = {FIGURE + name: value for name, value in own.items()}
    labelled |= {RIVAL + name: value for name, value in without.items()}
    return {GROUND_TRUTH: labelled, SYNTHETIC: {FIGURE + "beta": 0.1, FIGURE + "platt": 0.2}}


def test_the_calibrator_that_would_answer_without_labels_is_compared_with_the_best_of_labels() -> None:
    fitted = calibrated(30, "platt", "beta").fitted
    for own, without, kind in (
        ({"platt": 0.12, "beta": 0.11}, {"beta": 0.10, "platt": 0.3}, SYNTHETIC),
        ({"platt": 0.12, "beta": 0.11}, {"beta": 0.115, "platt": 0.05}, GROUND_TRUTH),  # platt would not answer
        ({}, {"beta": 0.2}, SYNTHETIC),
        ({"platt": 0.12}, {}, GROUND_TRUTH),
    ):
        audits = audits_of(own, without)
        assert answering_label(fitted, audits).startswith(f"{kind}.")
        assert (few_labels_note(audits) != "") == (kind == SYNTHETIC)
        assert answering_kinds(audits)[-1] != kind
    note = few_labels_note(audits_of({"platt": 0.12}, {"beta": 0.1}))
    assert note.endswith(
        "fitted to them is 0.1200, and that of the one that is fitted to corruptions 0.1000. So this one answers."
    )
    assert answering_notes(audits_of({"platt": 0.12}, {"beta": 0.1}))[0] == note
    assert answering_kinds({SYNTHETIC: {FIGURE + "beta": 0.1}})[0] == GROUND_TRUTH
