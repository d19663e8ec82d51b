"""Explains the probability of one triple: calibration data, other base rates, alternatives, and near known facts.

A triple with an entity that training has not seen is explained by what its name and the other entity say.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logit

from kgcore.answer.answers import SIDES, numbered_unseen, table_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.calibration_evidence import curve_of, evidence_of
from kgcore.answer.domains import Domains
from kgcore.answer.explanation import (
    CALIBRATION,
    CONSTANT,
    PREDICATE,
    Contribution,
    Explanation,
    UnseenExplanation,
    UnseenName,
)
from kgcore.answer.question import frequent_predicates, near_names, positions, positions_of
from kgcore.answer.similar import NearestFacts, Shifted, numbers, ranked
from kgcore.arrays import Floats, Ints, Scores, Triples
from kgcore.calibrate.calibrated import EvidenceModel, EvidenceScorer
from kgcore.calibrate.sample import CalibrationSample
from kgcore.config import ExplainConfig
from kgcore.scores.table import Evidence

BASE_RATES = (0.5, 0.1, 0.01, 0.001)
NEARLY_EQUAL = 0.02  # a rate of BASE_RATES within 2 % of the stated base rate is not shown


@dataclass(frozen=True)
class Explainer:
    """Explains triples with a calibrated model. The first explanation takes longer: it makes tables that are kept.

    model      the model. Its calibrator states the base rate of the probabilities
    sample     the sample that the calibrator was fitted on; None: not known, and explanations have no `evidence`
    config     how much an explanation shows
    missing    what the probabilities are about, if they are calibrated to missing facts; otherwise ''
    supported  highest score of a fact that the calibrator was fitted to; inf: not known
    """

    model: CalibratedModel
    sample: CalibrationSample | None = None
    config: ExplainConfig = ExplainConfig()
    missing: str = ""
    supported: float = np.inf

    def about(self, subject: str, predicate: str, object_: str) -> Explanation | UnseenExplanation:
        """Explain the probability of a triple of names, with an entity that training lacks, too, if the model can.

        Raises InputError for an unknown predicate, and for an unknown entity if the model has no answers about these.
        """
        graph, names = self.model.graph, (subject, predicate, object_)
        s, p, o = positions(graph, names)
        if p < 0 or min(s, o) >= 0 or not (subject and object_):
            return self.explain(*names)
        if not self.model.answers_unseen:
            positions_of(graph, names, self.model.lacks)
        return _explain_unseen(self.model, names, self._reason(p), self._rates)

    def explain(self, subject: str, predicate: str, object_: str) -> Explanation:
        """Explain the probability of a triple of names. Scores and probabilities equal those of `Answers`, to the bit.

        Raises InputError for a name that the graph does not have, and MismatchError if the calibrator was fitted to
        another model.
        """
        graph, bound = self.model.graph, self.model.calibrator
        s, p, o = positions_of(graph, (subject, predicate, object_))
        triple = np.array([[s, p, o]])
        (as_subject, subjects), (as_object, objects) = ranked(
            self.model.trained, triple, graph.all_known, p in self._domains.reflexive
        )
        first = len(subjects)
        rows = triple.repeat(1 + first + len(objects), axis=0)
        rows[1 : 1 + first, 0], rows[1 + first :, 2] = subjects, objects
        scores, reason = self.model.trained.score(rows), self._reason(p)
        q = np.full((len(rows), 3), np.nan) if reason else self._probabilities(scores, rows)
        score, side, most = float(scores[0]), slice(1, 1 + first), self.config.alternatives
        return Explanation(
            subject=subject,
            predicate=predicate,
            object=object_,
            known=self._facts.split_of((s, p, o)),
            labelled_false=bool(graph.labelled_false.contains(triple)[0]),
            off_type=bool(self._domains.off_type(triple)[0]),
            beyond=score > self.supported,
            about=self.missing or f"The probability is about {bound.about}, at the base rate {bound.rate}.",
            score=score,
            **numbers(q[0]),
            reason=reason,
            base_rate=bound.base_rate,
            base_rate_text=str(bound.rate),
            calibrator=self.model.label,
            by_predicate=bound.calibrator.by_predicate or self._one_predicate,
            corruptions={} if bound.corruptions is None else dict(bound.corruptions.strategy),
            normalised=self.model.trained.normalised,
            at_base_rates=() if reason or self.missing else self._at_base_rates(scores[:1], triple),
            evidence=None if self.sample is None else evidence_of(self.sample, p, score, bound.base_rate),
            curve=None if reason else curve_of(bound, self.sample, p, score),
            subjects=as_subject.with_best([graph.entities[i] for i in subjects], scores[side], q[side], most),
            objects=as_object.with_best(
                [graph.entities[i] for i in objects], scores[1 + first :], q[1 + first :], most
            ),
            support=self._facts.of((s, p, o), self.config.facts),
            contributions=() if reason else _contributions(self.model, triple, float(q[0, 0])),
        )

    def _reason(self, predicate: int) -> str:
        """Return why a predicate has no probabilities; '' if it has some."""
        graph, support, least = self.model.graph, self.model.calibrator.support, self.config.at_least
        if support is None or support.fewest(np.array([predicate]))[0] >= least:
            return ""
        positives, negatives = support.rows.get(predicate, (0, 0))
        return (
            f"there is too little calibration data for the predicate {graph.predicates[predicate]}: {positives:,} true "
            f"and {negatives:,} false triples, and at least {least:,} of each are needed (frequent predicates: "
            f"{', '.join(frequent_predicates(graph))})"
        )

    def _probabilities(self, scores: Scores, triples: Triples, base_rate: float | None = None) -> Floats:
        """Return probability, lower and upper end for each triple (n, 3) of scores (n,)."""
        bound = self.model.calibrator if base_rate is None else self.model.calibrator.at(base_rate)
        q = bound.predict(scores, self._fingerprint, triples[:, 1])
        return np.stack([q, *bound.interval(scores, q, triples[:, 1])], axis=1)

    def _at_base_rates(self, score: Scores, triple: Triples) -> tuple[Shifted, ...]:
        return tuple(
            Shifted(base_rate=rate, **numbers(self._probabilities(score, triple, rate)[0])) for rate in self._rates
        )

    @property
    def _one_predicate(self) -> bool:
        """Whether the calibrator was fitted to triples of one predicate alone: its map is that of the predicate."""
        support = self.model.calibrator.support
        return support is not None and len(support.rows) == 1

    @cached_property
    def _rates(self) -> tuple[float, ...]:
        """The base rates at which the probability is shown, in descending order."""
        stated = self.model.calibrator.base_rate
        others = (rate for rate in BASE_RATES if abs(rate / stated - 1) > NEARLY_EQUAL)
        return tuple(sorted([stated, *others], reverse=True))

    @cached_property
    def _fingerprint(self) -> str:
        return self.model.trained.fingerprint()

    @cached_property
    def _domains(self) -> Domains:
        return Domains(self.model.graph)

    @cached_property
    def _facts(self) -> NearestFacts:
        return NearestFacts(self.model.trained, self.model.graph)


def _explain_unseen(
    model: CalibratedModel, names: tuple[str, str, str], reason: str, rates: tuple[float, ...]
) -> UnseenExplanation:
    """Explain a triple with an entity that training lacks. The probability equals that of `Answers`, to the bit."""
    graph, bound = model.graph, model.calibrator
    triple = np.array([positions(graph, names)])
    table = table_of([names])
    numbered, new = numbered_unseen(graph, triple, [table["subject"], table["object"]])
    evidence = model.named.of(numbered, new)

    def at(rate: float) -> dict[str, float | None]:
        by = model if rate == bound.base_rate else model.at(rate)
        answers = by.answer_unseen(numbered, evidence)
        return numbers(np.array([answers.probabilities[0], answers.low[0], answers.high[0]]))

    interval = numbers(np.full(3, np.nan)) if reason else at(bound.base_rate)
    q, unseen = interval["probability"], bound.unseen
    assert unseen is not None
    return UnseenExplanation(
        subject=names[0],
        predicate=names[1],
        object=names[2],
        unseen=SIDES[int((triple[0, [0, 2]] < 0) @ np.array([1, 4]))],
        names=tuple(_name(model, name) for name in new),
        reason=reason,
        **interval,
        base_rate=bound.base_rate,
        base_rate_text=str(bound.rate),
        calibrator=model.label,
        at_base_rates=() if reason else tuple(Shifted(base_rate=rate, **at(rate)) for rate in rates),
        contributions=() if q is None else _divided(unseen.combined, evidence, triple[:, 1], q),
    )


def _name(model: CalibratedModel, name: str) -> UnseenName:
    words = tuple(dict.fromkeys(model.named.words(name)))
    shared = tuple(word for word in words if word in model.named.shared_words)
    new = tuple(word for word in words if word not in shared)
    return UnseenName(name, shared, new, tuple(near_names(name, model.graph.entities)))


def _contributions(model: CalibratedModel, triple: Triples, probability: float) -> tuple[Contribution, ...]:
    """Return what adds to the log-odds of the probability of a triple (1, 3); () if the score alone does."""
    scorer, combined = model.trained, model.calibrator.combined
    if combined is None or not isinstance(scorer, EvidenceModel):
        return ()
    return _divided(combined, scorer.evidence(triple), triple[:, 1], probability)


def _divided(
    combined: EvidenceScorer, evidence: Evidence, predicate: Ints, probability: float
) -> tuple[Contribution, ...]:
    """Divide the log-odds of a probability in (0, 1) among the evidence of its triple, one row. They sum to the logit.

    The constant comes first, then the features with the greatest contribution first, then the calibration.
    """
    constant, [parts] = combined.contributions(evidence, predicate)
    values = [*evidence.values[0].tolist(), np.nan]
    rows = [
        Contribution(name, None if np.isnan(value) else value, part)
        for name, value, part in zip((*evidence.names, PREDICATE), values, parts.tolist(), strict=True)
    ]
    rows.sort(key=lambda row: -abs(row.log_odds))
    rest = float(logit(probability)) - constant - float(parts.sum())
    return (Contribution(CONSTANT, None, constant), *rows, Contribution(CALIBRATION, None, rest))
