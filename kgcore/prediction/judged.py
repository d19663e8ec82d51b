"""Reads candidates to estimate their base rate from. Some of them may have labels."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from kgcore.arrays import Bools, Labels, Triples
from kgcore.datasets.formats.base import COLUMNS
from kgcore.datasets.labels import for_exam
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.prediction.candidates import read_candidates

LABEL, FOURTH = "label", "column_4"
MEANING = {"": -1, "1": 1, "-1": 0}  # text of a label -> 1 true, 0 false, -1 no label
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Judged:
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
        known: Bools = self.labels >= 0
        return known

    def left_out(self) -> list[str]:
        """Return which rows are left out and why, in sentences."""
        reasons = {
            "have a name that the graph does not have": self.unknown,
            "are training facts, to which the model was fitted": self.trained,
            "repeat another row": self.twice,
        }
        said = [f"left out: {n:,} of {self.rows:,} rows {reason}" for reason, n in reasons.items() if n]
        if self.hidden:
            said.append(
                f"{self.hidden:,} of the {self.hidden + int(self.labelled.sum()):,} labels belong to the exam of "
                "`kgcal promote`: these triples count as candidates without a label"
            )
        return said

    def without_exam(self, graph: KnowledgeGraph, share: float) -> Self:
        """Return the same candidates without the labels that belong to the exam: see `for_exam`.

        share  share of the labels that belong to the exam, in [0, 1)
        """
        rows = np.flatnonzero(self.labelled)
        exam = rows[for_exam(graph.names_of(self.triples[rows]), share)]
        labels = self.labels.copy()
        labels[exam] = -1.0
        return replace(self, labels=labels, hidden=len(exam))


def read_judged(path: Path, graph: KnowledgeGraph) -> Judged:
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
    _check_agreement(path, values[order], first, of.reshape(-1))
    rows = np.sort(order[first])
    counts = {"unknown": int((~known).sum()), "trained": int((known & ~fits).sum()), "twice": len(kept) - len(rows)}
    return Judged(kept[rows], values[rows], rows=len(names), **counts)


def hidden_labels(graph: KnowledgeGraph, split: str) -> Judged:
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
    return Judged(kept, np.full(len(kept), -1.0), rows=len(held_out), unknown=0, trained=dropped, twice=twice)


def _labels(path: Path, table: pa.Table) -> Labels:
    """Return the labels (n,) of the rows: 1, 0, or -1 if there is none."""
    column = next((name for name in (LABEL, FOURTH) if name in table.column_names), None)
    if column is None:
        return np.full(len(table), -1.0)
    texts = table[column].cast(pa.string()).to_pandas().fillna("").str.strip()
    wrong = sorted(set(texts) - set(MEANING))
    if wrong:
        shown = ", ".join(repr(text) for text in wrong[:_MOST_SHOWN])
        raise InputError(f"{path} has the labels {shown}: a label must be 1 (true), -1 (false) or empty")
    found: Labels = texts.map(MEANING).to_numpy(dtype=np.float64)
    return found


def _check_agreement(path: Path, values: Labels, first: np.ndarray, of: np.ndarray) -> None:
    """Raise InputError if equal triples have unequal labels. `first` has the row with each triple's greatest label."""
    both = int(((values == 0) & (values[first][of] == 1)).sum())
    if both:
        raise InputError(f"{path} labels {both:,} triples both true and false: give each triple one label")
