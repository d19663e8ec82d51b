"""A calibrated model, which maps triples of names to scores and probabilities."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Probabilities, Scores, Triples
from kgcore.base_rate import ESTIMATED, STATED, BaseRate
from kgcore.calibrate.calibrated import Calibrated, NamedTables, UnseenProbabilities
from kgcore.calibrate.fit import CANDIDATES, GROUND_TRUTH
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.scorer import Scorer
from kgcore.scores.table import Evidence


@dataclass(frozen=True)
class CalibratedModel:
    """What scores triples, a calibrator of these scores, and the graph with the names of entities and predicates.

    trained   an embedding model; a combiner of its score with other evidence; or the pool of several calibrated models:
              an ensemble
    labelled  (n, 3) candidates whose labels the calibrator was fitted to
    """

    trained: Scorer
    calibrator: Calibrated
    graph: KnowledgeGraph
    labelled: Triples = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64), compare=False)

    @property
    def label(self) -> str:
        """Return its name in tables and metrics: `synthetic.isotonic`, or `synthetic.linear` for an ensemble."""
        return self.calibrator.label

    @property
    def about(self) -> str:
        """Return what the probabilities of the stored calibrator are about."""
        return f"the probabilities are about {self.calibrator.about}, at the base rate {self.calibrator.rate}"

    @property
    def knows_base_rate(self) -> bool:
        """Return whether the base rate is that of triples like the calibration triples.

        It is if the user states it, if it comes from newly labelled triples, or from the candidates of the fit.
        """
        bound = self.calibrator
        labelled = bound.rate.origin == ESTIMATED and self.graph.labelled_base_rate is not None
        return labelled or bound.rate.origin == STATED or bound.negatives == CANDIDATES

    def at(self, base_rate: BaseRate | float) -> "CalibratedModel":
        """Return the same model with its calibrator at another base rate in (0, 1): see `Calibrated.at`."""
        return self.under(self.calibrator.at(base_rate))

    def under(self, calibrator: Calibrated) -> "CalibratedModel":
        """Return the same model with its calibrator at another base rate. They share the tables about names."""
        other = replace(self, calibrator=calibrator)
        if self.answers_unseen:
            vars(other).update(named=self.named)  # fills the cache
        return other

    @property
    def answers_unseen(self) -> bool:
        """Return whether it answers about entities that training has not seen."""
        return self.calibrator.unseen is not None

    @property
    def lacks(self) -> str:
        """Return why it does not answer about entities that training has not seen, as a sentence; '' if it does."""
        if self.answers_unseen:
            return ""
        start = f"The model ({self.label}) has no answers about entities that training has not seen"
        if self.calibrator.scorer is not None and self.calibrator.combined is None:
            return f"{start}: it is an ensemble."
        if self.calibrator.negatives != GROUND_TRUTH:
            return f"{start}: these need a calibrator that was fitted to labelled negatives."
        return (
            f"{start}: these need a run with calibrators that see evidence, evidence from names, and validation labels "
            "about such entities."
        )

    @cached_property
    def named(self) -> NamedTables:
        """What is known of names, for triples with an entity that training lacks, if the model answers about these."""
        assert self.calibrator.unseen is not None
        return self.calibrator.unseen.tables(self.trained, self.graph)

    def answer_unseen(self, triples: Triples, evidence: Evidence) -> UnseenProbabilities:
        """Return probabilities and intervals of triples (n, 3), whose evidence is that of `named`.

        They are at the calibrator's base rate. An interval of the base rate widens the intervals.
        """
        bound = self.calibrator
        assert bound.unseen is not None
        return bound.unseen.answers(triples, evidence, bound.base_rate, bound.rate.limits)

    def predict(self, names: pd.DataFrame, base_rate: float | None = None) -> tuple[Scores, Probabilities, Bools]:
        """Return scores (n,), probabilities (n,) in [0, 1], and a mask (n,) of the triples whose three names are known.

        names      n rows, columns subject, predicate, object. A row with an unknown name gets NaN for both values
        base_rate  assumed share of positives, in (0, 1); None = the base rate of the calibrator. Another base rate
                   needs no new fit: the logit of each probability changes by
                   logit(base_rate) - logit(base rate of the calibrator)

        Raises MismatchError if the calibrator was fitted to another model, and InputError if `base_rate` is outside
        (0, 1).
        """
        calibrator = self.calibrator if base_rate is None else self.calibrator.at(base_rate)
        triples, known = self.graph.number(names)
        scores, probabilities = np.full(len(names), np.nan), np.full(len(names), np.nan)
        scores[known] = self.trained.score(triples[known])
        probabilities[known] = calibrator.predict(scores[known], self.trained.fingerprint(), triples[known, 1])
        return scores, probabilities, known

    def fitted_on(self, names: pd.DataFrame) -> Bools:
        """Return a mask (n,) of the triples to which the model or the calibrator was fitted.

        These are the triples in train or valid, and labelled candidates.
        """
        triples, known = self.graph.number(names)
        fitted = np.zeros(len(names), dtype=bool)
        seen = self.graph.index(self.graph.train.triples, self.graph.valid.triples, self.labelled)
        fitted[known] = seen.contains(triples[known])
        return fitted
