"""Candidates that cannot be like the positives: by hand, and under the hypothesis that they are alike."""

from types import ModuleType

import numpy as np
import pytest
from scipy.special import expit

from kgcore.calibrate.validation import FIGURE, UNLIKE, answering_notes
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.mixture.goodness import unlike
from tests.docs.scripts import script


def test_the_share_and_the_cost_by_hand() -> None:
    """All positives have .9. Only a tenth of the candidates have, but alpha is .5: D = .5 - .1."""
    positives, candidates = np.full(10_000, 0.9), np.repeat([0.9, 0.2], [1_000, 9_000])
    share, cost = unlike(positives, candidates, 0.5)
    assert share == pytest.approx(0.4 / 0.5)
    assert cost == pytest.approx(2 * 0.4 * (0.9 - 0.2))


@pytest.mark.parametrize("base_rate", [0.5, 0.1])
@pytest.mark.parametrize("apart", [1.0, 3.0, 8.0])
def test_nothing_is_found_among_candidates_like_the_positives(base_rate: float, apart: float) -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(50):
        true = rng.random(1500) < base_rate
        z = np.where(true, rng.normal(apart, 1, 1500), rng.normal(0, 1, 1500))
        found.append(unlike(expit(rng.normal(apart, 1, 1000)), expit(z), base_rate)[0])
    assert np.mean(np.array(found) > 0) <= 0.06


def test_probabilities_of_one_value_are_no_evidence() -> None:
    assert unlike(np.full(100, 0.5), np.full(100, 0.5), 0.5)[0] == 0


def test_the_report_says_how_many_true_candidates_are_unlike_the_positives() -> None:
    figures = {
        FIGURE + "beta": 0.1,
        FIGURE + "boosted_trees": 0.2,
        UNLIKE + "beta": 0.01,
        UNLIKE + "boosted_trees": 0.3,
    }
    notes = answering_notes({"candidates": figures})
    assert notes[0].startswith("The calibrator beta answers: the best of 2 on validation (Brier score 0.1000; next:")
    assert notes[1].endswith("estimated without labels: beta 0.1000, boosted_trees 0.2000.")
    assert notes[2].startswith("boosted_trees: at least 30% of the true candidates differ")
    assert len(notes) == 3


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with few rows, and with trees whose number is not chosen by folds."""
    found = script("evidence_fails")
    monkeypatch.setattr(found, "ROWS", 400)
    monkeypatch.setattr(BoostedTrees, "_number_of_trees", lambda *_: 30)
    return found


@pytest.mark.parametrize("title", ["the evidence of true triples", "true candidates unlike validation positives"])
def test_where_the_fit_fails_evidence_costs_little(title: str, module: ModuleType) -> None:
    """Mistakes are like no strategy, or positives are others: what answers is at most .002 worse than the score.

    The case is hard: gradient boosting on the corruptions is more than .002 worse.
    """
    alone, evidence, answers, naive, _ = module.measure(module.CASES[title], 0)
    assert min(evidence, naive) > alone + 0.002
    assert answers < alone + 0.002


def test_evidence_answers_where_the_mistakes_resemble_no_strategy_but_differ(module: ModuleType) -> None:
    alone, evidence, answers, naive, _ = module.measure(module.CASES["like no strategy: frequent entities"], 0)
    assert naive > alone
    assert answers == evidence < alone - 0.03
