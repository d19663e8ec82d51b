"""Answers for candidate triples: score, probability, interval, decision, and the reason where there is no answer.

Candidates can be marked so that the expected share of false ones among the marked is at most a chosen level. The false
candidates are compared with the negatives of the calibration: labelled ones, or corruptions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.conformal import benjamini_hochberg_limit, conformal_p_values
from kgcore.arrays import Bools, Floats, Ints, Scores, Triples
from kgcore.calibrate.calibrated import UnseenProbabilities
from kgcore.calibrate.sample import CalibrationSample
from kgcore.data.formats.base import COLUMNS
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError

TOO_LITTLE = "too little calibration data for the predicate"
NOT_STATED = "the base rate of the candidates is not stated"
SUBJECT, PREDICATE, OBJECT = 1, 2, 4  # bits of the code of an unknown name
SIDES = {SUBJECT: "subject", OBJECT: "object", SUBJECT + OBJECT: "subject and object"}
_UNKNOWN = ("subject", "predicate", "object")
# The reasons by the bits of a code: 1 unknown subject, 2 unknown predicate, 4 unknown object; 8 is TOO_LITTLE.
REASONS = (
    None,
    *("unknown " + " and ".join(name for bit, name in enumerate(_UNKNOWN) if code >> bit & 1) for code in range(1, 8)),
    TOO_LITTLE,
)
NO_KNOWN_NAME = REASONS[SUBJECT | PREDICATE | OBJECT]
UNKNOWN_ENTITIES = {f"unknown {side}" for side in SIDES.values()}  # the reasons with a known predicate
ANSWERS = ("score", "probability", "low", "high", "decision", "known", "unseen", "reason")
FEWEST_NEGATIVES = 100  # the candidates of a predicate with fewer negatives have no p-values
P_VALUE, SELECTED = "p_value", "selected"


@dataclass(frozen=True)
class Answers:
    """Answers candidate triples with a calibrated model.

    model      the model. Its calibrator states the base rate of the probabilities
    threshold  a triple with a probability above it counts as true, in [0, 1]
    at_least   fewest calibration triples of a predicate, true and false each, for which its triples are answered
    """

    model: CalibratedModel
    threshold: float
    at_least: int

    def table(self, names: pa.Table) -> pa.Table:
        """Return the rows of `names` with the columns of ANSWERS added.

        names  the columns subject, predicate and object as strings, and any other columns

        score        f(s, p, o), any real number; missing if a name is unknown to training
        probability  calibrated, in [0, 1]; missing, as low, high and decision, if there is a reason for no answer
        low, high    the 95 % confidence interval of the probability, in [0, 1]; missing if the calibrator has none
        decision     whether the probability is above the threshold
        known        whether the triple is a known fact: a true triple of any split
        unseen       one of SIDES: the entities that training has not seen. The probability then rests on names, the
                     predicate and the other entity. Missing if training has seen both, or if there is no answer
        reason       why there is no answer: one of REASONS; missing if there is an answer

        Raises InputError if `names` has a column of ANSWERS, MismatchError if the calibrator was fitted to another
        model.
        """
        check_free(names.column_names)
        triples, code = self._numbers(names)
        named, by_names = code == 0, self._by_names(names, code)
        sides, asked = np.where(by_names, code, 0), named | by_names
        code[by_names] = 0
        if self.at_least and self.model.calibrator.support is not None and asked.any():
            few = self.model.calibrator.support.fewest(triples[asked, 1]) < self.at_least
            code[np.flatnonzero(asked)[few]] = 8
        n = len(triples)
        score, probability, low, high = (np.full(n, np.nan) for _ in range(4))
        score[named] = self.model.trained.score(triples[named])
        answered, calibrator = code == 0, self.model.calibrator
        by_score, unseen = answered & named, answered & by_names
        of, predicates = score[by_score], triples[by_score, 1]
        probability[by_score] = calibrator.predict(of, self._fingerprint, predicates)
        low[by_score], high[by_score] = calibrator.interval(of, probability[by_score], predicates)
        if unseen.any():
            of_unseen = self._about_unseen(names.filter(pa.array(unseen)), triples[unseen])
            probability[unseen], low[unseen], high[unseen] = of_unseen.probabilities, of_unseen.low, of_unseen.high
        known = np.zeros(n, dtype=bool)
        known[named] = self.model.graph.all_known.contains(triples[named])
        columns = {
            "score": pa.array(score, mask=~named),
            "probability": pa.array(probability, mask=~answered),
            "low": pa.array(low, mask=np.isnan(low)),
            "high": pa.array(high, mask=np.isnan(high)),
            "decision": pa.array(probability > self.threshold, mask=~answered),
            "known": pa.array(known, mask=~asked),
            "unseen": pa.array([SIDES.get(side) for side in np.where(unseen, sides, 0).tolist()], pa.string()),
            "reason": pa.DictionaryArray.from_arrays(pa.array(code, mask=answered), list(REASONS)).cast(pa.string()),
        }
        for name, column in columns.items():
            names = names.append_column(name, column)
        return names

    def under(self, base_rate: float | None, threshold: float, at_least: int) -> "Answers":
        """Return the answers of the same model under other conditions. They share the look-up tables of names.

        base_rate  share of true triples that the probabilities assume, in (0, 1); None: that of the calibrator

        Raises InputError if the base rate is out of range.
        """
        other = Answers(self.model if base_rate is None else self.model.at(base_rate), threshold, at_least)
        vars(other).update(_vocabularies=self._vocabularies, _fingerprint=self._fingerprint)  # fills the caches
        return other

    def named(self, triples: Triples) -> pa.Table:
        """Return triples (n, 3) as a table of names that `table` accepts."""
        columns = zip(COLUMNS, self._vocabularies, triples.T, strict=True)
        return pa.table({name: names.take(pa.array(numbers)) for name, names, numbers in columns})

    def numbers(self, names: pa.Table) -> tuple[Triples, Bools]:
        """Return the numbers (n, 3) of the names, -1 if unknown, and whether all three names (n,) are known."""
        triples, code = self._numbers(names)
        return triples, code == 0

    def _numbers(self, names: pa.Table) -> tuple[Triples, Ints]:
        """Return the numbers (n, 3) of the names, -1 if unknown, and the code (n,) of the reason: the bits 1, 2, 4."""
        columns = [_positions(names[name], known) for name, known in zip(COLUMNS, self._vocabularies, strict=True)]
        triples = np.stack(columns, axis=1)
        unknown: Bools = triples < 0
        return triples, (unknown @ np.array([1, 2, 4])).astype(np.int64)

    def _by_names(self, names: pa.Table, code: Ints) -> Bools:
        """Return which triples (n,) have an entity that training lacks, and get an answer from its name."""
        is_answered: Bools = (code > 0) & (code & PREDICATE == 0) & self.model.answers_unseen
        if is_answered.any():
            for column in ("subject", "object"):
                is_answered &= pc.fill_null(pc.not_equal(names[column], ""), False).to_numpy().astype(bool)
        return is_answered

    def _about_unseen(self, names: pa.Table, triples: Triples) -> UnseenProbabilities:
        """Answer triples (n, 3) of `names` with an entity that training lacks: -1."""
        numbered, new = numbered_unseen(self.model.graph, triples, [names["subject"], names["object"]])
        return self.model.answer_unseen(numbered, self.model.named.of(numbered, new))

    @cached_property
    def _vocabularies(self) -> tuple[pa.Array, pa.Array, pa.Array]:
        graph = self.model.graph
        entities, predicates = (
            pa.array(list(all_names), pa.string()) for all_names in (graph.entities, graph.predicates)
        )
        return entities, predicates, entities

    @cached_property
    def _fingerprint(self) -> str:
        return self.model.trained.fingerprint()


def without_probabilities(table: pa.Table) -> pa.Table:
    """Return a table of answers without probabilities and decisions: the base rate of the candidates is not known."""
    for name in ("probability", "low", "high", "decision"):
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.nulls(len(table), table[name].type))
    reasons = pc.fill_null(table["reason"], NOT_STATED)
    return table.set_column(table.column_names.index("reason"), "reason", reasons)


def numbered_unseen(
    graph: KnowledgeGraph, triples: Triples, sides: Sequence[pa.ChunkedArray]
) -> tuple[Triples, list[str]]:
    """Number the entities that training lacks. Return the triples, and the names: names[i] has the id E + i.

    triples  (n, 3) numbers; -1 for a subject or an object that training lacks
    sides    names (n,) of the subjects and of the objects
    """
    lacking = [names.filter(pa.array(triples[:, 2 * side] < 0)) for side, names in enumerate(sides)]
    new = pc.unique(pa.chunked_array([chunk for names in lacking for chunk in names.chunks], pa.string()))
    numbered = triples.copy()
    for column, names in zip((0, 2), lacking, strict=True):
        numbered[triples[:, column] < 0, column] = len(graph.entities) + _positions(names, new)
    return numbered, new.to_pylist()


def check_free(columns: Sequence[str]) -> None:
    """Raise InputError if candidates with these columns already have a column of ANSWERS."""
    taken = [name for name in ANSWERS if name in columns]
    if taken:
        raise InputError(f"the candidates already have the columns {', '.join(taken)} of the answers: leave them out")


def _positions(names: pa.ChunkedArray, vocabulary: pa.Array) -> Ints:
    """Return the position (n,) of each name in the vocabulary, -1 if it is not there."""
    places: Ints = pc.fill_null(pc.index_in(names, value_set=vocabulary), -1).to_numpy().astype(np.int64)
    return places


def table_of(triples: Sequence[Sequence[str]]) -> pa.Table:
    """Return triples of names as a table that `Answers.table` accepts."""
    return pa.table({name: pa.array([row[i] for row in triples], pa.string()) for i, name in enumerate(COLUMNS)})


@dataclass(frozen=True)
class Negatives:
    """The negatives of a calibration sample.

    scores  predicate -> scores of its negatives
    """

    scores: Mapping[int, Scores]

    @classmethod
    def of(cls, sample: CalibrationSample) -> Self:
        """Take the negatives of a sample with predicates. All of one predicate count the same: see `even_sample`."""
        assert sample.predicates is not None
        negative = sample.labels == 0
        predicates, scores = sample.predicates[negative], sample.scores[negative]
        return cls({p: scores[predicates == p] for p in np.unique(predicates).tolist()})

    def p_values(self, answers: Answers, table: pa.Table) -> Floats:
        """Return the conformal p-value (n,) of each answered triple: see `conformal_p_values`.

        table  a table of answers of n triples

        A triple is compared with the negatives of its own predicate. Its p-value is NaN in three cases: it has no
        score, its predicate has fewer than FEWEST_NEGATIVES negatives, or it is a fact of train or valid. The model or
        the calibrator was fitted to such a fact.
        """
        triples, named = answers.numbers(table)
        scores = table["score"].to_numpy()
        asked = named & ~answers.model.graph.known.contains(triples.clip(min=0))
        p: Floats = np.full(len(triples), np.nan)
        for predicate in np.unique(triples[asked, 1]).tolist():
            negatives, rows = self.scores.get(predicate, np.zeros(0)), asked & (triples[:, 1] == predicate)
            if len(negatives) >= FEWEST_NEGATIVES:
                p[rows] = conformal_p_values(scores[rows], negatives)
        return p


@dataclass
class Selection:
    """The selection among candidates that arrive in tables.

    counts  p-value -> number of candidates. There are at most as many different p-values as negatives
    """

    negatives: Negatives
    answers: Answers
    counts: Counter[float] = field(default_factory=Counter)

    def add(self, table: pa.Table) -> pa.Table:
        """Count the p-values of a table of answers. Return the table with the column p_value."""
        p = self.negatives.p_values(self.answers, table)
        values, numbers = np.unique(p[~np.isnan(p)], return_counts=True)
        self.counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        return table.append_column(P_VALUE, pa.array(p, mask=np.isnan(p)))

    def limit(self, level: float) -> float:
        """Return the largest p-value of the selected candidates, after all tables: see `benjamini_hochberg_limit`."""
        values = np.array(sorted(self.counts), dtype=np.float64)
        return benjamini_hochberg_limit(values, np.array([self.counts[value] for value in values]), level)


def mark(table: pa.Table, limit: float) -> pa.Table:
    """Add the column `selected` to a table of `Selection.add`. A row without a p-value has no value there."""
    p = table[P_VALUE].to_numpy()
    return table.append_column(SELECTED, pa.array(p <= limit, mask=np.isnan(p)))
