"""Explains the probability of one triple: calibration data, other base rates, alternatives, and near known facts."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kgcore.arrays import Floats, Scores, Triples
from kgcore.calibrated import CalibratedModel
from kgcore.calibration.sample import CalibrationSample
from kgcore.config import ExplainConfig
from kgcore.graph import TripleIndex
from kgcore.prediction.alternatives import Alternatives, ranked
from kgcore.prediction.contributions import Contribution, contributions_of
from kgcore.prediction.curve import CalibrationCurve, curve_of
from kgcore.prediction.domains import Domains
from kgcore.prediction.estimate import Estimate, Shifted, numbers
from kgcore.prediction.evidence import Evidence, evidence_of
from kgcore.prediction.near_names import frequent_predicates, positions, positions_of
from kgcore.prediction.nearest_facts import NearestFacts, Support
from kgcore.prediction.unseen_explanation import UnseenExplanation, explain_unseen
from kgcore.prediction.wording import sentences

BASE_RATES = (0.5, 0.1, 0.01, 0.001)
NEARLY_EQUAL = 0.02  # a rate of BASE_RATES within 2 % of the stated base rate is not shown


@dataclass(frozen=True, kw_only=True)
class Explanation(Estimate):
    """The score and the probability of a triple, and where they come from.

    subject, predicate, object  names
    known            the split of the triple if it is a known fact: train, valid, test or other; '' if it is not one
    labelled_false   whether the data set labels the triple as false
    off_type         whether the subject or the object does not fit the predicate: see `Domains.off_type`
    beyond           whether the evidence is stronger than that of every fact that the calibrator was fitted to, as far
                     as this is known
    score            score of the triple, any real number
    about            what the probability is about, in a sentence
    reason           a sentence that says why there is no probability; '' if there is one
    base_rate        share of true triples that the probabilities assume, in (0, 1)
    base_rate_text   the base rate and where it comes from: `0.494, estimated`
    calibrator       label of the calibrator, such as `synthetic.isotonic`
    by_predicate     whether the calibrator has a map for each predicate
    corruptions      how the false calibration triples were drawn: strategy -> share; empty if they are labelled
    normalised       whether the score is cohort-normalised; ranks use the score f before it
    at_base_rates    the probability at `BASE_RATES` and at `base_rate`, in descending order of the base rate
    evidence         the calibration triples of the predicate; None if there are none
    curve            the calibration curve of the predicate; None if there is a reason, or no range of scores is known
    objects          the rank of the object for (s, p, ?)
    subjects         the rank of the subject for (?, p, o)
    support          known facts that resemble the triple
    contributions    what each piece of evidence adds to the log-odds; empty if the calibrator sees the score alone, or
                     if there is no probability
    """

    subject: str
    predicate: str
    object: str
    known: str
    labelled_false: bool
    off_type: bool
    beyond: bool
    about: str
    score: float
    reason: str
    base_rate: float
    base_rate_text: str
    calibrator: str
    by_predicate: bool
    corruptions: dict[str, float]
    normalised: bool
    at_base_rates: tuple[Shifted, ...]
    evidence: Evidence | None
    curve: CalibrationCurve | None
    objects: Alternatives
    subjects: Alternatives
    support: Support
    contributions: tuple[Contribution, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation in words."""
        return tuple(sentences(self))

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON, and the key sentences."""
        return asdict(self) | {"sentences": list(self.sentences)}


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
        return explain_unseen(self.model, names, self._reason(p), self._rates)

    def explain(self, subject: str, predicate: str, object_: str) -> Explanation:
        """Explain the probability of a triple of names. Scores and probabilities equal those of `Answers`, to the bit.

        Raises InputError for a name that the graph does not have, and MismatchError if the calibrator was fitted to
        another model.
        """
        graph, bound = self.model.graph, self.model.calibrator
        s, p, o = positions_of(graph, (subject, predicate, object_))
        triple = np.array([[s, p, o]])
        as_subject, as_object = ranked(self.model.trained, triple, graph.all_known, p in self._reflexive)
        first, second = len(as_subject.shortlist), len(as_object.shortlist)
        rows = triple.repeat(1 + first + second, axis=0)
        rows[1 : 1 + first, 0], rows[1 + first :, 2] = as_subject.shortlist, as_object.shortlist
        scores, reason = self.model.trained.score(rows), self._reason(p)
        q = np.full((len(rows), 3), np.nan) if reason else self._probabilities(scores, rows)
        score, own, names, most = float(scores[0]), slice(1, 1 + first), graph.entities, self.config.alternatives
        return Explanation(
            subject=subject,
            predicate=predicate,
            object=object_,
            known=self._facts.split_of((s, p, o)),
            labelled_false=bool(self._false.contains(triple)[0]),
            off_type=bool(self._domains.off_type(triple)[0]),
            beyond=score > self.supported,
            about=self.missing or f"The probability is about {bound.about}, at the base rate {bound.rate}.",
            score=score,
            **numbers(q[0]),
            reason=reason,
            base_rate=bound.base_rate,
            base_rate_text=str(bound.rate),
            calibrator=self.model.label,
            by_predicate=bound.calibrator.by_predicate,
            corruptions={} if bound.corruptions is None else dict(bound.corruptions.strategy),
            normalised=self.model.trained.normalised,
            at_base_rates=() if reason or self.missing else self._at_base_rates(scores[:1], triple),
            evidence=None if self.sample is None else evidence_of(self.sample, p, score, bound.base_rate),
            curve=None if reason else curve_of(bound, self.sample, p, score),
            subjects=as_subject.alternatives(names, scores[own], q[own], most),
            objects=as_object.alternatives(names, scores[1 + first :], q[1 + first :], most),
            support=self._facts.of((s, p, o), self.config.facts),
            contributions=() if reason else contributions_of(self.model, triple, float(q[0, 0])),
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

    @cached_property
    def _rates(self) -> tuple[float, ...]:
        """The base rates at which the probability is shown, in descending order."""
        own = self.model.calibrator.base_rate
        return tuple(sorted([own, *(rate for rate in BASE_RATES if abs(rate / own - 1) > NEARLY_EQUAL)], reverse=True))

    @cached_property
    def _fingerprint(self) -> str:
        return self.model.trained.fingerprint()

    @cached_property
    def _domains(self) -> Domains:
        return Domains(self.model.graph)

    @cached_property
    def _facts(self) -> NearestFacts:
        return NearestFacts(self.model.trained, self.model.graph)

    @cached_property
    def _reflexive(self) -> frozenset[int]:
        """The predicates that have a training fact with the same subject and object."""
        facts = self.model.graph.train.positives
        return frozenset(facts[facts[:, 0] == facts[:, 2], 1].tolist())

    @cached_property
    def _false(self) -> TripleIndex:
        """The triples that the data set labels as false."""
        graph = self.model.graph
        return graph.index(*(split.negatives for split in (graph.train, graph.valid, graph.test)))
