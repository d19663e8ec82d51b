"""Counts of scores in bins."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Scores
from kgcore.mixture.samples import MixtureData, ScoreSample

FEWEST_BINS, MOST_BINS = 8, 60
SMOOTHING = 1.0  # rows that are added to each component, with the mean shares of the components


def design_effect(cells: Ints, groups: Ints | None, num_cells: int) -> float:
    """Return by which factor dependence enlarges the variance of the shares of ordered cells.

    cells   (n,) the cell of each row, 0 to num_cells - 1
    groups  (n,) rows of one group are dependent, rows of different groups are not; None: all rows are independent

    Give each cell b a number h_b, such as the indicator of one cell. Dependence multiplies the variance of the mean of
    h over the rows by

        deff(h) = sum_g (sum_{i in g} (h_i - mean h))^2 / sum_i (h_i - mean h)^2.

    The result is the larger of two values. The first is the mean of deff over the cells' indicators, each weighted by
    its variance (the first-order correction of Rao & Scott, Annals of Statistics 12, 1984). The second is deff of the
    rank, because the scores of a group mostly move up or down together. The result is at least 1, and it is 1 if all
    rows are in one cell. Counts divided by it can be used as if the rows were independent.
    """
    if groups is None or not len(cells):
        return 1.0
    _, group = np.unique(groups, return_inverse=True)
    size, num = len(cells), int(group.max()) + 1
    counts = np.zeros((num, num_cells))
    np.add.at(counts, (group, cells), 1.0)
    sizes, shares = counts.sum(axis=1), counts.sum(axis=0) / size
    spread = float((shares * (1 - shares)).sum())
    if spread == 0:
        return 1.0
    indicators = float(((counts - sizes[:, None] * shares) ** 2).sum()) / (size * spread)
    rank = np.cumsum(shares) - shares / 2
    rank -= shares @ rank
    return max(1.0, indicators, float(((counts @ rank) ** 2).sum() / (size * (shares @ rank**2))))


def effective_counts(cells: Ints, groups: Ints | None, num_cells: int) -> Floats:
    """Return the counts (num_cells,) of rows in each cell, divided by the design effect."""
    counts = np.bincount(cells, minlength=num_cells).astype(np.float64)
    return counts / design_effect(cells, groups, num_cells)


@dataclass(frozen=True)
class BinCounts:
    """Scores in B bins, for S problems that are solved together. J components; component 0 are the positives.

    candidates  (S, B) unlabelled candidates
    components  (S, J, B) rows of each component, above 0
    true        (S, B) candidates labelled as true
    false       (S, B) candidates labelled as false

    Counts of dependent rows are divided by their design effect, so they may be fractions.
    """

    candidates: Floats
    components: Floats
    true: Floats
    false: Floats

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def labels(self) -> float:
        """Return the number of labels in all problems."""
        return float(self.true.sum() + self.false.sum())

    def repeat(self, times: int) -> "BinCounts":
        """Return each problem `times` times, one copy after the other."""
        return BinCounts(*(np.repeat(array, times, axis=0) for array in self._arrays()))

    def without_labels(self) -> "BinCounts":
        """Return the same counts; the labelled candidates are counted as unlabelled ones."""
        nothing = np.zeros_like(self.true)
        return BinCounts(self.candidates + self.true + self.false, self.components, nothing, nothing)

    @classmethod
    def stack(cls, problems: "list[BinCounts]") -> "BinCounts":
        """Return several problems with the same J and B as one."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*(p._arrays() for p in problems), strict=True)))

    def _arrays(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.candidates, self.components, self.true, self.false


def number_of_bins(data: MixtureData) -> int:
    """Return 2 n^(2/5), between 8 and 60, for n = the size of the smallest sample.

    The growth is that of the best number of equal bins for a goodness-of-fit test (Mann & Wald, Annals of Mathematical
    Statistics 13, 1942). docs/explanation/candidates.md shows that the number hardly matters.
    """
    smallest = min(len(data.positives), len(data.candidates))
    return int(np.clip(round(2 * smallest**0.4), FEWEST_BINS, MOST_BINS))


def bin_edges(data: MixtureData, bins: int) -> Floats:
    """Return at most bins - 1 inner edges, ascending: quantiles of positives, corruptions and candidates, pooled.

    Each of the three has a third of the weight, and each strategy the same part of the corruptions' third. So the bins
    are narrow where any of them has its scores, whatever the base rate.
    """
    samples = [*data.components, data.candidates]
    share_of_strategy = 1 / 3 / len(data.negatives)
    shares = [1 / 3, *[share_of_strategy] * len(data.negatives), 1 / 3]
    scores = np.concatenate([sample.scores for sample in samples])
    weights = np.concatenate([np.full(len(s), share / len(s)) for s, share in zip(samples, shares, strict=True)])
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(weights[order])
    places = np.searchsorted(below, np.arange(1, bins) / bins).clip(max=len(scores) - 1)
    edges = np.unique(scores[order][places])
    inner: Floats = edges[edges > scores.min()]
    return inner


def count(data: MixtureData, edges: Floats) -> BinCounts:
    """Count all samples in the bins between the edges (B - 1,): one problem. A score on an edge is above it."""
    bins = len(edges) + 1

    def cells(scores: Scores) -> Floats:
        return np.bincount(np.searchsorted(edges, scores, side="right"), minlength=bins).astype(np.float64)

    def effective(sample: ScoreSample) -> Floats:
        return effective_counts(np.searchsorted(edges, sample.scores, side="right"), sample.groups, bins)

    components = smoothed(np.stack([effective(sample) for sample in data.components])[None])
    scores, labels = data.labelled.sample.scores, data.labelled.labels
    true, false = cells(scores[labels == 1]), cells(scores[labels == 0])
    return BinCounts(effective(data.candidates)[None], components, true[None], false[None])


def smoothed(components: Floats) -> Floats:
    """Add SMOOTHING rows to every component of (S, J, B), with the mean shares of the components (a Dirichlet prior).

    Without them, a bin would be impossible under a component whose finite sample has no row there.
    """
    shares = components / components.sum(axis=-1, keepdims=True)
    pooled = shares.mean(axis=1, keepdims=True)
    flat = np.full_like(pooled, 1 / components.shape[-1])  # for bins that hold candidates only
    added: Floats = components + SMOOTHING * (0.9 * pooled + 0.1 * flat)
    return added
