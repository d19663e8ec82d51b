"""The training facts with the probabilities of models that have not seen them, from the least probable fact."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Floats, Ints, Probabilities, Scores, Triples
from kgcore.audit.folds import KEPT, only_facts
from kgcore.calibrated import CalibratedModel
from kgcore.calibration.shift import shift
from kgcore.graph import KnowledgeGraph
from kgcore.prediction.answers import TOO_LITTLE

REFERENCE = 0.5  # the base rate at which probabilities of different folds are compared
_LEAST = 1e-6  # a share of wrong facts counts as at least this value, and as at most 1 minus it


@dataclass(frozen=True)
class FoldScores:
    """The facts of a fold, scored by the model that has not seen them.

    rows         (n,) positions of the facts among the training facts
    scores       (n,) scores; those of different folds cannot be compared
    probability  (n,) probability that the fact is true, at the base rate REFERENCE; NaN: too little calibration data
    low, high    (n,) its 95 % confidence interval; NaN if the calibrator has none
    """

    rows: Ints
    scores: Scores
    probability: Probabilities
    low: Probabilities
    high: Probabilities


def score_fold(model: CalibratedModel, triples: Triples, rows: Ints, at_least: int) -> FoldScores:
    """Score the facts of a fold.

    model     the model of the fold, with its own calibrator
    triples   (n, 3) the facts of the fold, in the numbers of the whole graph, which are those of the fold's graph
    rows      (n,) their positions among the training facts
    at_least  fewest calibration triples of a predicate, true and false each, for which its facts get a probability
    """
    calibrator, predicates = model.calibrator.at(REFERENCE), triples[:, 1]
    scores = model.trained.score(triples)
    probability = calibrator.predict(scores, model.trained.fingerprint(), predicates)
    low, high = calibrator.interval(scores, probability, predicates)
    if calibrator.support is not None:
        few = calibrator.support.fewest(predicates) < at_least
        probability, low, high = (np.where(few, np.nan, values) for values in (probability, low, high))
    return FoldScores(rows, scores, probability, low, high)


@dataclass(frozen=True)
class AuditedFacts:
    """All training facts of a graph. The arrays have a row for each fact, in the order of the training split.

    graph        the whole graph
    fold         (n,) see `fact_folds`
    scores       (n,) NaN for a fact that is in no fold
    probability  (n,) at the base rate REFERENCE; NaN without an answer
    low, high    (n,) 95 % confidence interval of the probability
    """

    graph: KnowledgeGraph
    fold: Ints
    scores: Floats
    probability: Floats
    low: Floats
    high: Floats

    @property
    def answered(self) -> Bools:
        """Which facts have a probability (n,)."""
        return ~np.isnan(self.probability)

    def wrong(self, error_rate: float) -> Floats:
        """Return the probability that each fact is wrong (n,), if the share `error_rate` of all facts is wrong.

        NaN for a fact without an answer.
        """
        return 1 - self._at(error_rate, self.probability)

    def table(self, error_rate: float) -> pa.Table:
        """Return the facts as a table, from the least probable one.

        error_rate  share of wrong facts that the probabilities assume, in [0, 1]

        subject, predicate, object  names
        fold             the fold whose model has not seen the fact, from 1; missing for a fact in every training
        score            f(s, p, o) by that model
        probability      that the fact is true, among stored facts
        low, high        95 % confidence interval of the probability
        expected_wrong   expected number of wrong facts from the first row to this one: the sum of 1 - probability
        reason           why there is no answer; missing if there is one

        Facts of equal probability are in the order of their score's rank among the facts of their fold and predicate.
        Facts without an answer come last.
        """
        order = np.lexsort([self._place(), self.probability])  # NaN comes last
        triples, fold, answered = self.graph.train.positives[order], self.fold[order], self.answered[order]
        kept = fold == KEPT
        columns = [self._at(error_rate, values)[order] for values in (self.probability, self.low, self.high)]
        expected = np.cumsum(np.where(answered, 1 - columns[0], 0.0))
        table = pa.Table.from_pandas(self.graph.names_of(triples), preserve_index=False)
        named = {
            "fold": pa.array(fold + 1, mask=kept),
            "score": pa.array(self.scores[order], mask=kept),
            **{
                name: pa.array(values, mask=np.isnan(values))
                for name, values in zip(("probability", "low", "high"), columns, strict=True)
            },
            "expected_wrong": pa.array(expected, mask=~answered),
            "reason": pa.array(self._reasons(triples, kept, answered), pa.string()),
        }
        for name, column in named.items():
            table = table.append_column(name, column)
        return table

    def _at(self, error_rate: float, values: Floats) -> Floats:
        known, found = ~np.isnan(values), np.full(len(values), np.nan)
        true_share = float(np.clip(1 - error_rate, _LEAST, 1 - _LEAST))
        found[known] = shift(values[known], REFERENCE, true_share)
        return found

    def _place(self) -> Floats:
        """Return the rank of each score among the facts of its fold and predicate, in (0, 1]."""
        group = (self.fold + 1) * len(self.graph.predicates) + self.graph.train.positives[:, 1]
        order = np.lexsort([self.scores, group])
        sizes = np.bincount(group[order])
        first = np.cumsum(sizes) - sizes
        place = np.empty(len(order))
        place[order] = (np.arange(len(order)) - first[group[order]] + 1) / sizes[group[order]]
        return place

    def _reasons(self, triples: Triples, kept: Bools, answered: Bools) -> list[str | None]:
        reasons: list[str | None] = np.where(answered, None, TOO_LITTLE).tolist()  # type: ignore[call-overload]
        places = np.flatnonzero(kept)
        for place, names in zip(places.tolist(), only_facts(self.graph, triples[places]), strict=True):
            reasons[place] = f"the only fact of its {names}" if names else "no fold can leave it out"
        return reasons


def audited(graph: KnowledgeGraph, fold: Ints, scored: Sequence[FoldScores]) -> AuditedFacts:
    """Put the scores of all folds together.

    fold    (n,) the fold of each training fact
    scored  the scores of each fold
    """
    columns = {name: np.full(len(fold), np.nan) for name in ("scores", "probability", "low", "high")}
    for part in scored:
        for name, values in columns.items():
            values[part.rows] = getattr(part, name)
    return AuditedFacts(graph, fold, **columns)
