"""The scores that a mixture is fitted to, and their counts in bins."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, as_floats, as_labels, same_length
from kgcore.errors import FitError, InputError
from kgcore.registries import STORED

FEWEST_BINS, MOST_BINS = 8, 60
NONE = -1  # in a stored table: no group, no predicate or no label
SMOOTHING = 1.0  # rows that are added to each component, with the mean shares of the components


@dataclass(frozen=True)
class ScoreSample:
    """The scores of triples of one kind.

    scores      (n,) any finite numbers, higher = more plausible
    groups      (n,) triples of one group are dependent, such as the corruptions of one positive; None: all independent
    predicates  (n,) position of each predicate in the graph's vocabulary; None: not known

    Raises InputError for arrays of different lengths and for scores that are not finite.
    """

    scores: Scores
    groups: Ints | None = None
    predicates: Ints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", as_floats("scores", self.scores))
        for name in ("groups", "predicates"):
            own = getattr(self, name)
            if own is not None and len(own) != len(self.scores):
                same_length(scores=self.scores, **{name: own})

    def __len__(self) -> int:
        return len(self.scores)

    def part(self, rows: Bools | Ints) -> "ScoreSample":
        """Return the sample of some rows, given as a mask (n,) or as positions."""
        groups, predicates = (None if own is None else own[rows] for own in (self.groups, self.predicates))
        return ScoreSample(self.scores[rows], groups, predicates)

    def joined(self, other: "ScoreSample") -> "ScoreSample":
        """Return the rows of this sample, then those of another one, as independent rows."""
        if not len(other):
            return ScoreSample(self.scores, predicates=self.predicates)
        known = self.predicates is not None and other.predicates is not None
        predicates = np.r_[self.predicates, other.predicates] if known else None
        return ScoreSample(np.r_[self.scores, other.scores], predicates=predicates)


@dataclass(frozen=True)
class LabelledCandidates:
    """Candidates that were drawn at random from all candidates, and then labelled.

    sample  their scores
    labels  (n,) 1 = true, 0 = false

    Raises InputError for arrays of different lengths and for other labels.
    """

    sample: ScoreSample
    labels: Labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", as_labels(self.labels, len(self.sample)))

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: Bools | Ints) -> "LabelledCandidates":
        """Return some rows, given as a mask (n,) or as positions."""
        return LabelledCandidates(self.sample.part(rows), self.labels[rows])


def no_labels() -> LabelledCandidates:
    """Return no labelled candidate."""
    return LabelledCandidates(ScoreSample(np.empty(0)), np.empty(0))


@STORED.register("mixture")
@dataclass(frozen=True)
class MixtureData:
    """All scores of a fit.

    positives   true triples that the model was not trained on: the validation positives
    negatives   name of a strategy -> its corruptions, known facts left out
    candidates  the unlabelled triples that probabilities are wanted for
    labelled    further candidates, with labels
    shared      share of the positives that are also candidates, with or without labels, in [0, 1]. Then the samples are
                dependent, and the candidates are closer to the fitted mixture than independent ones would be

    Raises FitError if positives, corruptions or candidates are missing.
    """

    positives: ScoreSample
    negatives: Mapping[str, ScoreSample]
    candidates: ScoreSample
    labelled: LabelledCandidates = field(default_factory=no_labels)
    shared: float = 0.0

    def __post_init__(self) -> None:
        if not self.negatives:
            raise FitError("the mixture has no corruptions: name at least one strategy")
        samples = {"positives": self.positives, "candidates": self.candidates}
        samples |= {f"corruptions of {name}": sample for name, sample in self.negatives.items()}
        for name, sample in samples.items():
            if not len(sample):
                raise FitError(f"the mixture has no {name}: it needs at least one")

    @property
    def components(self) -> tuple[ScoreSample, ...]:
        """Return the samples of the components: the positives, then the corruptions of each strategy."""
        return (self.positives, *self.negatives.values())

    def with_scores(self, scores: Sequence[Scores]) -> "MixtureData":
        """Return the same rows with other scores.

        scores  those of the positives, of each strategy, of the candidates, and of the labelled candidates
        """
        positives, *negatives, candidates, labelled = [
            replace(sample, scores=some)
            for sample, some in zip((*self.components, self.candidates, self.labelled.sample), scores, strict=True)
        ]
        return replace(
            self,
            positives=positives,
            negatives=dict(zip(self.negatives, negatives, strict=True)),
            candidates=candidates,
            labelled=LabelledCandidates(labelled, self.labelled.labels),
        )

    def to_table(self) -> tuple[dict[str, npt.NDArray[Any]], Mapping[str, Any]]:
        """Return the columns kind, strategy, score, group, predicate and label, a row for each score, and metadata.

        kind      positive, corruption, candidate, or labelled: a candidate with a label
        strategy  that of a corruption; '' for other rows
        group, predicate, label
                  NONE for a row without one. A labelled candidate has the label 1 or 0
        """
        kinds = ["positive", *["corruption"] * len(self.negatives), "candidate", "labelled"]
        samples = [*self.components, self.candidates, self.labelled.sample]
        labels = [*[None] * (len(samples) - 1), self.labelled.labels.astype(np.int64)]
        lengths = [len(sample) for sample in samples]
        columns = {
            "kind": np.repeat(kinds, lengths),
            "strategy": np.repeat(["", *self.negatives, "", ""], lengths),
            "score": np.concatenate([sample.scores for sample in samples]),
            "group": np.concatenate([_or_none(sample.groups, len(sample)) for sample in samples]),
            "predicate": np.concatenate([_or_none(sample.predicates, len(sample)) for sample in samples]),
            "label": np.concatenate(list(map(_or_none, labels, lengths))),
        }
        return columns, {"strategies": list(self.negatives), "shared": self.shared}

    @classmethod
    def from_table(cls, columns: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """Read the output of `to_table`."""

        def sample(rows: Bools) -> ScoreSample:
            groups, predicates = (_given(columns[name][rows]) for name in ("group", "predicate"))
            return ScoreSample(columns["score"][rows], groups, predicates)

        kinds, strategies = columns["kind"], columns["strategy"]
        labelled = kinds == "labelled"
        return cls(
            sample(kinds == "positive"),
            {name: sample((kinds == "corruption") & (strategies == name)) for name in metadata["strategies"]},
            sample(kinds == "candidate"),
            LabelledCandidates(sample(labelled), columns["label"][labelled].astype(np.float64)),
            metadata["shared"],
        )

    def of_relations(self, predicates: Collection[int]) -> "MixtureData | None":
        """Return the scores of some predicates, or None if a sample has no row with one of them.

        Raises InputError if the predicates of a sample are not known.
        """
        parts = [sample.part(_rows(sample, predicates)) for sample in (*self.components, self.candidates)]
        if not all(len(part) for part in parts):
            return None
        labelled = self.labelled
        if len(labelled):
            labelled = labelled.part(_rows(labelled.sample, predicates))
        negatives = dict(zip(self.negatives, parts[1:-1], strict=True))
        return MixtureData(parts[0], negatives, parts[-1], labelled)


def _rows(sample: ScoreSample, predicates: Collection[int]) -> Bools:
    """Return the mask (n,) of the rows of some predicates. Raises InputError if the predicates are not known."""
    if sample.predicates is None:
        raise InputError("a sample of the mixture has no predicates: base rates by relation need those of every sample")
    return np.isin(sample.predicates, list(predicates))


def _or_none(values: Ints | None, size: int) -> Ints:
    return np.full(size, NONE, dtype=np.int64) if values is None else values.astype(np.int64)


def _given(values: Ints) -> Ints | None:
    return None if (values == NONE).all() else values


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

    def part(self, rows: Bools) -> "BinCounts":
        """Return the problems that a mask chooses."""
        return BinCounts(*(array[rows] for array in self._arrays()))

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
        places = np.searchsorted(edges, sample.scores, side="right")
        counts = np.bincount(places, minlength=bins).astype(np.float64)
        return counts / design_effect(places, sample.groups, bins)

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
