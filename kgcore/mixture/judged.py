"""Candidates to estimate their base rate from, some of them with labels, and the scores of a mixture of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Labels, Scores, Triples
from kgcore.config import CorruptConfig
from kgcore.data.datasets.labels import for_exam
from kgcore.data.formats.base import COLUMNS, NEGATED, column_word, read_candidates
from kgcore.data.formats.headers import LIKE_LABELS, denies
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Corruptions, Mixture, corrupt, subject_shares
from kgcore.embed.models.scorer import Scorer
from kgcore.errors import InputError
from kgcore.mixture.matched import FEWEST
from kgcore.mixture.samples import LabelledCandidates, MixtureData, ScoreSample, no_labels

LABEL, FOURTH = "label", "column_4"
MEANING = {"": -1, "1": 1, "-1": 0}  # text of a label -> 1 true, 0 false, -1 no label
_MOST_SHOWN = 3


@dataclass(frozen=True)
class JudgedCandidates:
    """The candidates that count, each once.

    triples  (n, 3) numbers of the names
    labels   (n,) 1 = true, 0 = false, -1 = no label
    rows     number of rows of the file
    unknown  rows with a name that the graph does not have; left out
    trained  rows that are training facts, whose scores are higher than those of other true triples; left out
    twice    further rows of a triple that is already there; left out
    hidden   candidates whose label belongs to the exam; they count as candidates without a label
    """

    triples: Triples
    labels: Labels
    rows: int
    unknown: int
    trained: int
    twice: int
    hidden: int = 0

    @property
    def labelled(self) -> Bools:
        """Return the mask (n,) of the candidates with a label."""
        is_labelled: Bools = self.labels >= 0
        return is_labelled

    def left_out(self) -> list[str]:
        """Return which rows are left out and why, in sentences."""
        reasons = {
            "have a name that the graph does not have": self.unknown,
            "are training facts, to which the model was fitted": self.trained,
            "repeat another row": self.twice,
        }
        notes = [f"left out: {n:,} of {self.rows:,} rows {reason}" for reason, n in reasons.items() if n]
        if self.hidden:
            notes.append(
                f"{self.hidden:,} of the {self.hidden + int(self.labelled.sum()):,} labels belong to the exam of "
                "`kgcal promote`: these triples count as candidates without a label"
            )
        return notes

    def without_exam(self, graph: KnowledgeGraph, share: float) -> Self:
        """Return the same candidates without the labels that belong to the exam: see `for_exam`.

        share  share of the labels that belong to the exam, in [0, 1)
        """
        rows = np.flatnonzero(self.labelled)
        exam = rows[for_exam(graph.names_of(self.triples[rows]), share)]
        labels = self.labels.copy()
        labels[exam] = -1.0
        return replace(self, labels=labels, hidden=len(exam))


def read_judged(path: Path, graph: KnowledgeGraph) -> JudgedCandidates:
    """Read a file of candidates (see `read_candidates`).

    Labels are 1 for true and -1 for false, in the column `label` or, without names of columns, in the fourth column. An
    empty label, or no such column, means that the candidate has no label. Of equal triples, one with a label counts.

    Raises InputError as `read_candidates` does, for other labels, and for a triple with two different ones.
    """
    tables = [block.names for block in read_candidates(path)]
    if not sum(map(len, tables)):
        raise InputError(f"{path} has no candidates: it must have a row for each")
    table = pa.concat_tables(tables)
    labels, names = _labels(path, table), table.select(COLUMNS).to_pandas()
    triples, known = graph.number(names)
    fits = known.copy()
    fits[known] = ~graph.index(graph.train.positives).contains(triples[known])
    kept, values = triples[fits], labels[fits]
    order = np.argsort(-values, kind="stable")  # true, false, no label
    _, first, of = np.unique(kept[order], axis=0, return_index=True, return_inverse=True)
    ranked, of = values[order], of.reshape(-1)
    if both := int(((ranked == 0) & (ranked[first][of] == 1)).sum()):
        raise InputError(f"{path} labels {both:,} triples both true and false: give each triple one label")
    rows = np.sort(order[first])
    counts = {"unknown": int((~known).sum()), "trained": int((known & ~fits).sum()), "twice": len(kept) - len(rows)}
    return JudgedCandidates(kept[rows], values[rows], rows=len(names), **counts)


def hidden_labels(graph: KnowledgeGraph, split: str) -> JudgedCandidates:
    """Return the triples of a held-out split, `valid` or `test`, as candidates whose labels are hidden.

    Raises InputError if none of them is labelled false: then all candidates would be true.
    """
    held_out = graph.valid if split == "valid" else graph.test
    if not len(held_out.negatives):
        raise InputError(f"{split} of {graph.name} has no triples that are labelled false: name a file of candidates")
    trained = graph.index(graph.train.positives).contains(held_out.triples)
    _, first = np.unique(held_out.triples[~trained], axis=0, return_index=True)
    kept, dropped = held_out.triples[~trained][np.sort(first)], int(trained.sum())
    twice = len(held_out) - dropped - len(kept)
    return JudgedCandidates(kept, np.full(len(kept), -1.0), rows=len(held_out), unknown=0, trained=dropped, twice=twice)


def _labels(path: Path, table: pa.Table) -> Labels:
    """Return the labels (n,) of the rows: 1, 0, or -1 if there is none."""
    column = next((name for name in (LABEL, FOURTH) if name in table.column_names), None)
    if column is None:
        like = [name for name in table.column_names if column_word(name) in LIKE_LABELS or denies(name) == NEGATED]
        if like:
            raise InputError(
                f"{path} has the column {like[0]}, which may say which candidates are true: call it {LABEL}, with 1 "
                "(true), -1 (false) or nothing in each row, or leave it out"
            )
        return np.full(len(table), -1.0)
    texts = table[column].cast(pa.string()).to_pandas().fillna("").str.strip()
    wrong = sorted(set(texts) - set(MEANING))
    if wrong:
        shown = ", ".join(repr(text) for text in wrong[:_MOST_SHOWN])
        raise InputError(f"{path} has the labels {shown}: a label must be 1 (true), -1 (false) or empty")
    labels: Labels = texts.map(MEANING).to_numpy(dtype=np.float64)
    return labels


def check_enough(judged: JudgedCandidates, source: str) -> None:
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
        return np.concatenate(self._parts)

    @property
    def _parts(self) -> list[Triples]:
        negatives = (corruptions.triples for corruptions in self.negatives.values())
        return [self.positives, *negatives, self.candidates, self.labelled]

    def data(self, scores: Scores) -> MixtureData:
        """Return the samples of the mixture. A positive and its corruptions are one group.

        scores  (N,) those of `every`
        """
        ends = np.cumsum([len(triples) for triples in self._parts])[:-1]
        groups = [np.arange(len(self.positives)), *(drawn.source for drawn in self.negatives.values()), None, None]
        positives, *negatives, candidates, labelled = [
            ScoreSample(block, group, triples[:, 1])
            for block, group, triples in zip(np.split(scores, ends), groups, self._parts, strict=True)
        ]
        known = LabelledCandidates(labelled, self.labels) if len(self.labels) else no_labels()
        return MixtureData(positives, dict(zip(self.negatives, negatives, strict=True)), candidates, known, self.shared)


def mixture_triples(
    judged: JudgedCandidates,
    scorer: Scorer,
    graph: KnowledgeGraph,
    strategies: Sequence[str],
    eta: int,
    rng: np.random.Generator,
) -> MixtureTriples:
    """Return the validation positives, corruptions of each strategy, and the candidates.

    scorer  the model of strategies that draw with a model
    eta     corruptions of each positive by each strategy, at least 1. Known facts among them are left out

    Raises InputError for too few validation positives.
    """
    from kgcore.embed.models.trained import TrainedModel  # loads torch

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
