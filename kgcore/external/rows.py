"""The rows of a file of scores as a score table, which does not depend on the order of the file."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kgcore.arrays import Bools, Ints, Labels, Scores, Weights
from kgcore.calibration.folds import draw_folds
from kgcore.errors import InputError
from kgcore.score_table import LABELLED, ScoreTable

UNKNOWN = -1  # number of a relation without labelled rows
MOST_STORED = 1_000_000  # rows of a fit that are stored


def table_of_rows(
    scores: Scores,
    labels: Labels,
    *,
    is_test: Bools | None = None,
    weights: Weights | None = None,
    numbers: Ints | None = None,
    relations: tuple[str, ...] = (),
    model: str = "",
    base_rate: float | None = None,
) -> ScoreTable:
    """Return n labelled rows as a score table, in increasing order of score, label, weight and relation.

    scores     (n,) any finite numbers, higher = more plausible
    labels     (n,) 1 = true, 0 = false
    is_test    (n,) whether a row is in the split test; None: all rows are in the split valid
    weights    (n,) above 0; None: all rows have the same weight
    numbers    (n,) position of the relation in `relations`; None: the rows have no relations
    model      fingerprint of the scorer
    base_rate  share of true rows, in (0, 1), that calibrators are fitted to; None: that of the rows

    The data set of the table is a hash of the rows of valid.
    """
    keys = [key for key in (numbers, weights, labels, scores) if key is not None]
    order = np.lexsort(keys)
    triples = np.broadcast_to(np.int64(0), (len(order), 3))  # takes no memory
    if numbers is not None:
        triples = np.stack([np.zeros_like(order), numbers[order], np.zeros_like(order)], axis=1)
    table = ScoreTable(
        triples=triples,
        labels=labels[order],
        scores=scores[order],
        split=np.broadcast_to("valid", len(order)) if is_test is None else np.where(is_test, "test", "valid")[order],
        origin=np.broadcast_to(LABELLED, len(order)),
        model=model,
        dataset="",
        labelled_base_rate=base_rate,
        weights=None if weights is None else weights[order],
        relations=relations,
    )
    return replace(table, dataset=_fingerprint(table if is_test is None else table.part(table.rows("valid"))))


def _fingerprint(table: ScoreTable) -> str:
    """Return a hash of the rows of a table."""
    digest = hashlib.sha256("\n".join(table.relations).encode())
    for column in (table.scores, table.labels, table.weights, table.triples[:, 1] if table.relations else None):
        digest.update(b"|" if column is None else np.ascontiguousarray(column).data)
    return digest.hexdigest()[:32]


def joined(tables: Sequence[ScoreTable], base_rate: float | None) -> ScoreTable:
    """Return the rows of all tables of one scorer, for calibrators at a base rate: see `table_of_rows`.

    If some tables have weights, a row of a table without weights gets their mean weight. Relations are numbered again.

    Raises InputError if only some of the tables have relations.
    """
    with_relations = [bool(table.relations) for table in tables]
    if any(with_relations) != all(with_relations):
        raise InputError("only some of the rows have relations: name the column of relations for all, or for none")
    relations = tuple(sorted({name for table in tables for name in table.relations}))
    numbers = [renumbered(table.relations, relations, table.triples[:, 1]) for table in tables]
    weights = [table.weights for table in tables if table.weights is not None]
    if weights:
        mean = float(np.concatenate(weights).mean())
        weights = [np.full(len(table), mean) if table.weights is None else table.weights for table in tables]
    return table_of_rows(
        np.concatenate([table.scores for table in tables]),
        np.concatenate([table.labels for table in tables]),
        is_test=np.concatenate([table.rows("test") for table in tables]),
        weights=np.concatenate(weights) if weights else None,
        numbers=np.concatenate(numbers) if relations else None,
        relations=relations,
        model=tables[0].model,
        base_rate=base_rate,
    )


def renumbered(names: Sequence[str], others: Sequence[str], relations: Ints) -> Ints:
    """Return relations (n,), given by their positions in `names`, by those in `others`; UNKNOWN if they are not there.

    Without names, every relation is unknown.
    """
    place = {name: number for number, name in enumerate(others)}
    numbers: Ints = np.array([*(place.get(name, UNKNOWN) for name in names), UNKNOWN])[relations]
    return numbers


def stored_rows(table: ScoreTable, most: int = MOST_STORED) -> ScoreTable:
    """Return the rows of valid: at most `most`, equally many from every part of the scores."""
    rows = np.flatnonzero(table.rows("valid"))
    return table.part(rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(np.int64)])


def in_halves(new: ScoreTable, seed: int) -> ScoreTable:
    """Divide rows at random: a half in valid, and a half in test. True rows are spread evenly."""
    fold = draw_folds(np.arange(len(new)), new.labels, 2, np.random.default_rng(seed))
    return replace(new, split=np.where(fold == 0, "valid", "test"))


def tables_after(answer: str, old: ScoreTable, new: ScoreTable, base_rate: float, fewest: int) -> dict[str, ScoreTable]:
    """Return the tables to fit calibrators to again after drift: the rows of valid in words -> the table.

    answer     shift: the base rate has moved, so the old rows are weighted to the new one. refit: the map has moved.
               Then the old rows show the old map, and the new ones are few: they are fitted with the old rows, and
               alone if at least `fewest` are true and as many false. The measured rows decide which of them is better
    old        rows that the calibrator was fitted to
    new        new rows, in halves: those of test measure
    base_rate  the new base rate, in (0, 1)

    Raises InputError as `joined` does.
    """
    if answer == "shift":
        what = "the rows of the last fit, weighted to the new base rate"
        return {what: joined([old, new.part(new.rows("test"))], base_rate)}
    tables = {"the rows of the last fit and half of the new ones": joined([old, new], base_rate)}
    true, false = (int(new.rows("valid", label=label).sum()) for label in (1, 0))
    if min(true, false) >= fewest:
        tables["half of the new rows"] = joined([new], base_rate)
    return tables
