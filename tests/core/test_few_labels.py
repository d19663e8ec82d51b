"""Few labelled false triples: corruptions answer and combine until there are enough, and say why."""

from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

import kgcore as kg
from kgcore.answer.measured import MeasuredModel
from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.calibrate.fit import GROUND_TRUTH, SYNTHETIC, calibration_bases, fit_calibrators
from kgcore.calibrate.sample import shift
from kgcore.calibrate.support import Support
from kgcore.calibrate.validation import (
    FIGURE,
    RIVAL,
    RIVAL_ERROR,
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
    return graph, kg.train(graph, "transe", k=50, epochs=60, progress=False)


def with_negatives(number: int) -> KnowledgeGraph:
    """Return the graph with so many of the triples of valid that are labelled false, and a base rate of .2 of them."""
    graph, valid = trained()[0], trained()[0].valid
    false = np.random.default_rng(0).permutation(np.flatnonzero(valid.labels == 0))[:number]
    rows = np.sort(np.concatenate([np.flatnonzero(valid.labels == 1), false]))
    return replace(graph, valid=valid.part(rows), labelled_base_rate=BaseRate(0.2, origin=ESTIMATED))


def calibrated(number: int, *calibrators: str) -> MeasuredModel:
    graph = with_negatives(number)
    return kg.calibrate(trained()[1], graph, calibrators=calibrators, calibration_eta=5, progress=False)


@pytest.mark.long
def test_a_handful_of_labels_does_not_answer_and_many_do() -> None:
    """Between them, the one that answers is the better one on test, at the base rate of the labels."""
    few, many = calibrated(4, "platt", "per_relation"), calibrated(621, "platt", "per_relation")
    assert few.label.startswith("synthetic.")
    assert few.calibrated.knows_base_rate
    assert many.label.startswith("ground_truth.")
    scores = few.evaluate(bootstrap_replicates=50).brier
    assert scores[few.label] < scores[[label for label in few.labels if label.startswith("ground_truth.")]].min()


@pytest.mark.long
def test_combiners_are_fitted_to_corruptions_until_enough_triples_are_labelled_false(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kgcore.config.calibrate.FEWEST", 100)
    few, enough = ({b.label: b for b in calibrated(number, "platt", "boosted_trees").fitted} for number in (99, 100))
    assert few["ground_truth.boosted_trees"].combined is few["synthetic.boosted_trees"].combined is not None
    assert few["ground_truth.boosted_trees"].name == "per_relation"
    assert enough["ground_truth.boosted_trees"].combined is not None
    assert "synthetic.boosted_trees" not in enough


@pytest.mark.long
def test_a_combiner_of_corruptions_is_calibrated_to_log_odds_that_have_not_seen_the_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its base rate is that of the labels, and it separates labelled triples as the combiner does."""
    monkeypatch.setattr("kgcore.config.calibrate.FEWEST", 100)
    found = calibrated(60, "boosted_trees")["ground_truth.boosted_trees"].calibrated
    assert found.calibrator.base_rate == pytest.approx(0.2)
    triples, truth = found.graph.valid.triples, found.graph.valid.labels
    q = found.calibrator.predict(found.trained.score(triples), found.calibrator.model, triples[:, 1])
    mean = np.average(q, weights=np.where(truth == 1, 0.2 / (truth == 1).sum(), 0.8 / (truth == 0).sum()))
    assert mean == pytest.approx(0.2, abs=0.02)
    assert q[truth == 1].mean() > q[truth == 0].mean() + 0.3


@pytest.mark.long
def test_a_predicate_without_labelled_negatives_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its corruptions count for `at_least`. The interval of a combiner is that of all labelled triples."""
    monkeypatch.setattr("kgcore.config.calibrate.FEWEST", 100)
    found = calibrated(4, "per_relation", "boosted_trees")
    few = [found[f"ground_truth.{name}"] for name in ("boosted_trees", "per_relation")]
    graph = few[0].calibrated.graph
    false = graph.valid.triples[graph.valid.labels == 0, 1]
    facts = graph.valid.triples[graph.valid.labels == 1]
    without = np.setdiff1d(facts[:, 1], false)
    predicate = int(without[np.argmax([(facts[:, 1] == number).sum() for number in without])])
    names = np.array([*graph.entities]), np.array([*graph.predicates])
    s, _, o = facts[facts[:, 1] == predicate][0].tolist()
    asked = pd.DataFrame([[names[0][s], names[1][predicate], names[0][o]]], columns=["subject", "predicate", "object"])
    answers = [model.predict(asked).iloc[0] for model in few]
    assert pd.isna(answers[0].reason)
    support = few[0].calibrated.calibrator.support
    assert support is not None
    low, high = support.band.limits(np.array([answers[0].score]))
    assert (answers[0].low, answers[0].high) == (low[0], high[0])
    assert 0 < low[0] < answers[0].probability < 1
    assert pd.isna(answers[1].reason)
    assert (answers[1].low, answers[1].high) == (0, 1)  # the calibrator has a map for each predicate
    again = Support.from_json(support.to_json())
    assert again.fewest(np.array([predicate]))[0] == support.fewest(np.array([predicate]))[0] >= 5


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
    labelled = [(bound, bases[GROUND_TRUTH].sample) for bound in fitted if bound.negatives == GROUND_TRUTH]
    rng = np.random.default_rng(config.combine_seed)
    _, q_of_labels = held_out(labelled, material.groups()[GROUND_TRUTH], config.combine_folds, rng)
    for bound, _ in synthetic:
        true = shift(probabilities[bound.name][sample.labels == 1], 0.1, 0.2)
        scores = table.scores[table.rows("valid", LABELLED, 0)]
        false = bound.at(0.2).predict(scores, model.fingerprint(), table.triples[table.rows("valid", LABELLED, 0), 1])
        expected = 0.2 * ((1 - true) ** 2).mean() + 0.8 * (false**2).mean()
        assert audits[GROUND_TRUTH][RIVAL + bound.name] == pytest.approx(expected, rel=1e-6)
        own = {name: value for name, value in audits[GROUND_TRUTH].items() if name.startswith(FIGURE)}
        best = q_of_labels[min(own, key=own.get).removeprefix(FIGURE)]
        error = 0.8 * np.std(false**2 - best[bases[GROUND_TRUTH].sample.labels == 0] ** 2) / np.sqrt(30)
        assert audits[GROUND_TRUTH][RIVAL_ERROR + bound.name] == pytest.approx(error, rel=1e-6)


def audits_of(own: dict[str, float], without: dict[str, float], error: float = 0.0) -> dict[str, dict[str, float]]:
    """Return audits with Brier scores on labelled triples: `own` fitted to them, `without` fitted to corruptions."""
    labelled = {FIGURE + name: value for name, value in own.items()}
    labelled |= {RIVAL + name: value for name, value in without.items()}
    labelled |= {RIVAL_ERROR + name: error for name in without}
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
    assert answering_kinds(audits_of({"beta": 0.1}, {"beta": 0.12}, error=0.019))[0] == GROUND_TRUTH
    within = audits_of({"beta": 0.1}, {"beta": 0.12}, error=0.021)
    note = few_labels_note(within)
    assert note.endswith(
        "is fitted to corruptions is 0.1200, and that of the best one that is fitted to them 0.1000 (standard error of "
        "the difference: 0.0210). So no calibrator of labels answers."
    )
    assert answering_notes(within)[0] == note
    assert answering_kinds({SYNTHETIC: {FIGURE + "beta": 0.1}})[0] == GROUND_TRUTH
