"""Scores candidates, validation positives and corruptions of each strategy: the samples of a mixture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Labels, Scores, Triples
from kgcore.config import CorruptConfig
from kgcore.corruptions.base import Corruptions, corrupt, subject_shares
from kgcore.corruptions.mixture import Mixture
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.mixture.relations import FEWEST
from kgcore.mixture.samples import NO_LABELS, LabelledCandidates, MixtureData, ScoreSample
from kgcore.models.scorer import Scorer
from kgcore.prediction.judged import Judged


def check_enough(judged: Judged, source: str) -> None:
    """Raise InputError if too few candidates have no label.

    source  the name of their file
    """
    unlabelled = int((~judged.labelled).sum())
    if unlabelled < FEWEST:
        why = "".join(f"; {note}" for note in judged.left_out())
        raise InputError(f"{source} has {unlabelled:,} usable candidates: it must have at least {FEWEST}{why}")


@dataclass(frozen=True)
class MixtureTriples:
    """The triples whose scores are the samples of a mixture.

    positives   (n, 3) the validation positives
    negatives   strategy -> its corruptions of the positives, known facts left out
    candidates  (u, 3) without labels
    labelled    (m, 3) candidates with labels
    labels      (m,) 1 = true, 0 = false
    shared      share of the positives that are also candidates, with or without labels, in [0, 1]
    """

    positives: Triples
    negatives: Mapping[str, Corruptions]
    candidates: Triples
    labelled: Triples
    labels: Labels
    shared: float

    @property
    def every(self) -> Triples:
        """All triples (N, 3): positives, the corruptions of each strategy, candidates, labelled candidates."""
        made = [corruptions.triples for corruptions in self.negatives.values()]
        return np.concatenate([self.positives, *made, self.candidates, self.labelled])

    def data(self, scores: Scores) -> MixtureData:
        """Return the samples of the mixture. A positive and its corruptions are one group.

        scores  (N,) those of `every`
        """
        parts = [self.positives, *(made.triples for made in self.negatives.values()), self.candidates, self.labelled]
        ends = np.cumsum([len(part) for part in parts])[:-1]
        groups = [np.arange(len(self.positives)), *(made.source for made in self.negatives.values()), None, None]
        own, *negatives, candidates, labelled = [
            ScoreSample(some, group, part[:, 1])
            for some, group, part in zip(np.split(scores, ends), groups, parts, strict=True)
        ]
        known = LabelledCandidates(labelled, self.labels) if len(self.labels) else NO_LABELS
        return MixtureData(own, dict(zip(self.negatives, negatives, strict=True)), candidates, known, self.shared)


def mixture_triples(
    judged: Judged, scorer: Scorer, graph: KnowledgeGraph, strategies: Sequence[str], eta: int, rng: np.random.Generator
) -> MixtureTriples:
    """Return the validation positives, corruptions of each strategy, and the candidates.

    scorer  the model of strategies that draw with a model
    eta     corruptions of each positive by each strategy, at least 1. Known facts among them are left out

    Raises InputError for too few validation positives.
    """
    from kgcore.models.trained import TrainedModel  # loads torch

    positives, known = graph.valid.positives, judged.labelled
    if len(positives) < FEWEST:
        raise InputError(f"{graph.name} has {len(positives):,} validation positives: scores need at least {FEWEST}")
    shares = subject_shares(graph, CorruptConfig().calibration_sides)
    negatives = {}
    for name in strategies:
        strategy = Mixture(graph, {name: 1.0})
        if strategy.by_model and isinstance(scorer, TrainedModel):
            strategy.see(scorer)
        negatives[name] = corrupt(positives, eta, strategy, rng, shares, graph.known)
    shared = float(graph.index(judged.triples).contains(positives).mean())
    unlabelled, labelled = judged.triples[~known], judged.triples[known]
    return MixtureTriples(positives, negatives, unlabelled, labelled, judged.labels[known], shared)


def mixture_data(
    judged: Judged, scorer: Scorer, graph: KnowledgeGraph, strategies: Sequence[str], eta: int, rng: np.random.Generator
) -> MixtureData:
    """Draw and score the triples of a mixture: see `mixture_triples`."""
    drawn = mixture_triples(judged, scorer, graph, strategies, eta, rng)
    return drawn.data(scorer.score(drawn.every))
