"""Samples for tests of mixtures: normal scores with standard deviation 1."""

import numpy as np

from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample


def normal_mixture(
    seed: int,
    means: tuple[float, ...] = (-1.0, -3.0),
    shares: tuple[float, ...] = (0.5, 0.5),
    base_rate: float = 0.5,
    positives: int = 500,
    candidates: int = 2_000,
    corruptions: int = 5_000,
    labels: int = 0,
    foreign: tuple[float, float] | None = None,
) -> MixtureData:
    """Draw a known mixture. True triples have mean 1, the corruptions of each strategy one of `means`.

    shares   share of each strategy in the mistakes
    foreign  mean and standard deviation of all mistakes, instead of `means` and `shares`
    """
    rng = np.random.default_rng(seed)
    n = candidates + labels
    true = rng.random(n) < base_rate
    wrong = rng.normal(np.array(means)[rng.choice(len(means), n, p=shares)])
    if foreign is not None:
        wrong = rng.normal(*foreign, n)
    scores = np.where(true, rng.normal(1, 1, n), wrong)
    negatives = {f"strategy {i}": ScoreSample(rng.normal(mean, 1, corruptions)) for i, mean in enumerate(means)}
    labelled = LabelledCandidates(ScoreSample(scores[candidates:]), true[candidates:].astype(float))
    return MixtureData(ScoreSample(rng.normal(1, 1, positives)), negatives, ScoreSample(scores[:candidates]), labelled)
