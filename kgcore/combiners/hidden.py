"""Evidence about hidden facts: log-odds that tell them from false corruptions, by all that training knows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Probabilities, Triples, Weights
from kgcore.calibrate.hidden import MOST, chances_of, hidden_hits
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.config import CorruptConfig, EvidenceConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.evidence.base import Source
from kgcore.evidence.fold import FOLDS, fold_of
from kgcore.evidence.table import Features
from kgcore.scores.table import Evidence, ScoreTable

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

MOST_ROWS = 20_000  # distinct corruptions that the trees of a fold are fitted to


def with_hidden_facts(
    table: ScoreTable, graph: KnowledgeGraph, trained: "TrainedModel", config: CorruptConfig
) -> ScoreTable:
    """Return the score table of a model with `hidden_log_odds`, by the default groups of evidence.

    config  settings of the corruptions. Their seed gives the random numbers
    """
    rng = np.random.default_rng([config.calibration_seed, 2])
    return with_hidden_log_odds(table, Source(graph, trained), EvidenceConfig().evidence, rng)


def with_hidden_log_odds(
    table: ScoreTable, source: Source, groups: Sequence[str], rng: np.random.Generator
) -> ScoreTable:
    """Return the score table with `hidden_log_odds`; unchanged if it has few hits, or if no fact is hidden.

    source  the model and the graph. Training facts are the evidence
    groups  registered names of the groups of evidence

    Boosted trees learn twice. First, they tell validation facts, weighted by their hits, from the corruptions. This
    estimates log(v / u), with the density v of hits and u of corruptions, and `chances_of` makes it the probability
    that a corruption is true. Second, every corruption is a positive with this weight, beside the validation facts, and
    a negative with the rest; the number of trees is that of the first time. So the many hidden facts among the
    corruptions are no negatives any more, and the log-odds estimate log(v / f-), with the density f- of the false
    corruptions. This is a step of the EM algorithm, as in `fit_unlabelled`. A triple is judged by trees that have not
    seen it: the fold is a hash of the triple, which can occur in many corruptions.
    """
    if table.hits is None or not table.many_hits:
        return table
    share, hits = min(float(hidden_hits(table)[0].sum()), MOST), table.hits.sum(axis=1) * table.truth
    if not share:
        return table
    facts = hits > 0
    rows = np.flatnonzero(facts | table.corruptions())
    weights = np.where(facts, hits, 1.0 if table.weights is None else table.weights)[rows]
    distinct, place = np.unique(np.column_stack([table.triples[rows], facts[rows]]), axis=0, return_inverse=True)
    place, true, triples = place.reshape(-1), distinct[:, 3] == 1, distinct[:, :3]
    sums = np.bincount(place, weights).astype(np.float64)
    evidence = Features.of(source, groups).evidence(triples)
    chances = np.zeros(len(true))
    first, tuned = _cross_fit(BoostedTrees(), evidence, triples, true, sums, chances, rng)
    mean = float(np.average(first[true], weights=sums[true]))
    chances[~true] = chances_of(first[~true], sums[~true], mean, share)
    log_odds = np.full(len(table), np.nan)
    log_odds[rows] = _cross_fit(tuned, evidence, triples, true, sums, chances, rng)[0][place]
    return replace(table, hidden_log_odds=log_odds)


def _cross_fit(
    trees: BoostedTrees,
    evidence: Evidence,
    triples: Triples,
    true: Bools,
    sums: Weights,
    chances: Probabilities,
    rng: np.random.Generator,
) -> tuple[Floats, BoostedTrees]:
    """Return log-odds (n,) of triples by trees that were fitted to the other folds, and unfitted trees so tuned."""
    folds, log_odds = fold_of(triples), np.empty(len(true))
    for fold in range(FOLDS):
        facts, others = (np.flatnonzero((folds != fold) & own) for own in (true, ~true))
        if len(others) > MOST_ROWS:
            others = rng.choice(others, MOST_ROWS, replace=False)
        hidden = others[chances[others] > 0]
        rows = np.concatenate([facts, hidden, others])
        labels = np.r_[np.ones(len(facts) + len(hidden)), np.zeros(len(others))]
        parts = sums[facts], (sums * chances)[hidden], (sums * (1 - chances))[others]
        weights = np.concatenate([part / max(part.sum(), 1e-300) for part in parts])
        sample = EvidenceSample(evidence.names, evidence.values[rows], labels, weights, triples[rows, 1])
        fitted = trees.fit(sample.part(weights > 0), rng)
        own = folds == fold
        log_odds[own] = fitted.log_odds(evidence.values[own], triples[own, 1])
        trees = fitted.tuned()
    return log_odds, trees
