"""Bootstrap replicates of a problem: drawn from its fitted mixture, or drawn again from its own bins."""

import numpy as np

from kgcore.arrays import Floats
from kgcore.mixture.bins import Counts, smoothed
from kgcore.mixture.em import Solution


def simulate(
    counts: Counts, solved: Solution, replicates: int, rng: np.random.Generator, shared: float = 0.0
) -> Counts:
    """Draw problems from the solution of one problem (S = 1): a parametric bootstrap. The samples keep their sizes.

    shared  share of the positives that are also candidates, in [0, 1]. The drawn problems share as many
    """
    parts = solved.weights[0][:, None] * solved.densities[0]
    sizes = counts.components[0].sum(axis=-1)
    rows = [drawn_counts(n, p, replicates, rng) for n, p in zip(sizes, solved.densities[0], strict=True)]
    number = counts.candidates.sum()
    common = min(shared * sizes[0], solved.weights[0, 0] * number)
    others = np.maximum(number * parts.sum(axis=0) - common * solved.densities[0, 0], 0.0)
    candidates = common / sizes[0] * rows[0]
    if number - common >= 1:
        candidates = candidates + drawn_counts(number - common, others, replicates, rng)
    labelled = np.concatenate([parts[0], parts[1:].sum(axis=0)])
    return Counts(candidates, smoothed(np.stack(rows, axis=1)), *_labels(counts, labelled, replicates, rng))


def resample(counts: Counts, replicates: int, rng: np.random.Generator) -> Counts:
    """Draw every sample of one problem (S = 1) again from its own bins: a bootstrap."""
    candidates = drawn_counts(counts.candidates.sum(), counts.candidates[0], replicates, rng)
    rows = [drawn_counts(own.sum(), own, replicates, rng) for own in counts.components[0]]
    labelled = np.concatenate([counts.true[0], counts.false[0]])
    return Counts(candidates, smoothed(np.stack(rows, axis=1)), *_labels(counts, labelled, replicates, rng))


def drawn_counts(size: float, shares: Floats, replicates: int, rng: np.random.Generator) -> Floats:
    """Draw multinomial counts (replicates, B) of a sample of about `size` rows. Their sum is exactly `size`."""
    n = max(1, round(float(size)))
    drawn = rng.multinomial(n, shares / shares.sum(), replicates)
    scaled: Floats = drawn.astype(np.float64) * (float(size) / n)
    return scaled


def _labels(counts: Counts, shares: Floats, replicates: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the candidates labelled as true and as false (replicates, B). `shares` (2B,) has those of both."""
    if not counts.labels:
        nothing = np.zeros((replicates, counts.true.shape[-1]))
        return nothing, nothing
    true, false = np.split(drawn_counts(counts.labels, shares, replicates, rng), 2, axis=1)
    return true, false
