"""What a reader needs first: the verdict with its interval, the example triples, the commands, and the page's order."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

from kgcore.base_rate import ASSUMED, ESTIMATED, BaseRate
from kgcore.calibrate.calibrated import Calibrated
from kgcore.config import CalibrateConfig, ClassifyConfig, EvaluateConfig
from kgcore.measure.evaluation.evaluate import evaluate, miscalibrated
from kgcore.measure.evaluation.predictions import EXAMPLES, Predictions, classify
from kgcore.measure.report.page import page
from kgcore.measure.report.result import Brief
from kgcore.measure.report.results import Results
from kgcore.measure.report.summary import Summary, briefs
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import bound_to, fitted_to
from tests.core.dense_graphs import Dense, dense_graph
from tests.core.judged import AUDITS, FAST, predictions

CONFIG = CalibrateConfig(calibrators=("platt", "per_relation", "beta"), base_rate=0.1)
LABEL = "ground_truth.platt"


@pytest.fixture(scope="module")
def dense() -> Dense:
    return dense_graph(np.random.default_rng(1), predicates=6)


def bound(base_rate: float = 0.5, negatives: str = "ground_truth", origin: str = "stated") -> Calibrated:
    made = bound_to("platt", negatives, base_rate, "m", "d", CALIBRATORS.get("platt")())
    return replace(made, rate=BaseRate(base_rate, origin=origin))


def two_groups(high: float = 0.9, true: int = 36, rows: int = 40) -> Predictions:
    """Return rows of which half have the probability `high`, `true` of these are true, and half the mirror image."""
    labels = np.r_[np.arange(rows) < true, np.arange(rows) >= true].astype(float)
    return predictions({LABEL: np.repeat([high, 1 - high], rows)}, labels)


def verdict(judged: Predictions, one: Calibrated | None = None, label: str = LABEL) -> str:
    measured, bounds = evaluate(judged, FAST), {label: one or bound()}
    return briefs(bounds, judged, measured, miscalibrated(bounds, judged, measured))[label].verdict


def test_the_verdict_says_how_many_are_true_how_sure_that_is_and_what_it_is_about() -> None:
    """3,600 of 4,000 with the probability 0.9: Wilson's interval is 0.8903 to 0.9089."""
    assert verdict(two_groups(true=3600, rows=4000)) == (
        "The probabilities of platt can be trusted for triples like the labelled ones of validation, 50 % of them "
        "true: of the 4,000 test triples with a probability near 0.9, 90 % are true (95 % interval: 89 % to 91 %), and "
        "on average they are off by at most 0.01."
    )


def test_with_weights_the_share_is_that_of_triples_like_those_of_test() -> None:
    """Each false triple of test stands for a third of one: 36 of 40 become 36 of 37.3."""
    judged = two_groups()
    weighted = replace(judged, weights=np.where(judged.truth == 1, 1.0, 1 / 3))
    assert "of triples like the 40 test triples with a probability near 0.9, 96 % are true" in verdict(weighted)


def test_a_small_test_makes_nobody_sure() -> None:
    """36 of 40 with the probability 0.9: Wilson's interval is 0.769 to 0.960."""
    said = verdict(two_groups())
    assert said.startswith("The probabilities of platt look right for triples like the labelled ones of validation, ")
    assert "but this test is too small to be sure: of the 40 test triples with a probability near 0.9, 90 % are" in said
    assert "true (95 % interval: 77 % to 96 %), and on average they are off by at most 0." in said


def test_probabilities_that_the_gate_refuses_are_not_to_be_trusted() -> None:
    said = verdict(two_groups(true=600, rows=1000))
    assert said.startswith("The probabilities of platt cannot be trusted yet, for triples like the labelled ones")
    assert (
        "near 0.9, 60 % are true (95 % interval: 57 % to 63 %). The probabilities of ground truth.platt are not" in said
    )
    assert said.endswith("and 0.02 is the tolerance.")


def test_a_test_of_another_population_shows_nothing() -> None:
    said = verdict(two_groups(), bound(0.1))
    assert said.startswith(
        "This test cannot show whether the probabilities of platt can be trusted: 50 % of its triples are true, and "
        "they assume 10 %. Here, of the 40 test triples"
    )
    assert "its false triples are corruptions" in verdict(replace(two_groups(), synthetic_negatives=True))


@pytest.mark.parametrize(("high", "words"), [(0.97, "above 0.95"), (0.8, "near 0.8"), (0.62, "near 0.6")])
def test_without_enough_triples_near_nine_tenths_the_next_share_counts(high: float, words: str) -> None:
    assert f"of the 40 test triples with a probability {words}," in verdict(two_groups(high, round(40 * high)))


def test_a_few_triples_are_not_enough() -> None:
    assert "there are too few test triples to say" in verdict(two_groups(true=9, rows=10))


def test_an_assumed_base_rate_is_called_so_and_asks_for_the_users_own() -> None:
    judged = replace(two_groups(), synthetic_negatives=True)
    judged.probabilities["synthetic.platt"] = judged.probabilities.pop(LABEL)
    bounds, measured = {"synthetic.platt": bound(negatives="synthetic", origin=ASSUMED)}, evaluate(judged, FAST)
    found = briefs(bounds, judged, measured, {}, dataset="my graph")["synthetic.platt"]
    assert "their corruptions, 50 % of them true (assumed), but this test is too small" in found.verdict
    assert list(found.steps) == [
        "kgcal predict candidates.tsv -o answers.tsv --dataset 'my graph' --base-rate 0.1",
        "kgcal discover --dataset 'my graph' --completeness 0.8",
        "kgcal recalibrate --dataset 'my graph' --labels labels.tsv",
    ]
    wrong = briefs(bounds, judged, measured, {"synthetic.platt": "It is wrong."}, dataset="d")["synthetic.platt"]
    assert next(iter(wrong.steps)) == "kgcal recalibrate --dataset d --labels labels.tsv"
    estimated = replace(bounds["synthetic.platt"], rate=BaseRate(0.346, 0.207, 0.5, ESTIMATED))
    steps = briefs({"synthetic.platt": estimated}, judged, measured, {}, dataset="d")["synthetic.platt"].steps
    predict = "kgcal predict candidates.tsv -o answers.tsv --dataset d --base-rate 0.21:0.5"
    assert steps[predict] == "the probabilities of your own triples, if 21 % to 50 % are true, as estimated"
    labelled = replace(judged, synthetic_negatives=False)
    assert "kgcal promote --dataset d" in briefs(bounds, labelled, measured, {}, dataset="d")["synthetic.platt"].steps


def test_a_stated_base_rate_that_the_labels_do_not_have_is_said_and_in_the_command() -> None:
    judged = two_groups()
    judged.probabilities["synthetic.platt"] = judged.probabilities[LABEL]
    bounds = {LABEL: bound(origin=ESTIMATED), "synthetic.platt": bound(0.1, "synthetic")}
    found = briefs(bounds, judged, evaluate(judged, FAST), {}, dataset="d")
    told = "They are at the base rate of the labels: for the stated one, 0.1, state it again when you ask."
    assert found[LABEL].verdict.endswith(told)
    predict = "kgcal predict candidates.tsv -o answers.tsv --dataset d --base-rate 0.1"
    assert found[LABEL].steps[predict] == "the probabilities of your own triples, if 10 % are true, as stated"
    assert told not in found["synthetic.platt"].verdict
    same = {LABEL: bounds[LABEL], "synthetic.platt": bound(0.5, "synthetic")}
    [said, *_] = briefs(same, judged, evaluate(judged, FAST), {}, dataset="d").values()
    assert (told not in said.verdict, next(iter(said.steps)).endswith("--dataset d")) == (True, True)


def test_examples_go_from_the_surest_to_half_of_it_with_intervals_and_truth(dense: Dense) -> None:
    table = dense.table({"typed": 1.0}, 0)
    fitted = fitted_to(table, CONFIG)
    of = table, fitted, len(dense.graph.predicates), CONFIG.base_rate, ClassifyConfig()
    judged = classify(*of, rng=np.random.default_rng(0))
    assert classify(*of).examples == {}
    assert set(judged.examples) == {one.label for one in fitted if one.negatives != "none"}
    for label, rows in judged.examples.items():
        q = judged.probabilities[label][[example.row for example in rows]]
        assert len({example.row for example in rows}) == EXAMPLES
        assert (np.diff(q) <= 0).all()
        assert q[0] >= judged.probabilities[label].max() * 0.94
        assert all(example.low <= p <= example.high for example, p in zip(rows, q, strict=True))
    bounds, measured = {one.label: one for one in fitted if one.support}, evaluate(judged, FAST)
    for label, brief in briefs(bounds, judged, measured, {}, graph=dense.graph).items():
        assert len(brief.examples) == EXAMPLES
        row, shown = judged.examples[label][0].row, brief.examples[0]
        names = dense.graph.names_of(judged.triples[[row]]).iloc[0]
        assert [shown[name] for name in ("subject", "predicate", "object")] == names.tolist()
        assert shown["truth"] == ("true" if judged.labels[row] else "corruption")
        assert Brief(**json.loads(json.dumps(asdict(brief)))) == brief


def test_of_equally_probable_triples_a_random_one_is_shown_by_weight(dense: Dense) -> None:
    """One row in ten is true, by weight. The first row, or one drawn without weights, would be true more often."""
    table = dense.table({"typed": 1.0}, 0)
    fitted = [one for one in fitted_to(table, CONFIG) if one.label == "synthetic.platt"]
    flat, true = replace(table, scores=np.zeros(len(table))), []
    for seed in range(60):
        judged = classify(
            flat, fitted, len(dense.graph.predicates), 0.1, ClassifyConfig(), None, np.random.default_rng(seed)
        )
        true += [judged.labels[example.row] for example in judged.examples["synthetic.platt"]]
    assert 0.05 < np.mean(true) < 0.15
    assert judged.labels.mean() < 0.05


def test_the_page_answers_first_and_folds_the_rest(rng: np.random.Generator) -> None:
    judged = two_groups(true=900, rows=1000)
    judged.probabilities["uncalibrated"] = judged.probabilities[LABEL] / 2
    measured = evaluate(judged, EvaluateConfig(bootstrap_replicates=50))
    example = {"subject": "<a>", "predicate": "likes", "object": "b", "probability": "0.9000"}
    brief = Brief(
        "They can be trusted.", ({**example, "95 % interval": "0.80 to 0.95", "truth": "true"},), {"kgcal x": "y"}
    )
    summary = Summary(
        results=Results.of(measured),
        accuracy_per_relation={"learned": 0.5, "median": 0.5},
        ranks={"mr": 1.0},
        notes=("Measured on it.", "Few labels."),
        answers=LABEL,
        briefs={LABEL: brief},
        cautions=("Few labels.",),
    )
    curves = {label: found.reliability for label, found in measured.items()}
    html = page("title", summary, AUDITS, {}, {}, {}, {}, curves=curves)
    first, *folded = html.split("<details>")
    parts = ("They can be trusted.", "Few labels.", "<svg", "&lt;a&gt;", "0.80 to 0.95", "<code>kgcal x</code>")
    places = [first.index(part) for part in parts]
    assert places == sorted(places)
    assert first.count("<title>probability") == 4  # two bins before, two after
    assert "Measured on it." in folded[0]
    assert html.count("Few labels.") == 1
    table = next(part for part in folded if "Probabilities on the test split" in part)
    assert re.findall("<tr><td>(.*?)</td><td>(.*?)</td>", table) == [
        ("ground truth", "platt"),
        ("none", "uncalibrated"),
    ]
    assert "<details open" not in html
    assert "@media print { details::details-content { content-visibility: visible" in html
    assert html.count("<details>") == html.count("</details>")
