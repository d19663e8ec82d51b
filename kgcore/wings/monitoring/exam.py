"""The exam of a data set: the frozen triples on which the champion and every challenger are compared.

An exam is made from the data alone, never by a candidate. Its triples, the *questions*, are names, so that models of
different graphs can be judged on it. The first part is made from the test split. The second part are field labels,
which people give to new triples: half of them belong to the exam (kgcore/data/datasets/labels.py).

* An *era* is the time between two champions that field labels have chosen. Field labels of different eras are kept
  apart.
* The *paper* is the part of the questions on which candidates are judged now: the test part, or the field labels of one
  era.
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from kgcore.arrays import Bools, Ints, Labels, Weights
from kgcore.calibrate.sample import base_rate_weights, both_labels
from kgcore.config import CorruptConfig
from kgcore.config.base import SplitRule
from kgcore.data.datasets.labels import for_exam
from kgcore.data.formats.base import COLUMNS
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture, corrupt, subject_shares
from kgcore.storage.tables import read_table, write_table
from kgcore.wings.monitoring.paired import PairedRows

ETA, SEED, MOST_POSITIVES = 20, 20_261_122, 10_000
FEWEST_OF_A_LABEL = 10
WEIGHT = "weight"
TEST = 0  # the era of the questions from the test split


@dataclass(frozen=True)
class Paper:
    """The questions on which candidates are judged: the test part of an exam, or the field labels of one era.

    names      n rows, columns subject, predicate, object
    labels     (n,) 1 = true, 0 = false
    clusters   (n,) a corruption has the number of its positive; every other triple has a number of its own
    era        TEST, or the number of the era of the field labels
    synthetic  whether the negatives are corruptions
    weights    (n,) above 0, if the questions have confidences: one with confidence c is two rows of one cluster, with
               label 1 and weight c, and with label 0 and weight 1 - c. None: every question is one row
    """

    names: pd.DataFrame
    labels: Labels
    clusters: Ints
    era: int
    synthetic: bool
    weights: Weights | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def digest(self) -> str:
        """Return a hash of the questions: papers with equal questions have equal hashes."""
        table = self.names.assign(label=self.labels.astype(int))
        if self.weights is not None:
            table = table.assign(weight=self.weights)
        text = table.to_csv(sep="\t", index=False, header=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def rows(self, chosen: Bools, base_rate: float | None) -> tuple[Bools, PairedRows]:
        """Return which questions count, as a mask (n,), and their labels, weights and clusters.

        chosen     (n,) the questions that both models can answer
        base_rate  share of positives that the weights give, in (0, 1); None: all weights are 1

        Weights of labelled triples depend on the label alone (`base_rate_weights`): exact if the scores of the
        positives and of the negatives keep their distributions, the assumption of kgcore/calibrate/sample.py.
        Corruptions are weighted by relation: known facts were dropped from them, in some relations more than in
        others, and must not change the base rate of a relation. A relation without corruptions or without positives
        does not count then.

        Raises InputError for a base rate out of range, FitError if positives or negatives are missing.
        """
        weights = np.ones(len(self))
        if base_rate is not None:
            relations = None
            if self.synthetic:
                relations = np.unique(self.names["predicate"].to_numpy(dtype=str), return_inverse=True)[1]
                chosen = chosen.copy()
                chosen[chosen] = both_labels(self.labels[chosen], relations[chosen])
                relations = relations[chosen]
            weights[chosen] = base_rate_weights(self.labels[chosen], base_rate, relations)
        if self.weights is not None:
            weights = weights * self.weights
        clusters = np.unique(self.clusters[chosen], return_inverse=True)[1].astype(np.int64)
        halves = self.weights is not None
        return chosen, PairedRows(self.labels[chosen], weights[chosen], clusters, base_rate is not None, halves)


@dataclass(frozen=True)
class Exam:
    """A version of the exam of a data set.

    dataset    name of the data set
    version    number of the version, from 1
    test       fingerprint of the test split that it was made from
    synthetic  whether the negatives of the test part are corruptions
    era        number of the era of the newest field labels, from 1. When field labels have chosen a champion, the next
               era begins: later challengers are judged on its labels
    questions  columns subject, predicate, object, label (1 / 0), cluster, era. A triple is in the field part once. If
               the test split has confidences, there is the column weight, too: see `Paper.weights`
    """

    dataset: str
    version: int
    test: str
    synthetic: bool
    era: int
    questions: pd.DataFrame = field(repr=False)

    def __post_init__(self) -> None:
        kinds = dict.fromkeys(COLUMNS, "str") | dict.fromkeys(("label", "cluster", "era"), "int64")
        if WEIGHT in self.questions:
            kinds[WEIGHT] = "float64"
            object.__setattr__(self, "questions", self.questions.fillna({WEIGHT: 1.0}))
        object.__setattr__(self, "questions", self.questions[list(kinds)].astype(kinds).reset_index(drop=True))

    def paper(self, at_least: int) -> Paper:
        """Return the questions on which candidates are judged now.

        These are the field labels of the newest era if there are at least `at_least` of them, with FEWEST_OF_A_LABEL or
        more of each label. If not, they are the labels of the era before, by which the champion was chosen. If there
        are none, they are the questions from the test split.
        """
        era = next((era for era in range(self.era, TEST, -1) if self._enough(era, at_least)), TEST)
        of_era = self.questions[self.questions["era"] == era].reset_index(drop=True)
        labels, clusters = of_era["label"].to_numpy(dtype=np.float64), of_era["cluster"].to_numpy(dtype=np.int64)
        weights = of_era[WEIGHT].to_numpy(dtype=np.float64) if WEIGHT in of_era and era == TEST else None
        return Paper(of_era[list(COLUMNS)], labels, clusters, era, self.synthetic and era == TEST, weights)

    def _enough(self, era: int, at_least: int) -> bool:
        true = self.questions.loc[self.questions["era"] == era, "label"].to_numpy(dtype=np.float64)
        fewest = min(true.sum(), len(true) - true.sum())
        return bool(fewest >= FEWEST_OF_A_LABEL and (len(true) >= at_least or era < self.era))

    def field_labels(self) -> int:
        """Return the number of field labels of the newest era."""
        return int((self.questions["era"] == self.era).sum())

    def with_labels(self, labelled: pd.DataFrame, share: float, graph: KnowledgeGraph) -> "Exam":
        """Return the next version, with the exam's half of new field labels; the same version if none is new.

        labelled  a table from `read_labels`
        share     share of the field labels that belong to the exam, in [0, 1)
        graph     the data: a triple of its splits is not new

        A field label of an earlier version is not new, either: it keeps its era. In the newest era, a question whose
        label has changed gets the new label.
        """
        of_exam = labelled[for_exam(labelled, share)]
        triples, known = graph.number(of_exam)
        held = np.zeros(len(of_exam), dtype=bool)
        index = graph.index(graph.train.triples, graph.valid.triples, graph.test.triples)
        held[known] = index.contains(triples[known])
        of_exam = of_exam[~held]
        questions = self.questions
        label = questions["label"].to_numpy(dtype=np.int64, copy=True)
        earlier = np.flatnonzero(questions["era"] != TEST)
        keys = pd.MultiIndex.from_frame(questions.iloc[earlier][list(COLUMNS)])
        place_in_exam = keys.get_indexer(pd.MultiIndex.from_frame(of_exam[list(COLUMNS)]))
        place = earlier[place_in_exam[place_in_exam >= 0]]
        again = questions["era"].to_numpy()[place] == self.era
        label[place[again]] = of_exam["label"].to_numpy()[place_in_exam >= 0][again].astype(np.int64)
        new = of_exam[place_in_exam < 0].sort_values(list(COLUMNS))
        if not len(new) and (label == questions["label"].to_numpy()).all():
            return self
        first = int(questions["cluster"].max()) + 1 if len(questions) else 0
        added = new[list(COLUMNS)].assign(
            label=new["label"].astype(np.int64), cluster=first + np.arange(len(new)), era=self.era
        )
        table = pd.concat([questions.assign(label=label), added], ignore_index=True)
        return replace(self, version=self.version + 1, questions=table)

    def next_era(self) -> "Exam":
        """Return the next version, in which new field labels begin a new era."""
        return replace(self, version=self.version + 1, era=self.era + 1)

    def with_test_of(self, graph: KnowledgeGraph, rule: SplitRule = SplitRule()) -> "Exam":
        """Return the next version, with the test split of a graph instead of the earlier one. Field labels stay."""
        new_exam = first_exam(graph, self.dataset, rule)
        field_part = self.questions[self.questions["era"] != TEST]
        first = int(new_exam.questions["cluster"].max()) + 1
        field_part = field_part.assign(cluster=first + np.arange(len(field_part)))
        table = pd.concat([new_exam.questions, field_part], ignore_index=True)
        return replace(new_exam, version=self.version + 1, era=self.era, questions=table)


def first_exam(graph: KnowledgeGraph, dataset: str, rule: SplitRule = SplitRule()) -> Exam:
    """Make version 1 of the exam from a graph.

    If the test split has confidences, or labelled negatives, its triples are the questions. If not, the questions are
    its positives, at most MOST_POSITIVES, and ETA corruptions of each: by the default strategy and sides of
    `CorruptConfig`, with the seed SEED, without the facts of any split. So neither the settings nor the model of a
    candidate matters.

    rule  how the splits were drawn. If it is by cold entities, corruptions keep them, and questions about one entity
          are one cluster
    """
    soft = graph.test.confidences is not None
    synthetic = not soft and not len(graph.test.negatives)
    triples, labels = graph.test.triples, graph.test.labels
    clusters = np.arange(len(triples), dtype=np.int64)
    weights: dict[str, Weights] = {}
    if soft:
        truth = graph.test.truth
        true, false = np.flatnonzero(truth > 0), np.flatnonzero(truth < 1)
        clusters, labels = np.r_[true, false], np.r_[np.ones(len(true)), np.zeros(len(false))]
        triples, weights = triples[clusters], {WEIGHT: np.r_[truth[true], 1 - truth[false]]}
    if synthetic:
        rng, usual = np.random.default_rng(SEED), CorruptConfig()
        positives = rng.permutation(graph.test.positives)[:MOST_POSITIVES]
        strategy = Mixture(graph, usual.calibration_strategy)
        shares = subject_shares(graph, rule.other_side or usual.calibration_sides)
        corruptions = corrupt(positives, ETA, strategy, rng, shares, graph.all_known)
        triples = np.concatenate([positives, corruptions.triples])
        labels = np.r_[np.ones(len(positives)), np.zeros(len(corruptions.triples))]
        clusters = np.r_[np.arange(len(positives)), corruptions.source].astype(np.int64)
    if rule.side:
        clusters = np.unique(triples[:, 0 if rule.side == "subject" else 2], return_inverse=True)[1].astype(np.int64)
    columns = {"label": labels.astype(np.int64), "cluster": clusters, "era": np.full(len(labels), TEST)}
    questions = graph.names_of(triples).assign(**columns, **weights)
    return Exam(dataset, 1, graph.test_fingerprint()[:16], synthetic, 1, questions)


def write_exam(path: Path, exam: Exam) -> None:
    """Write the columns subject, predicate, object, label, cluster and era, and weight if the exam has weights.

    The metadata has the other fields.
    """
    names = (*COLUMNS, "label", "cluster", "era", *([WEIGHT] if WEIGHT in exam.questions else []))
    columns = {name: exam.questions[name].to_numpy() for name in names}
    metadata = {"dataset": exam.dataset, "version": exam.version, "test": exam.test}
    write_table(path, columns, metadata | {"synthetic": exam.synthetic, "era": exam.era})


def read_exam(path: Path) -> Exam:
    """Read the output of `write_exam`."""
    columns, metadata = read_table(path)
    questions = pd.DataFrame({name: np.asarray(column) for name, column in columns.items()})
    return Exam(**metadata, questions=questions)
