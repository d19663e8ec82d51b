"""Probabilities of triples with entities that training has not seen: from names, the predicate and the known side.

A calibrated model has no score for such a triple. Its evidence is that of groups with `sees_unseen`
(kgcore/evidence/base.py). Few labelled triples have such entities: WN11 has 331 in valid, 1,329 in test. So the answer
has two parts. A combiner learns from all labelled triples of known entities, once with the subject and once with the
object hidden (`Features.hidden`). A calibrator and its band of confidence are fitted to the few rows with entities that
are really unseen, because their labels may depend on which side is unseen: intervals are as wide as so few rows ask.

The answer is stored as JSON, with the model and the graph that it was fitted to. Calibrators that were fitted to the
same labels hold it: kgcore/calibrate/calibrated.py.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from kgcore.arrays import Bools, Ints, Labels, Probabilities, Triples
from kgcore.calibrate.calibrated import UnseenProbabilities
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import ground_truth_sample, shift
from kgcore.calibrate.support import Band
from kgcore.combiners.base import Combined, Combiner, EvidenceSample
from kgcore.config import EvidenceConfig
from kgcore.config.calibrate import OF_NAMES, UNSEEN_COMBINER
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.scorer import Scorer
from kgcore.errors import InputError, MismatchError, check_format
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features, NamedEvidence
from kgcore.registries import COMBINERS, STORED
from kgcore.scores.table import Evidence, ScoreTable

FORMAT = 4
FEWEST = 20  # rows of each label that a kind of triple needs for a calibrator of its own


@STORED.register("unseen")
@dataclass(frozen=True)
class UnseenAnswers:
    """Answers about triples with entities that training has not seen.

    combined  evidence -> log-odds, with the groups of evidence and the model
    dataset   fingerprint of the graph that it was fitted on
    entities  number E of the entities that training has
    maps      calibrator of the log-odds, and its band: of triples with a known object, and with an unseen object
    base_rate share of true triples among the labelled triples of known entities, in (0, 1): the base rate of the fit
    """

    combined: Combined
    dataset: str
    entities: int
    maps: tuple[tuple[Platt, Band], tuple[Platt, Band]]
    base_rate: float

    @classmethod
    def fit(
        cls,
        model: str,
        dataset: str,
        name: str,
        combiner: Combiner,
        features: Features,
        known: Split,
        unseen: Split,
        rng: np.random.Generator,
    ) -> Self:
        """Fit to labelled triples. The combiner is fitted, too.

        model     fingerprint of the model
        dataset   fingerprint of the graph
        name      registered name of the combiner
        combiner  a combiner of this class that is not fitted
        features  groups of evidence, extended by the names of the unseen entities
        known     labelled triples of known entities
        unseen    labelled triples with an entity that training lacks: kgcore/data/datasets/read.py

        Raises InputError if `unseen` has fewer than FEWEST true or false triples. If only those with an unseen object,
        or only the others, are so few, both kinds share one calibrator.
        """
        counts = len(unseen.positives), len(unseen.negatives)
        if not can_fit(unseen):
            raise InputError(
                f"{counts[0]:,} true and {counts[1]:,} false labelled triples have an entity that training lacks: "
                f"a calibrator for them needs at least {FEWEST} of both"
            )
        evidence = features.evidence(known.triples)
        parts = [features.hidden(evidence, side).values for side in (0, 1)]
        predicates, labels = np.tile(known.triples[:, 1], 2), np.tile(known.labels, 2)
        sample = EvidenceSample(evidence.names, np.concatenate(parts), labels, np.ones(len(labels)), predicates)
        combiner = combiner.fit(sample, rng)
        scores = combiner.log_odds(features.evidence(unseen.triples).values, unseen.triples[:, 1])
        of_object = unseen.triples[:, 2] >= features.entities
        enough = all(_enough(unseen.labels[rows]) for rows in (~of_object, of_object))
        kinds = (~of_object, of_object) if enough else (np.ones(len(unseen), dtype=bool),) * 2
        first, second = (_map(scores[rows], unseen.labels[rows], unseen.triples[rows, 1]) for rows in kinds)
        combined = Combined(name, tuple(features.groups), evidence.names, model, combiner, name)
        return cls(combined, dataset, features.entities, (first, second), float(known.labels.mean()))

    def answers(
        self,
        triples: Triples,
        evidence: Evidence,
        base_rate: float | None = None,
        limits: tuple[float, float] | None = None,
    ) -> UnseenProbabilities:
        """Return the answers about triples (n, 3) with an entity that training lacks, from their evidence.

        base_rate  share of true triples that the probabilities assume, in (0, 1); None: that of the fit. Another one
                   adds a constant to all log-odds: kgcore/calibrate/sample.py
        limits     the ends of an interval of the base rate, which widens the intervals; None: it has none

        Raises MismatchError if the evidence has other features than those of the fit.
        """
        scores = self.combined.scores(evidence, triples[:, 1])
        q, low, high = np.empty((3, len(triples)))
        for (calibrator, band), rows in zip(self.maps, self._kinds(triples), strict=True):
            q[rows] = calibrator.calibrate(scores[rows])
            low[rows], high[rows] = band.limits(scores[rows])
        ends = limits or (base_rate, base_rate)
        q, low, high = (self._moved(one, to) for one, to in zip((q, low, high), (base_rate, *ends), strict=True))
        return UnseenProbabilities(q, np.minimum(low, q), np.maximum(high, q))

    def _moved(self, probabilities: Probabilities, base_rate: float | None) -> Probabilities:
        if base_rate is None or math.isclose(self.base_rate, base_rate, rel_tol=1e-12):
            return probabilities
        return shift(probabilities, self.base_rate, base_rate)

    def _kinds(self, triples: Triples) -> tuple[Bools, Bools]:
        unseen_object: Bools = triples[:, 2] >= self.entities
        return ~unseen_object, unseen_object

    def tables(self, trained: Scorer, graph: KnowledgeGraph) -> NamedEvidence:
        """Return what makes the evidence of triples for `answers`. Raises MismatchError as `check` does."""
        model = trained.embedding_models[0]
        self.check(model.fingerprint(), graph.fingerprint())
        return NamedEvidence(Source(graph, model), self.combined.groups, self.combined.features)

    def check(self, model: str, dataset: str) -> None:
        """Raise MismatchError unless it was fitted to the model and the graph with these fingerprints."""
        for what, own, given in (("model", self.combined.model, model), ("graph", self.dataset, dataset)):
            if own != given:
                raise MismatchError(
                    f"the answers about unseen entities were fitted to the {what} {own[:12]}, but the {what} here is "
                    f"{given[:12]}: use the files of one pipeline"
                )

    def to_json(self) -> dict[str, Any]:
        """Return the answers as plain JSON values, which hold no executable code."""
        maps = [{"parameters": platt.parameters(), "band": band.to_json()} for platt, band in self.maps]
        own = {"format": FORMAT, "dataset": self.dataset, "entities": self.entities, "base_rate": self.base_rate}
        return {**own, "combined": self.combined.to_json(), "maps": maps}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the output of `to_json`. Raises InputError for another format and for an unknown combiner."""
        check_format("answers about unseen entities", data, FORMAT)
        first, second = ((Platt.stored(m["parameters"]), Band.from_json(m["band"])) for m in data["maps"])
        combined = Combined.from_json(data["combined"])
        return cls(combined, data["dataset"], data["entities"], (first, second), data["base_rate"])


def fit_unseen(
    graph: KnowledgeGraph,
    names: Sequence[str],
    rows: Mapping[str, Split],
    features: Features,
    table: ScoreTable,
    config: EvidenceConfig,
) -> tuple[UnseenAnswers, UnseenProbabilities] | None:
    """Fit the answers about entities that training lacks. Return them, and those about the rows of test.

    None if names are no evidence, or if validation has too few labels of such triples.

    names     of these entities: names[i] has the id E + i, for E entities of train
    rows      valid and test -> their rows with such an entity
    features  the groups of evidence of the settings
    table     scores of the model that the evidence comes from
    """
    without = graph.valid.confidences is not None or not table.labelled_negatives("valid")
    if without or OF_NAMES.isdisjoint(config.evidence) or not can_fit(rows["valid"]):
        return None
    prints, labelled = (table.model, graph.fingerprint()), (graph.valid, rows["valid"])
    rng, combiner = np.random.default_rng(config.unseen_seed), COMBINERS.get(UNSEEN_COMBINER)()
    features, asked = features.extended(names), rows["test"].triples
    fitted = UnseenAnswers.fit(*prints, UNSEEN_COMBINER, combiner, features, *labelled, rng)
    return fitted, fitted.answers(asked, features.evidence(asked))


def can_fit(unseen: Split) -> bool:
    """Return whether labelled triples with unseen entities are enough for `UnseenAnswers.fit`."""
    return _enough(unseen.labels)


def _enough(labels: Labels) -> bool:
    return bool(min((labels == 1).sum(), (labels == 0).sum()) >= FEWEST)


def _map(scores: Probabilities, labels: Labels, predicates: Ints) -> tuple[Platt, Band]:
    sample = ground_truth_sample(scores, labels, predicates)
    return Platt().fit_sample(sample), Band.fit(sample)
