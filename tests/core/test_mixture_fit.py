"""The fit of a mixture: weights, findings, the test of fit, relations, JSON, and calibrators."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample
from kgcore.errors import FitError, InputError
from kgcore.mixture.calibrate import fit_to_candidates, mixture_sample, relation_sample
from kgcore.mixture.em import solve
from kgcore.mixture.fit import MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.goodness import fitness_of, simulated, statistics
from kgcore.mixture.interval import Profile
from kgcore.mixture.matched import fit_relations, shrink
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample, bin_edges, count
from tests.core.mixtures import normal_mixture

QUICK = MixtureOptions(replicates=40)


def fit(data: MixtureData, options: MixtureOptions = QUICK) -> MixtureFit:
    return fit_mixture(data, options, np.random.default_rng(0))


def test_a_known_mixture_is_found() -> None:
    found = fit(normal_mixture(0, shares=(0.3, 0.7), base_rate=0.2))
    assert found.estimated.low < 0.2 < found.estimated.high
    assert found.shares["strategy 0"].low < 0.3 < found.shares["strategy 0"].high
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.base_rate == found.estimated.value
    assert found.determined
    assert found.findings() == []
    parts = np.sum(list(found.shape.parts.values()), axis=0)
    assert parts.sum() == pytest.approx(1)
    assert parts == pytest.approx(np.array(found.shape.candidates), abs=0.02)
    assert MixtureFit.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_stated_base_rate_is_kept_and_compared() -> None:
    data = normal_mixture(1, base_rate=0.2)
    assert fit(data, replace(QUICK, base_rate=0.2)).findings() == []
    wrong = fit(data, replace(QUICK, base_rate=0.6))
    assert wrong.base_rate == 0.6
    assert wrong.stated
    assert any("the stated base rate is 0.6, but these candidates suggest" in text for text in wrong.findings())


def test_strategies_keep_their_shares_of_few_mistakes() -> None:
    """A share is negligible if it is small among the mistakes. All mistakes may be few among the candidates."""
    found = fit(normal_mixture(2, shares=(0.3, 0.7), base_rate=0.999), replace(QUICK, base_rate=0.9999))
    assert sum(share.value for share in found.shares.values()) == pytest.approx(1)


def test_a_flat_likelihood_says_so() -> None:
    found = fit(normal_mixture(0, (1.0,), (1.0,)))  # corruptions have the scores of positives
    assert not found.determined
    [text] = found.findings()
    assert text == (
        "these candidates do not determine the base rate (0 to 1): state it, or label 402 of them, drawn at random"
    )
    few = replace(found, candidates=60)
    assert few.findings()[0].endswith("or label all 60 of them and 342 further ones, drawn at random")


def test_foreign_mistakes_are_found_and_others_are_not() -> None:
    foreign = [fit(normal_mixture(seed, foreign=(-2.0, 0.3)), QUICK) for seed in range(5)]
    assert all(found.fit.p_value < 0.05 for found in foreign)
    level = []
    for seed in range(60):
        data = normal_mixture(seed, candidates=500, positives=200)
        counts = count(data, bin_edges(data, 12))
        level.append(fitness_of(simulated(counts, solve(counts), None, 60, np.random.default_rng(seed))).p_value)
    assert np.mean(np.array(level) <= 0.1) < 0.25
    assert 0.35 < np.mean(level) < 0.7


def test_the_level_is_right_if_all_positives_are_candidates() -> None:
    """The candidates are the positives of the fit and as many mistakes: closer to the mixture than independent ones."""
    p, apart = [], []
    for seed in range(60):
        data = normal_mixture(seed, (-1.0,), (1.0,), positives=400, candidates=400, base_rate=0.0)
        shared = replace(data, candidates=ScoreSample(np.r_[data.positives.scores, data.candidates.scores]))
        counts = count(shared, bin_edges(shared, 12))
        best = solve(counts, np.array([0.5]))
        p.append(fitness_of(simulated(counts, best, 0.5, 60, np.random.default_rng(seed), 1.0)).p_value)
        apart.append(fitness_of(simulated(counts, best, 0.5, 60, np.random.default_rng(seed))).p_value)
    assert 0.35 < np.mean(p) < 0.65
    assert np.mean(np.array(p) <= 0.1) < 0.25
    assert np.mean(apart) > 0.8


def test_equal_scores_are_not_taken_for_equal_triples() -> None:
    """Scores with one decimal are tied, but the samples are independent: the level of the test is the same."""
    p = []
    for seed in range(25):
        data = normal_mixture(seed, (-1.0,), (1.0,), positives=300, candidates=600, corruptions=1_500)
        rounded = [ScoreSample(own.scores.round(1)) for own in (*data.components, data.candidates)]
        tied = MixtureData(rounded[0], dict(zip(data.negatives, rounded[1:-1], strict=True)), rounded[-1])
        p.append(fit(tied, replace(QUICK, base_rate=0.5)).fit.p_value)
    assert np.mean(np.array(p) <= 0.1) < 0.3


def test_the_statistic_is_that_of_hand_numbers() -> None:
    data = normal_mixture(0, (-3.0,), (1.0,))
    counts = count(data, bin_edges(data, 8))
    at = solve(counts)
    expected, observed = at.weights[0] @ at.densities[0], counts.candidates[0]
    g = 2 * (observed @ np.log(observed / (observed.sum() * expected)))
    for own, p in zip(counts.components[0], at.densities[0], strict=True):
        g += 2 * (own @ np.log(own / (own.sum() * p)))
    assert statistics(counts, at)[0] == pytest.approx(g)


def test_the_sample_has_the_weights_of_the_mixture() -> None:
    data = normal_mixture(0)
    sample = mixture_sample(data, 0.1, {"strategy 0": 0.25, "strategy 1": 0.75})
    assert sample.base_rate == pytest.approx(0.1)
    assert len(sample.scores) == 10_500
    own = sample.weights / sample.weights.sum()
    assert own[500:5_500].sum() == pytest.approx(0.9 * 0.25)
    assert len(mixture_sample(data, 0.1, {"strategy 0": 1.0, "strategy 1": 0.0}).scores) == 5_500
    with pytest.raises(FitError, match="negatives only"):
        mixture_sample(data, 0.0, {"strategy 0": 1.0, "strategy 1": 0.0})


@pytest.mark.parametrize("stated", [0.3, None])
def test_the_limits_of_probabilities_hold_the_truth(stated: float | None) -> None:
    rng = np.random.default_rng(7)
    grid, inside = np.array([-1.0, 0.0, 1.0]), []
    truth = 0.3 * norm.pdf(grid - 1) / (0.3 * norm.pdf(grid - 1) + 0.7 * norm.pdf(grid + 1))
    for seed in range(12):
        data = normal_mixture(seed, shares=(1.0, 0.0), base_rate=0.3, corruptions=2_000)
        found = fit(data, MixtureOptions(stated, replicates=20))
        fitted, band = fit_to_candidates(data, found, Platt, 40, rng)
        low, high = band.limits(grid)
        inside.append((low <= truth) & (truth <= high))
        assert (low <= fitted.calibrate(grid)).all()
        assert (fitted.calibrate(grid) <= high).all()
    assert np.mean(inside) > 0.8


def test_positives_are_drawn_with_their_corruptions() -> None:
    data = normal_mixture(0)
    source = np.repeat(np.arange(500), 10)
    negatives = {name: ScoreSample(own.scores, source) for name, own in data.negatives.items()}
    grouped = replace(data, positives=ScoreSample(data.positives.scores, np.arange(500)), negatives=negatives)
    fitted, band = fit_to_candidates(grouped, fit(grouped), Isotonic, 20, np.random.default_rng(0))
    assert (band.low <= band.high).all()
    assert fitted.calibrate(np.array([-3.0, 2.0])) == pytest.approx([0.0, 1.0], abs=0.15)


def by_relation(seed: int, rates: tuple[float, ...], sizes: tuple[int, ...]) -> MixtureData:
    """Relations with their own base rates, joined to one graph's data."""
    parts = [
        normal_mixture(100 * seed + p, base_rate=rate, candidates=size, positives=max(10, size // 3), corruptions=size)
        for p, (rate, size) in enumerate(zip(rates, sizes, strict=True))
    ]

    def join(samples: list[ScoreSample]) -> ScoreSample:
        predicates = np.repeat(np.arange(len(samples)), [len(own) for own in samples])
        return ScoreSample(np.concatenate([own.scores for own in samples]), predicates=predicates)

    names = parts[0].negatives
    return MixtureData(
        join([part.positives for part in parts]),
        {name: join([part.negatives[name] for part in parts]) for name in names},
        join([part.candidates for part in parts]),
    )


def test_base_rates_by_relation() -> None:
    data = by_relation(0, (0.2, 0.5, 0.8, 0.5), (600, 600, 600, 24))
    rates = fit_relations(data, {"strategy 0": 0.5, "strategy 1": 0.5}, np.random.default_rng(0), replicates=40)
    assert [one.predicate for one in rates] == [0, 1, 2]  # the last one has 10 positives
    for one, rate in zip(rates, (0.2, 0.5, 0.8), strict=True):
        assert one.own.low < rate < one.own.high
        assert one.own.low <= one.shrunk <= one.own.high
        assert (one.positives, one.candidates) == (200, 600)
        assert sum(one.weights.values()) == pytest.approx(1)
    with pytest.raises(InputError, match="the candidates have no predicates"):
        fit_relations(normal_mixture(0), {}, np.random.default_rng(0))


def test_the_sample_by_relation_has_the_base_rate_of_each_relation() -> None:
    data = by_relation(1, (0.2, 0.7, 0.5), (900, 300, 24))
    found = fit(data, replace(QUICK, base_rate=0.4))
    rates = fit_relations(data, found.weights, np.random.default_rng(0), replicates=40)
    assert len(rates) == 2

    def rate_of(sample: CalibrationSample, predicate: int) -> float:
        assert sample.predicates is not None
        return sample.part(sample.predicates == predicate).base_rate

    mean = (900 * rates[0].shrunk + 300 * rates[1].shrunk) / 1_200
    free = relation_sample(data, replace(found, base_rate=mean, stated=False, remainder=0.0), rates)
    assert [rate_of(free, one.predicate) for one in rates] == pytest.approx([one.shrunk for one in rates])
    assert rate_of(free, 2) == pytest.approx(mean)  # too few candidates: the base rate of all
    assert free.predicates is not None
    assert free.weights[free.predicates == 0].sum() == pytest.approx(free.weights.sum() * 900 / 1_224)
    stated = relation_sample(data, found, rates)
    assert stated.base_rate == pytest.approx(0.4)
    assert rate_of(stated, 0) < 0.4 < rate_of(stated, 1)
    without = relation_sample(data, found, [])
    assert np.sort(without.weights) == pytest.approx(np.sort(mixture_sample(data, 0.4, found.weights).weights))


def test_shrinkage_moves_the_uncertain_to_the_certain() -> None:
    alphas = np.r_[0.0, np.linspace(0.01, 0.99, 99), 1.0]

    def profile(value: float, error: float) -> Profile:
        p = 2 * norm.sf(np.abs(alphas - value) / error)
        return Profile(alphas, p)

    values = shrink([profile(0.3, 0.01), profile(0.31, 0.01), profile(0.29, 0.01), profile(0.6, 0.3)])
    assert values[:3] == pytest.approx([0.3, 0.31, 0.29], abs=0.02)
    assert 0.25 < values[3] < 0.4
    apart = shrink([profile(0.1, 0.01), profile(0.9, 0.01), profile(0.5, 0.02)])
    assert apart == pytest.approx([0.1, 0.9, 0.5], abs=0.02)
    assert shrink([profile(0.6, 0.2)]) == pytest.approx([0.6])
    assert shrink([]) == []


def test_relations_have_base_rates_down_to_a_millionth() -> None:
    alphas = np.r_[0.0, np.geomspace(1e-8, 0.5, 400), 1.0]
    rare, odds = (2e-6, 1e-5, 5e-5), np.log(alphas.clip(1e-12))
    profiles = [Profile(alphas, 2 * norm.sf(np.abs(odds - np.log(one)) / 0.1)) for one in rare]
    assert shrink(profiles) == pytest.approx(rare, rel=0.1)


def test_mistakes() -> None:
    one = ScoreSample(np.zeros(3))
    with pytest.raises(FitError, match="no corruptions: name"):
        MixtureData(one, {}, one)
    with pytest.raises(FitError, match="no corruptions of typed"):
        MixtureData(one, {"typed": ScoreSample(np.empty(0))}, one)
    with pytest.raises(InputError, match="not finite"):
        ScoreSample(np.array([np.nan]))
    with pytest.raises(InputError, match="lengths must be equal"):
        ScoreSample(np.zeros(3), groups=np.arange(2))
    with pytest.raises(InputError, match="every label"):
        LabelledCandidates(one, np.array([0, 1, 2]))
    with pytest.raises(InputError, match="has no predicates"):
        MixtureData(one, {"typed": one}, one).of_relations([0])
