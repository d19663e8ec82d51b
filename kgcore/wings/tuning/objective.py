"""The metric that a search optimises, measured on the validation split only: halves of its triples, and ranks.

A gain is what a model gains over a forecast that knows nothing, for a population that may be asked about. Each gain is
0 for that forecast and 1 for a perfect one, so their mean needs no weights:

* negatives      1 - B / B0: B is the Brier score against hard negatives, B0 that of the constant base rate
* answers        the filtered mean reciprocal rank among all entities as subjects and as objects
* missing_facts  the gain of the ranks of validation facts among random missing facts of their predicate: `rank_gain`
"""

from dataclasses import dataclass

import numpy as np

from kgcore.answer.domains import Domains
from kgcore.answer.population.draw import random_candidates
from kgcore.answer.population.population import Population
from kgcore.arrays import Bools, Floats, Labels, Probabilities, Scores, Triples, Weights
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import (
    CalibrationSample,
    base_rate_weights,
    both_labels,
    ground_truth_sample,
    soft_sample,
    synthetic_sample,
)
from kgcore.config import CorruptConfig
from kgcore.config.base import ALL, GAIN, MISSING_FACTS, OBJECTIVES, POPULATIONS
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.errors import FitError, InputError
from kgcore.measure.metrics.classification import accuracy, rank_gain, rank_metrics
from kgcore.measure.metrics.proper import brier, log_loss

RANKED = 512  # facts whose ranks are computed, at most
COMPARED = 50  # candidates of these ranks for each training triple, so that a training takes much longer
BLOCK = 128  # facts that are ranked together: multiples of this number are ranked fast
FACTS = 5_000  # facts that are ranked among missing facts, at most
CANDIDATES = 50_000  # missing facts that are drawn, at most; there are not more than training triples


class TimeIsUp(BaseException):
    """The signal that the time of a search or a race ended.

    It is not a subclass of Exception, so that `except Exception` does not catch it.
    """


@dataclass(frozen=True)
class ValidationHalves:
    """Validation triples in two halves. One half fits a calibrator, and the other half measures it.

    triples    (n, 3) the positives and the negatives
    labels     (n,) 1 for a positive, 0 for a negative: a labelled negative, or a corruption if none are labelled
    second     (n,) True if a triple is in the second half
    base_rate  weighted share of positives, in (0, 1), if the negatives are corruptions; None if they are labelled
    confidences
               (n,) confidences of the triples, in [0, 1]; None: the labels say what is true
    """

    triples: Triples
    labels: Labels
    second: Bools
    base_rate: float | None
    confidences: Probabilities | None = None

    @property
    def truth(self) -> Probabilities:
        """The confidences (n,) of the triples, or their labels: what the probabilities are measured by."""
        return self.labels if self.confidences is None else self.confidences

    @property
    def weights(self) -> Weights:
        """Return the weights (n,) of the triples.

        They are 1 if the negatives are labelled. Otherwise they make the weighted share of positives the base rate, in
        each relation.
        """
        if self.base_rate is None:
            return np.ones(len(self.labels))
        return base_rate_weights(self.labels, self.base_rate, self.triples[:, 1])

    def cross_fitted(self, scores: Scores) -> Probabilities:
        """Convert scores (n,) to probabilities (n,): an isotonic calibrator, fitted on one half, predicts the other."""
        q = np.empty(len(scores))
        for measured in (self.second, ~self.second):
            q[measured] = Isotonic().fit_sample(self._sample(scores, ~measured)).calibrate(scores[measured])
        return q

    def _sample(self, scores: Scores, rows: Bools) -> CalibrationSample:
        if self.confidences is not None:
            return soft_sample(scores[rows], self.confidences[rows])
        scores, labels, predicates = scores[rows], self.labels[rows], self.triples[rows, 1]
        if self.base_rate is None:
            return ground_truth_sample(scores, labels)
        both = (predicates[labels == 1], predicates[labels == 0])
        return synthetic_sample(scores[labels == 1], scores[labels == 0], self.base_rate, predicates=both)


def held_out(
    graph: KnowledgeGraph, config: CorruptConfig, base_rate: float, rng: np.random.Generator
) -> ValidationHalves:
    """Split the labelled validation triples into two random halves.

    Triples with confidences are measured against these. If the graph has no labelled negatives, corruptions of the
    positives are the negatives. A corruption is in the same half as its positive. Positives of a relation without
    corruptions are left out.

    config     settings and seed of the corruptions
    base_rate  share of positives among positives and corruptions, in (0, 1); not used if negatives are labelled
    rng        random generator of the halves

    Raises InputError if the graph has a test split, if a label has fewer than two triples, or if a strategy draws
    corruptions with a model, because such corruptions differ between trials.
    """
    if len(graph.test):
        raise InputError(f"the graph {graph.name} has a test split: a search needs a graph without one")
    valid, positives = graph.valid, graph.valid.positives
    soft, is_labelled = valid.confidences is not None, len(valid.negatives) > 0
    fewest = min(len(positives), len(valid.negatives)) if is_labelled and not soft else len(positives)
    if fewest < 2:
        raise InputError(
            f"the validation split has {fewest} triples of one label: a search needs at least 2 of each label"
        )
    if soft or is_labelled:
        return ValidationHalves(valid.triples, valid.labels, halves(valid.labels, rng), None, valid.confidences)
    strategy = Mixture(graph, config.calibration_strategy)
    if strategy.by_model:
        names = ", ".join(config.calibration_strategy)
        raise InputError(f"calibration_strategy is {names}: a search needs strategies that draw without a model")
    corruption_rng = np.random.default_rng(config.calibration_seed)
    shares, known = (
        subject_shares(graph, config.calibration_sides),
        graph.known if config.calibration_filtered else None,
    )
    corruptions = corrupt(positives, config.eta(len(positives)), strategy, corruption_rng, shares, known)
    second = halves(np.ones(len(positives)), rng)
    triples = np.concatenate([positives, corruptions.triples])
    labels = np.r_[np.ones(len(positives)), np.zeros(len(corruptions.triples))]
    used = both_labels(labels, triples[:, 1])
    return ValidationHalves(triples[used], labels[used], np.r_[second, second[corruptions.source]][used], base_rate)


def halves(labels: Labels, rng: np.random.Generator) -> Bools:
    """Choose a random half of the rows of each label. Return the mask (n,) of the second half for the labels (n,)."""
    second = np.zeros(len(labels), dtype=bool)
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(labels == label))
        second[rows[len(rows) // 2 :]] = True
    return second


def brier_gain(q: Probabilities, truth: Probabilities, weights: Weights) -> float:
    """Return 1 - B / B0, at most 1, of probabilities (n,) for labels or confidences (n,) with weights (n,).

    B is the Brier score, and B0 that of the weighted mean of the truth (Brier skill score: Murphy 1973).
    """
    constant = np.full(len(truth), np.average(truth, weights=weights))
    return 1 - brier(q, truth, weights) / max(brier(constant, truth, weights), 1e-300)


@dataclass(frozen=True)
class AnswerRanks:
    """Validation facts (m, 3) whose ranks among all answers to their two queries are computed, without known facts."""

    known: TripleIndex
    facts: Triples

    @classmethod
    def of(cls, graph: KnowledgeGraph, rng: np.random.Generator) -> "AnswerRanks":
        """Draw facts: fewer if the graph has few training triples for each entity."""
        wanted = COMPARED * len(graph.train) // (2 * len(graph.entities))
        number = np.clip(wanted // BLOCK * BLOCK, BLOCK, RANKED)
        return cls(graph.known, rng.permutation(graph.valid.positives)[:number])

    def figures(self, trained: TrainedModel) -> dict[str, float]:
        """Return `mrr`, the filtered mean reciprocal rank, which is also the gain `answers`."""
        mrr = rank_metrics(filtered_ranks(trained, self.facts, self.known))["mrr"]
        return {"mrr": mrr, "answers": mrr}


@dataclass(frozen=True)
class MissingFacts:
    """Validation facts (m, 3), and random missing facts (n, 3) of their predicates."""

    facts: Triples
    candidates: Triples

    @classmethod
    def of(cls, graph: KnowledgeGraph, rng: np.random.Generator) -> "MissingFacts | None":
        """Draw missing facts. Return None if they or the validation facts are too few."""
        population = Population.asked(Domains(graph), None, 1)
        if population is None:
            return None
        facts, most = rng.permutation(population.positives)[:FACTS], min(CANDIDATES, len(graph.train))
        return cls(facts, random_candidates(population, most, rng))

    def figures(self, trained: TrainedModel) -> dict[str, float]:
        """Return `missing_facts`, the gain."""
        ranks, sizes = self._ranks(trained.score(self.facts), trained.score(self.candidates))
        return {"missing_facts": rank_gain(ranks, sizes)}

    def _ranks(self, of_facts: Floats, of_candidates: Floats) -> tuple[Floats, Floats]:
        """Return the rank (m,) of each fact among the candidates of its predicate and itself, and their number (m,)."""
        ranks, sizes = np.ones(len(of_facts)), np.ones(len(of_facts))
        for predicate in np.unique(self.facts[:, 1]).tolist():
            rows = self.facts[:, 1] == predicate
            others = np.sort(of_candidates[self.candidates[:, 1] == predicate])
            below, up_to = (np.searchsorted(others, of_facts[rows], side) for side in ("left", "right"))
            ranks[rows], sizes[rows] = 1 + len(others) - (below + up_to) / 2, 1 + len(others)
        return ranks, sizes


class SearchObjective:
    """The measurement of a model on the validation split. A search optimises the metric with the name `metric`.

    brier, log_loss  scores of cross-fitted isotonic probabilities q. A calibrator that is fitted on one half of the
                     validation triples predicts the other half
    accuracy         accuracy of the decision q > 0.5 with the same probabilities
    mrr              filtered mean reciprocal rank of a sample of the positives
    gain             mean gain over the populations that the model is judged on

    The last two, and the gain of each population, are measured only if `metric` is one of them.

    Selection by cross-fitting: Stone, "Cross-Validatory Choice and Assessment of Statistical Predictions", 1974.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        metric: str,
        config: CorruptConfig,
        base_rate: float,
        rng: np.random.Generator,
        judged_on: str = ALL,
    ) -> None:
        """Draw the two halves of the validation triples, the positives that are ranked, and missing facts.

        config, base_rate  arguments of `held_out`, used if the graph has no labelled negatives
        rng                random generator of the draws
        judged_on          one of POPULATIONS whose gain counts alone; ALL: the mean counts. Triples with confidences
                           are judged on negatives only: no fact is certain

        Raises InputError if the metric is unknown, or for the reasons of `held_out`.
        """
        if metric not in OBJECTIVES:
            raise InputError(f"unknown metric {metric!r}: the known ones are {', '.join(OBJECTIVES)}")
        self.metric, self.held_out = metric, held_out(graph, config, base_rate, rng)
        soft = self.held_out.confidences is not None
        self._judged_on = POPULATIONS[:1] if soft else POPULATIONS if judged_on == ALL else (judged_on,)
        self._asked: list[AnswerRanks | MissingFacts] = [AnswerRanks.of(graph, rng)] if metric in ("mrr", GAIN) else []
        missing = MissingFacts.of(graph, rng) if metric == GAIN and MISSING_FACTS in self._judged_on else None
        if missing:
            self._asked.append(missing)
        elif self._judged_on == (MISSING_FACTS,):
            raise InputError(f"the graph {graph.name} has too few missing or validation facts to judge models on")

    def measure(self, trained: TrainedModel) -> dict[str, float]:
        """Return metric name -> value for the model. Raises FitError if a score of the model is not finite."""
        held = self.held_out
        scores = trained.score(held.triples)
        if not np.isfinite(scores).all():
            raise FitError("some scores of the validation triples are not finite numbers: lower the learning rate")
        q, judged = held.cross_fitted(scores), (held.truth, held.weights)
        figures = {"brier": brier(q, *judged), "log_loss": log_loss(q, *judged), "accuracy": accuracy(q > 0.5, *judged)}
        for population in self._asked:
            figures |= population.figures(trained)
        if self.metric == GAIN:
            figures["negatives"] = brier_gain(q, *judged)
            figures[GAIN] = float(np.mean([figures[name] for name in self._judged_on if name in figures]))
        return figures
