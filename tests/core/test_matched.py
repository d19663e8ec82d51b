"""Calibrators that are fitted to candidates, the base rate of candidates, and the files of both."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Calibrated
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError, MismatchError
from kgcore.measure.report.plots import candidates_figure
from kgcore.mixture.calibrate import candidate_sample, fit_matched, mixture_sample
from kgcore.mixture.fit import MixtureOptions
from kgcore.mixture.matched import Matched, match
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample
from kgcore.storage.tables import read_table, write_table
from tests.core.calibrator_samples import bound_to
from tests.core.mixtures import normal_mixture


def with_relations(data: MixtureData) -> MixtureData:
    """Give every other score the predicate 0, and the rest the predicate 1."""

    def own(sample: ScoreSample) -> ScoreSample:
        return replace(sample, predicates=np.arange(len(sample)) % 2)

    negatives = {name: own(sample) for name, sample in data.negatives.items()}
    labelled = LabelledCandidates(own(data.labelled.sample), data.labelled.labels)
    return MixtureData(own(data.positives), negatives, own(data.candidates), labelled)


def matched_to(data: MixtureData, base_rate: float | None = None, replicates: int = 40) -> Matched:
    options = MixtureOptions(base_rate, width=0.2, replicates=replicates)
    return match(data, "mine.tsv", options, np.random.default_rng(0), ["left out: 2 of 2,002 rows repeat another row"])


@pytest.fixture(scope="module")
def data() -> MixtureData:
    """Return candidates whose mistakes all have mean -1. Then q(f) = sigmoid(2 f) at the base rate .5."""
    return with_relations(normal_mixture(3, shares=(1.0, 0.0)))


@pytest.fixture(scope="module")
def estimated(data: MixtureData) -> Matched:
    return matched_to(data)


@pytest.mark.parametrize("name", ["smoothed_isotonic", "beta", "per_relation"])
def test_a_calibrator_fitted_to_candidates_has_their_probabilities(
    data: MixtureData, estimated: Matched, name: str
) -> None:
    made = fit_matched(data, estimated, [name], 60, np.random.default_rng(1))
    calibrator, support = made[name]
    scores = np.linspace(-1.5, 1.5, 25)
    truth, predicates = expit(2 * scores), np.zeros(25, dtype=np.int64)
    q = calibrator.calibrate_of(scores, predicates)
    assert np.abs(q - truth).mean() < 0.05
    low, high = support.limits(scores, predicates)
    assert ((low <= truth) & (truth <= high)).mean() > 0.9
    assert (high - low).mean() < (0.5 if name == "per_relation" else 0.4)
    assert set(support.rows) == {0, 1}
    assert support.rows[0][0] == 250  # positives of the predicate


def test_the_base_rate_is_the_stated_or_the_estimated_one(data: MixtureData, estimated: Matched) -> None:
    assert candidate_sample(data, matched_to(data, 0.3)).base_rate == pytest.approx(0.3)
    settled = estimated.settle(CalibrateConfig())
    assert settled.rate.origin == "estimated"
    assert settled.rate.value == estimated.fit.base_rate
    assert settled.rate.limits == (estimated.fit.estimated.low, estimated.fit.estimated.high)
    assert estimated.settle(settled) == settled
    stated = matched_to(data, 0.3)
    assert stated.settle(CalibrateConfig()) == stated.settle(CalibrateConfig(base_rate=0.3))
    assert str(stated.settle(CalibrateConfig()).rate) == "0.3, stated"
    with pytest.raises(
        MismatchError, match=r"base_rate is 0\.2, but the candidates were matched at the base rate 0\.3"
    ):
        stated.settle(CalibrateConfig(base_rate=0.2))
    with pytest.raises(MismatchError, match=r"base_rate is 0\.2, but the candidates were matched without a stated"):
        estimated.settle(CalibrateConfig(base_rate=0.2))


def test_candidates_that_do_not_determine_the_base_rate_are_refused_in_one_sentence() -> None:
    flat = matched_to(with_relations(normal_mixture(1, means=(0.95,), shares=(1.0,))))
    wanted = r"these candidates do not determine the base rate \(.* to .*\): state it, or label [\d,]+ of them"
    with pytest.raises(InputError, match=wanted):
        flat.settle(CalibrateConfig())


def test_mistakes_that_no_strategy_resembles_do_not_show_a_base_rate(estimated: Matched) -> None:
    fit = replace(estimated.fit, fit=replace(estimated.fit.fit, p_value=0.001))
    with pytest.raises(InputError, match=r"that no strategy resembles.*, so their scores do not determine"):
        replace(estimated, fit=fit).settle(CalibrateConfig())


def test_the_sentences_say_what_the_probabilities_are_about(estimated: Matched, data: MixtureData) -> None:
    said = estimated.sentences()
    assert "probabilities for triples like the 2,000 candidates in mine.tsv" in said[0]
    assert "Their mistakes resemble corruptions: 99 % strategy 0, 1 % strategy 1." in said[0]
    assert "estimated, 95 % interval" in said[0]
    assert said[-1] == "Left out: 2 of 2,002 rows repeat another row."
    assert "0.3, stated; their scores suggest" in matched_to(data, 0.3).sentences()[0]
    assert estimated.metrics()["share.strategy 0"] == pytest.approx(1, abs=0.02)


def test_scores_and_fit_survive_their_files(tmp_path: Path, estimated: Matched) -> None:
    data = with_relations(normal_mixture(5, candidates=50, positives=30, corruptions=40, labels=7))
    data = replace(data, positives=replace(data.positives, groups=np.arange(30)))
    write_table(tmp_path / "scores.parquet", *data.to_table())
    again = MixtureData.from_table(*read_table(tmp_path / "scores.parquet"))
    pairs = zip((*data.components, data.candidates), (*again.components, again.candidates), strict=True)
    for one, other in (*pairs, (data.labelled.sample, again.labelled.sample)):
        for name in ("scores", "groups", "predicates"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(data.labelled.labels, again.labelled.labels)
    assert list(again.negatives) == list(data.negatives)
    assert Matched.from_json(json.loads(json.dumps(estimated.to_json()))) == estimated


def test_a_calibrator_stores_its_candidates(data: MixtureData, estimated: Matched) -> None:
    calibrator, support = fit_matched(data, estimated, ["beta"], 20, np.random.default_rng(1))["beta"]
    rate = BaseRate(estimated.fit.base_rate, estimated.fit.estimated.low, estimated.fit.estimated.high, "estimated")
    bound = bound_to("beta", "candidates", rate, "m", "d", calibrator, support=support, mixture=estimated)
    again = Calibrated.from_json(json.loads(json.dumps(bound.to_json())))
    assert (again.label, again.mixture, again.rate) == ("candidates.beta", estimated, rate)
    scores = np.linspace(-2, 2, 9)
    q = bound.predict(scores, "m")
    low, _ = bound.interval(scores, q)
    np.testing.assert_array_equal(low, np.minimum(support.limits(scores, None)[0], q))  # counted by the bootstrap
    assert bound.at(0.1).mixture == estimated


def test_the_picture_has_every_part_that_matters(estimated: Matched) -> None:
    figure = candidates_figure(estimated)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(texts) == 3
    assert any(text.startswith("true triples: ") for text in texts)
    assert "candidates" in texts
    assert figure.axes[0].get_title() == "2,000 candidates of mine.tsv"


@pytest.mark.parametrize("stated", [None, 0.5])
def test_relations_that_are_too_small_do_not_get_the_base_rate_of_the_large_ones(stated: float | None) -> None:
    """A relation with 1,000 candidates has a base rate of .9, and 50 relations with 20 candidates have .1."""
    rng = np.random.default_rng(3)

    def sample(mean: float, large: int, small: int) -> ScoreSample:
        predicates = np.r_[np.zeros(large, dtype=int), np.repeat(np.arange(1, 51), small)]
        return ScoreSample(rng.normal(mean, 1, len(predicates)), predicates=predicates)

    candidates = sample(0, 1000, 20)
    true = rng.random(2000) < np.where(candidates.predicates == 0, 0.9, 0.1)
    candidates = replace(candidates, scores=np.where(true, rng.normal(3, 1, 2000), rng.normal(0, 1, 2000)))
    mixed = MixtureData(sample(3, 300, 10), {"uniform": sample(0, 3000, 100)}, candidates)
    found = matched_to(mixed, stated)
    assert [one.predicate for one in found.relations] == [0]
    assert found.others is not None
    assert found.others.candidates == 1000
    made = candidate_sample(mixed, found, by_predicate=True)
    assert made.base_rate == pytest.approx(found.fit.base_rate, abs=1e-6)
    large = made.predicates == 0
    assert made.part(large).base_rate == pytest.approx(0.9, abs=0.08)
    assert made.part(~large).base_rate == pytest.approx(0.1, abs=0.08)
    together = mixture_sample(mixed, found.fit.base_rate, found.fit.weights)  # a calibrator of all relations gets it
    np.testing.assert_allclose(candidate_sample(mixed, found).weights, together.weights, rtol=1e-6)
    assert Matched.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_base_rate_whose_order_of_magnitude_is_open_is_not_determined() -> None:
    data = with_relations(normal_mixture(5, shares=(1.0, 0.0), base_rate=0.004, candidates=500))
    found = matched_to(data)
    assert found.fit.estimated.width < 0.1
    assert "do not determine the base rate" in found.undetermined
