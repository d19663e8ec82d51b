"""Folds, and cross-fitting over them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.arrays import draw_folds
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from kgcore.calibrate.validation import cross_fitted
from kgcore.errors import InputError
from kgcore.measure.metrics.proper import log_loss
from kgcore.registries import POOLS
from kgcore.wings.ensembles.fit import bounds
from tests.core.ensemble_samples import independent_members


@settings(max_examples=80)
@given(data=st.data())
def test_groups_stay_together_and_each_kind_is_spread_evenly(data: st.DataObject) -> None:
    positives, alone, folds = (
        data.draw(st.integers(1, 30)),
        data.draw(st.integers(0, 30)),
        data.draw(st.integers(2, 10)),
    )
    times = np.array(data.draw(st.lists(st.integers(0, 4), min_size=positives, max_size=positives)))
    groups = np.r_[np.arange(positives), np.repeat(np.arange(positives), times), positives + np.arange(alone)]
    labels = np.r_[np.ones(positives), np.zeros(times.sum() + alone)]
    fold = draw_folds(groups, labels, folds, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert ((fold >= 0) & (fold < folds)).all()
    first = {}
    assert all(first.setdefault(group, number) == number for group, number in zip(groups, fold, strict=True))
    for kind in (np.arange(positives), positives + np.arange(alone)):
        sizes = np.bincount([first[group] for group in kind], minlength=folds)
        assert sizes.max() - sizes.min() <= 1


def test_folds_depend_on_the_generator_alone() -> None:
    groups, labels = np.arange(50), np.tile([0.0, 1.0], 25)
    one, again, other = (draw_folds(groups, labels, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


def test_one_fold_is_refused() -> None:
    with pytest.raises(InputError, match="folds is 1: it must be at least 2"):
        draw_folds(np.arange(50), np.tile([0.0, 1.0], 25), 1, np.random.default_rng(0))


def test_each_row_gets_its_probability_from_the_other_folds(rng: np.random.Generator) -> None:
    scores, labels, weights = rng.normal(size=30), np.tile([0.0, 1.0, 1.0], 10), rng.uniform(0.5, 2, 30)
    sample, fold = CalibrationSample(scores, labels, weights), rng.integers(0, 3, 30)
    q = cross_fitted(Isotonic, sample, fold)
    for row in range(30):
        others = fold != fold[row]
        own = Isotonic().fit_sample(CalibrationSample(scores[others], labels[others], weights[others]))
        assert q[row] == pytest.approx(own.calibrate(scores[row : row + 1])[0])


@pytest.mark.parametrize("name", POOLS.names())
def test_a_pool_learned_on_held_out_folds_is_better_on_new_triples(name: str) -> None:
    gains = []
    for seed in range(12):
        evidence, labels = independent_members(4150, seed=seed)
        y, fresh = labels[:150], labels[150:]
        samples = [ground_truth_sample(own, y) for own in evidence[:150].T]
        fold = draw_folds(np.arange(150), y, 10, np.random.default_rng(seed))
        whole = [Isotonic().fit_sample(sample) for sample in samples]
        new = np.stack([fit.calibrate(own) for fit, own in zip(whole, evidence[150:].T, strict=True)], axis=1)
        learned_on = {
            "others": np.stack([cross_fitted(Isotonic, sample, fold) for sample in samples], axis=1),
            "themselves": np.stack([fit.calibrate(s.scores) for fit, s in zip(whole, samples, strict=True)], axis=1),
        }
        losses = {}
        for way, members in learned_on.items():
            limits = bounds(samples[0])
            pool = POOLS.get(name).fit(members.clip(*limits), y, np.ones(150))
            again = Platt().fit_sample(ground_truth_sample(pool.log_odds(members.clip(*limits)), y))
            losses[way] = log_loss(again.calibrate(pool.log_odds(new.clip(*limits))), fresh)
        gains.append(losses["themselves"] - losses["others"])
    assert np.mean(gains) > 0.005
