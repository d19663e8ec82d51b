"""The model card: what it says about data, base rate, results, limits and use, and how long it may be."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.base_rate import ASSUMED, ESTIMATED, STATED, BaseRate, HiddenShare
from kgcore.calibrate.calibrated import Calibrated, CorruptionSettings
from kgcore.calibrate.sample import synthetic_sample
from kgcore.calibrate.support import Support
from kgcore.config import PrepareConfig
from kgcore.measure.report.card import LONGEST, ModelCard
from kgcore.measure.report.race import Race, RaceRow
from kgcore.measure.report.result import Brief
from kgcore.measure.report.results import MetricsRow, Results
from kgcore.measure.report.summary import Summary
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from kgcore.mixture.matched import Matched
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import bound_to
from tests.core.mixtures import normal_mixture


def bound(base_rate: float = 0.2, negatives: str = "synthetic") -> Calibrated:
    """Return Platt scaling fitted on 30 true triples of predicate 0 and 3 of predicate 1, and 3 false for each."""
    rng = np.random.default_rng(0)
    true, predicates = rng.normal(1, 1, 33), np.repeat([0, 1], [30, 3])
    sample = synthetic_sample(true, rng.normal(0, 1, 99), base_rate, predicates=(predicates, np.repeat(predicates, 3)))
    fitted, drawn = (
        CALIBRATORS.get("platt")().fit_sample(sample),
        CorruptionSettings({"typed": 0.9, "uniform": 0.1}, "both", True),
    )
    corruptions = drawn if negatives == "synthetic" else None
    support = Support.fit(sample, False)
    return bound_to("platt", negatives, base_rate, "m", "d", fitted, corruptions=corruptions, support=support)


def card(calibrator: Calibrated) -> ModelCard:
    metrics = {"brier": 0.1234, "ece": 0.02, "auroc": 0.9}
    row = MetricsRow(calibrator.negatives, "platt", metrics, {"brier": (0.1, 0.15)})
    counts = {"entities": 1234, "predicates": 2, "train_positives": 5000, "valid_positives": 33, "test_positives": 40}
    return ModelCard(
        uri="models:/kgcal-mine/3",
        dataset="mine",
        digest="abc",
        counts=counts,
        predicates=["treats", "causes"],
        settings={"evaluate": {"bootstrap_level": 0.9}},
        trainings=[{"model": "transe", "k": 8, "loss": "nll", "seed": 7}],
        label=calibrator.label,
        calibrator=calibrator,
        summary=Summary(results=Results((row,)), accuracy_per_relation={}, ranks={}, notes=("Measured on it.",)),
        runs={"prepare": "p1", "evaluate": "e1"},
    )


def test_the_card_says_what_the_model_was_made_from() -> None:
    text = card(bound()).markdown()
    assert text.startswith("# mine: transe, synthetic.platt\n")
    assert "1,234 entities, 2 predicates. Triples: train 5,000 true and 0 false, valid 33 true and 0 false" in text
    assert "transe: k 8, loss nll, seed 7" in text
    assert (
        "platt, fitted on 33 true validation triples and 99 corruptions of them (typed=0.9,uniform=0.1; side replaced: "
        "both; without known facts)." in text
    )
    assert "Runs: prepare `p1`, evaluate `e1`" in text


def test_the_card_says_which_race_chose_the_model() -> None:
    rows = [
        RaceRow(name, state, 9, ((1, first), (9, first - 0.1)), 1.0, {"k": 8}, name == "default")
        for name, state, first in (("complex", "chosen", 0.2), ("default", "out", 0.25))
    ]
    text = replace(card(bound()), race=Race("brier", tuple(rows))).markdown()
    assert "Of 2 configurations, `complex` was chosen: Brier score 0.1000 on validation after 9 of 9 epochs." in text
    assert "that of the preset `default` 0.1500: better by 0.0500." in text
    assert "| default |" not in text  # the choose run has the table: the card has 5,000 characters
    assert "configurations" not in card(bound()).markdown()


def test_the_card_says_how_the_graph_was_made_and_nothing_that_was_not_done() -> None:
    one, recorded = card(bound()), PrepareConfig(dataset="mine").as_dict()

    def data(name: str, **counts: int) -> str:
        settings = {"prepare": recorded | {"dataset": name}}
        return (
            replace(one, settings=settings, counts={**one.counts, **counts})
            .markdown()
            .split("`abc`.")[1]
            .split("\n")[0]
        )

    assert data("family") == " Generated: size 2000, graph_seed 0."
    assert data("wn11") == ""
    assert data("mine") == " Files: columns auto, confidence none."
    assert data("mine", drawn_from_rows=90) == (
        " Files: columns auto, confidence none. Valid and test are drawn: split random, valid_share 0.1, test_share "
        "0.1, split_seed 0."
    )


def test_results_have_their_intervals() -> None:
    text = card(bound()).markdown()
    assert "Measured on it." in text
    assert "| metric | value | 90% interval |" in text
    assert "| Brier score | 0.1234 | 0.1000 to 0.1500 |" in text
    assert "| AUROC | 0.9000 |  |" in text
    assert "| ECE | 0.0200 |  |" in text  # an interval of the ECE would not cover
    assert "log loss" not in text


@pytest.mark.parametrize(
    ("calibrator", "words"),
    [
        (replace(bound(0.2), rate=BaseRate(0.2, origin=STATED)), "0.2, **stated**."),
        (bound(0.5), "0.5, **assumed**: it is the default. State the share of true triples among your candidates."),
        (replace(bound(0.5), rate=BaseRate(0.5, origin=STATED)), "0.5, **stated**."),
        (
            replace(bound(0.5), rate=BaseRate(0.5, origin=ASSUMED)),
            "0.5, **assumed**: it is the default. State the share of true",
        ),
        (replace(bound(0.1), rate=BaseRate(0.1, origin=ESTIMATED)), "0.1, **estimated**."),
        (bound(0.25, "ground_truth"), "0.25, **estimated**: the share of true triples among the labelled validation"),
        (bound(0.5).at(0.1), "0.1, **stated**. The probabilities are shifted to it; the fit was at 0.5."),
        (bound(0.25, "ground_truth").at(0.5), "0.5, **stated**. The probabilities are shifted to it; the fit was at"),
    ],
)
def test_the_card_says_where_the_base_rate_comes_from(calibrator: Calibrated, words: str) -> None:
    assert f"Base rate: {words}" in card(calibrator).markdown()


def test_predicates_with_little_data_are_limits() -> None:
    text = card(bound()).markdown()
    assert "1 of 2 predicates have fewer than 5 calibration triples, true or false: `causes`." in text
    assert "`treats`" not in text
    assert "fewer than 5" not in card(replace(bound(), support=None)).markdown()


def test_the_commands_of_the_card_name_the_version() -> None:
    text = card(bound()).markdown()
    assert "kgcal predict candidates.tsv -o answers.parquet --model models:/kgcal-mine/3" in text
    assert "mlflow models serve --env-manager local -m models:/kgcal-mine/3" in text
    assert 'mlflow.pyfunc.load_model("models:/kgcal-mine/3").predict(frame, params={"base_rate": 0.1})' in text


def test_a_card_is_never_longer_than_mlflow_stores() -> None:
    long = replace(card(bound()), predicates=["p" * 2000] * 100, uri="models:/" + "n" * 500)
    assert len(long.markdown()) == LONGEST
    assert long.markdown().endswith("...\n")


def test_the_card_of_candidates_says_what_they_are() -> None:
    data = normal_mixture(3, candidates=200, positives=60, corruptions=300)
    options = MixtureOptions(0.2, replicates=20)
    fit = fit_mixture(data, options, np.random.default_rng(0))
    text = card(
        replace(bound(negatives="candidates"), mixture=Matched("mine.tsv", fit), rate=BaseRate(0.2, 0.1, 0.3))
    ).markdown()
    assert "platt, fitted to 200 candidates of mine.tsv. Their mistakes resemble corruptions: " in text
    assert "Base rate: 0.2 [0.1, 0.3], " in text
    assert "must resemble the false triples among its candidates." in text


def test_the_card_says_how_many_corruptions_are_estimated_to_be_true() -> None:
    text = card(replace(bound(), hidden=HiddenShare(0.34, 0.3, 0.38))).markdown()
    assert "34 % [30, 38] of the corruptions that the synthetic calibrators are fitted to are estimated to be" in text
    assert "estimated to be" not in card(replace(bound(), hidden=HiddenShare(0.0, 0.0, 0.0))).markdown()


def test_the_card_answers_first() -> None:
    """The verdict, the cautions, the examples, the commands; then the rest. A caution stands once."""
    one = card(bound())
    brief = Brief(
        "They can be trusted.", ({"subject": "a", "probability": "0.9"},), {"kgcal promote": "puts it in use"}
    )
    summary = replace(one.summary, briefs={"synthetic.platt": brief}, notes=("Measured.", "Few."), cautions=("Few.",))
    text = replace(one, summary=summary).markdown()
    parts = (
        "**They can be trusted.**",
        "| a | 0.9 |",
        "\n\nFew.\n\n",
        "## Use",
        "kgcal predict",
        "## Data",
        "Measured.",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.count("Few.") == 1
    assert "kgcal promote" not in text  # the commands of a version are those of its use
    long = replace(brief, examples=[{"subject": "a" * 400}] * 10)
    text = replace(one, summary=replace(summary, briefs={"synthetic.platt": long})).markdown()
    assert text.endswith("Runs: prepare `p1`, evaluate `e1`\n")
    assert "aaa" not in text
    assert "**They can be trusted.**" in text
