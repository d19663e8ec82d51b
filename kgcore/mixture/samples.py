"""The scores that a mixture is fitted to."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kgcore.arrays import Bools, Ints, Labels, Scores, as_floats, as_labels, same_length
from kgcore.errors import FitError, InputError


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
    mask: Bools = np.isin(sample.predicates, list(predicates))
    return mask
