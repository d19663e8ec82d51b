"""The remainder: mistakes that no strategy resembles, taken from the candidates themselves."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.platt import Platt
from kgcore.mixture.calibrate import fit_to_candidates, mixture_sample, relation_sample
from kgcore.mixture.fit import MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.remainder import REMAINDER, remainder, true_shares
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample
from tests.core.mixtures import normal_mixture


def fitted(data: MixtureData, base_rate: float | None, replicates: int = 120) -> MixtureFit:
    return fit_mixture(data, MixtureOptions(base_rate, replicates=replicates), np.random.default_rng(0))


def shares(positives: list[float], candidates: list[float], base_rate: float) -> np.ndarray:
    return true_shares(
        np.array(positives), np.array(candidates), base_rate, np.ones(len(positives)), np.ones(len(candidates))
    )


def test_hand_numbers() -> None:
    # scores 1, 2, 3 with 1, 2, 3 positives and 3, 2, 1 candidates: odds 1/3, 1, 3; 6 candidates, of which half are true
    q = shares([1, 2, 2, 3, 3, 3], [1, 1, 1, 2, 2, 3], 0.5)
    # c / 3 * 3 + c * 2 + 1 = 3 with the last capped at 1: c = 2/3
    assert q == pytest.approx([2 / 9] * 3 + [2 / 3] * 2 + [1.0])
    # odds fall from 3 to 1/3: they are pooled, and every candidate has the base rate
    assert shares([1, 1, 1, 2], [1, 2, 2, 2], 0.2) == pytest.approx([0.2] * 4)


def test_more_true_triples_than_there_can_be() -> None:
    q = shares([5, 6], [1, 2, 5, 6], 0.9)
    assert q == pytest.approx([0, 0, 1, 1])


def test_counting_a_row_twice_is_repeating_it() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(1, 1, 50), rng.normal(0, 1, 80)
    times_x, times_y = rng.integers(0, 3, 50), rng.integers(0, 3, 80)
    own = true_shares(x, y, 0.3, times_x.astype(float), times_y.astype(float))
    repeated = shares(np.repeat(x, times_x).tolist(), np.repeat(y, times_y).tolist(), 0.3)
    assert np.repeat(own, times_y) == pytest.approx(repeated)


def test_the_remainder_has_the_distribution_of_the_mistakes() -> None:
    """Mistakes are N(0, 0.7), which no strategy resembles; true triples are N(1, 1)."""
    data = normal_mixture(0, base_rate=0.3, candidates=20_000, positives=5_000, foreign=(0.0, 0.7))
    left = remainder(data, 0.3)
    grid = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    below = [np.average(left.sample.scores <= score, weights=left.weights) for score in grid]
    assert below == pytest.approx(norm.cdf(grid / 0.7), abs=0.03)
    assert left.weights.sum() == pytest.approx(0.7 * 20_000)


def test_labelled_candidates_count_by_their_label() -> None:
    data = normal_mixture(0, candidates=100, labels=40)
    left = remainder(data, 0.5)
    assert len(left.sample) == 140
    assert left.weights[100:].tolist() == (1 - data.labelled.labels).tolist()
    one = LabelledCandidates(ScoreSample(np.array([9.0])), np.array([0.0]))
    left = remainder(replace(data, labelled=one), 0.5, (np.ones(500), np.ones(100), np.array([3.0])))
    assert left.weights[-1] == 3


def test_the_share_grows_with_the_misfit() -> None:
    """Half of the mistakes, or all of them, resemble no strategy. Without them, the share is small on average."""
    own = []
    for foreign in (0.0, 0.5, 1.0):
        values = []
        for seed in range(8):
            data = normal_mixture(seed, (-1.0,), (1.0,))
            rng = np.random.default_rng(1_000 + seed)
            other = normal_mixture(seed, (-1.0,), (1.0,), foreign=(0.3, 0.5)).candidates.scores
            mixed = np.where(rng.random(len(other)) < foreign, other, data.candidates.scores)
            values.append(fitted(replace(data, candidates=ScoreSample(mixed)), 0.5, replicates=60).remainder)
        own.append(float(np.mean(values)))
    assert own[0] < 0.3 < own[1] < own[2]
    assert own[2] > 0.9


def test_mistakes_that_no_strategy_resembles_cost_little_if_the_base_rate_is_stated() -> None:
    """Brier scores on other candidates, less that of the best non-decreasing curve."""
    exam = normal_mixture(99, foreign=(0.3, 0.5), candidates=1, labels=40_000).labelled
    scores, labels = exam.sample.scores, exam.labels
    best = np.mean((Isotonic().fit(scores, labels).calibrate(scores) - labels) ** 2)
    for seed in range(3):
        data = normal_mixture(seed, foreign=(0.3, 0.5), positives=1_000)
        found = fitted(data, 0.5)
        assert found.remainder > 0.7
        assert sum(found.weights.values()) == pytest.approx(1)
        assert any("candidates themselves" in text for text in found.findings())

        def cost(weights: dict[str, float], data: MixtureData = data) -> float:
            p = Isotonic().fit_sample(mixture_sample(data, 0.5, weights)).calibrate(scores)
            return float(np.mean((p - labels) ** 2) - best)

        alone = {name: share.value for name, share in found.shares.items()}
        assert cost(found.weights) < 0.007
        assert cost(alone) > 0.02


def test_without_foreign_mistakes_or_a_stated_base_rate_the_remainder_hardly_counts() -> None:
    data = normal_mixture(0)
    assert fitted(data, 0.5).remainder < 0.3
    free = fitted(normal_mixture(0, foreign=(0.3, 0.5)), None)
    assert free.remainder == 0
    assert REMAINDER not in free.weights


def test_the_shape_has_the_remainder_and_json_keeps_it() -> None:
    found = fitted(normal_mixture(0, foreign=(0.3, 0.5)), 0.5)
    assert MixtureFit.from_json(json.loads(json.dumps(found.to_json()))) == found
    parts = np.sum(list(found.shape.parts.values()), axis=0)
    assert parts.sum() == pytest.approx(1)
    assert sum(found.shape.parts[REMAINDER]) == pytest.approx(0.5 * found.remainder)
    older = found.to_json()
    del older["remainder"]
    assert MixtureFit.from_json(older).remainder == 0


def test_relations_keep_the_stated_base_rate() -> None:
    parts = [normal_mixture(seed, foreign=(0.3, 0.5), candidates=600, positives=200) for seed in (0, 1)]

    def join(samples: list[ScoreSample]) -> ScoreSample:
        predicates = np.repeat([0, 1], [len(own) for own in samples])
        return ScoreSample(np.concatenate([own.scores for own in samples]), predicates=predicates)

    names = parts[0].negatives
    data = MixtureData(
        join([part.positives for part in parts]),
        {name: join([part.negatives[name] for part in parts]) for name in names},
        join([part.candidates for part in parts]),
    )
    found = fitted(data, 0.4)
    sample = relation_sample(data, found, [])
    assert sample.base_rate == pytest.approx(0.4)
    assert sample.predicates is not None
    negative = sample.weights[sample.labels == 0].sum() / sample.weights.sum()
    assert negative == pytest.approx(0.6)


def test_limits_hold_the_truth_of_foreign_mistakes() -> None:
    grid, inside = np.array([-0.5, 0.5, 1.0]), []
    truth = norm.pdf(grid, 1) / (norm.pdf(grid, 1) + norm.pdf(grid, -0.5, 1))
    for seed in range(10):
        data = normal_mixture(seed, foreign=(-0.5, 1.0), candidates=1_500)
        found = replace(fitted(data, 0.5, replicates=20), remainder=1.0)
        calibrator, band = fit_to_candidates(data, found, Platt, 40, np.random.default_rng(seed))
        low, high = band.limits(grid)
        inside.append((low <= truth) & (truth <= high))
        assert (low <= calibrator.calibrate(grid)).all()
    assert np.mean(inside) > 0.8
