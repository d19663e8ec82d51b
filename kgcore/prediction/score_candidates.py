"""Scores candidates, validation positives and corruptions of each strategy: the samples of a mixture."""

from collections.abc import Sequence

import numpy as np

from kgcore.arrays import Ints, Triples
from kgcore.config import CorruptConfig
from kgcore.corruptions.base import corrupt
from kgcore.corruptions.mixture import Mixture
from kgcore.corruptions.sides import subject_shares
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


def mixture_data(
    judged: Judged, scorer: Scorer, graph: KnowledgeGraph, strategies: Sequence[str], eta: int, rng: np.random.Generator
) -> MixtureData:
    """Score the validation positives, corruptions of each strategy, and the candidates.

    eta  corruptions of each positive by each strategy, at least 1. Known facts among them are left out

    A positive and its corruptions are one group. Raises InputError for too few validation positives.
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
        made = corrupt(positives, eta, strategy, rng, shares, graph.known)
        negatives[name] = _sample(scorer, made.triples, made.source)
    labelled = NO_LABELS
    if known.any():
        labelled = LabelledCandidates(_sample(scorer, judged.triples[known]), judged.labels[known])
    own = _sample(scorer, positives, np.arange(len(positives)))
    shared = float(graph.index(judged.triples).contains(positives).mean())
    return MixtureData(own, negatives, _sample(scorer, judged.triples[~known]), labelled, shared)


def _sample(scorer: Scorer, triples: Triples, groups: Ints | None = None) -> ScoreSample:
    return ScoreSample(scorer.score(triples), groups, triples[:, 1])
