"""Samples that are read in blocks: calibrators and tallies are those of all rows at once."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from kgcore.calibration.pav import block_starts, group_by_score, positive_share, score_runs
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.stream import Block, SampleStream
from kgcore.errors import FitError, InputError
from kgcore.metrics.tally import pooled, tally
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import GRID, quiet, samples

STREAMED = ("isotonic", "smoothed_isotonic", "platt", "beta")


def in_blocks(sample: CalibrationSample, size: int) -> SampleStream:
    """Return the rows of a sample in blocks of `size` rows, with weights of another scale and with whole numbers."""

    def read() -> Iterator[Block]:
        for start in range(0, len(sample.scores), size):
            part = slice(start, start + size)
            yield sample.scores[part], sample.labels[part].astype(np.int8), 3 * sample.weights[part]

    return SampleStream(read)


@quiet
@settings(max_examples=40)
@given(sample=samples(), size=st.integers(1, 9))
def test_a_stream_gives_the_calibrator_of_all_rows(sample: CalibrationSample, size: int) -> None:
    for name in STREAMED:
        once = CALIBRATORS.get(name)().fit_sample(sample)
        stream = CALIBRATORS.get(name)().fit_stream(in_blocks(sample, size))
        np.testing.assert_allclose(stream.calibrate(GRID), once.calibrate(GRID), atol=1e-6, err_msg=name)


def test_the_mean_of_equal_scores_is_that_score() -> None:
    scores = np.repeat([-7.0, -5.0, 0.1, 1.0], [2, 5, 27, 2])
    labels = np.arange(len(scores)) % 2
    weights = 29 / 47 * (1 + np.arange(len(scores)) % 3)
    found, _, _ = in_blocks(CalibrationSample(scores, labels.astype(float), weights), 4).condensed
    np.testing.assert_array_equal(found, [-7.0, -5.0, 0.1, 1.0] * 2)


@pytest.mark.parametrize("name", STREAMED)
def test_a_stream_of_many_blocks(name: str, rng: np.random.Generator) -> None:
    f = rng.normal(size=20_000)
    labels = (rng.random(len(f)) < expit(3 * f - 2)).astype(float)
    sample = CalibrationSample(f, labels, rng.uniform(0.1, 5, len(f)))
    order = np.argsort(labels)[::-1]  # positives first, as in a synthetic sample
    shuffled = CalibrationSample(f[order], labels[order], sample.weights[order])
    once = CALIBRATORS.get(name)().fit_sample(sample).calibrate(f)
    np.testing.assert_allclose(
        CALIBRATORS.get(name)().fit_stream(in_blocks(shuffled, 999)).calibrate(f), once, atol=1e-7
    )


@settings(max_examples=100)
@given(sample=samples(), size=st.integers(1, 9))
def test_isotonic_regression_divides_no_run(sample: CalibrationSample, size: int) -> None:
    """A run lies in one block of isotonic regression of the distinct scores."""
    groups = group_by_score(sample.scores, sample.labels, sample.weights)
    starts = groups.scores[block_starts(positive_share(groups.positives, groups.weights), groups.weights)]
    runs = score_runs(in_blocks(sample, size))
    block = np.searchsorted(starts, groups.scores, side="right")
    run = np.searchsorted(runs.first, groups.scores, side="right")
    assert all(len(set(block[run == number])) == 1 for number in range(1, len(runs.first) + 1))
    assert len(runs.first) <= 1 + min((sample.labels == label).sum() for label in (0, 1))
    assert runs.weights.sum() == pytest.approx(3 * sample.weights.sum())


def test_a_stream_is_checked() -> None:
    def stream(*blocks: Block) -> SampleStream:
        return SampleStream(lambda: iter(blocks))

    ones, zeros = np.ones(3), np.zeros(3)
    with pytest.raises(FitError, match="positives only"):
        CALIBRATORS.get("platt")().fit_stream(stream((zeros, ones, ones), (ones, ones, ones)))
    with pytest.raises(InputError, match="scores hold 1 values that are not finite"):
        CALIBRATORS.get("isotonic")().fit_stream(stream((np.array([0, 1, np.nan]), np.array([0.0, 1, 1]), ones)))
    with pytest.raises(InputError, match="lengths must be equal"):
        CALIBRATORS.get("isotonic")().fit_stream(stream((zeros, ones, np.ones(2))))
    with pytest.raises(FitError, match="no rows"):
        CALIBRATORS.get("beta")().fit_stream(stream())


def test_a_calibrator_without_a_fit_to_streams_says_so() -> None:
    sample = CalibrationSample(np.arange(4.0), np.array([0.0, 1, 0, 1]), np.ones(4))
    for name in sorted(set(CALIBRATORS.names()) - set(STREAMED)):
        with pytest.raises(InputError, match="needs all rows at once"):
            CALIBRATORS.get(name)().fit_stream(in_blocks(sample, 2))


@settings(max_examples=60)
@given(seed=st.integers(0, 999), soft=st.booleans(), parts=st.integers(1, 6))
def test_tallies_of_parts_pool_to_the_tally_of_all(seed: int, soft: bool, parts: int) -> None:
    rng = np.random.default_rng(seed)
    q, w = rng.integers(0, 9, 60) / 8, rng.uniform(0.1, 3, 60)
    y = rng.integers(0, 2, 60).astype(float)
    if soft:
        y[:10] = rng.random(10)  # only the first parts have confidences
    whole = tally(q, y, w)
    found = pooled(tally(q[rows], y[rows], w[rows]) for rows in np.array_split(np.arange(60), parts))
    for name in ("q", "positive", "negative", "positive_squares", "negative_squares"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-12)
    assert (found.errors is None) == (whole.errors is None)
    if found.errors is not None and whole.errors is not None:
        for name in ("squared", "absolute", "squares"):
            np.testing.assert_allclose(getattr(found.errors, name), getattr(whole.errors, name), atol=1e-12)
    with pytest.raises(InputError, match="no tallies"):
        pooled([])
