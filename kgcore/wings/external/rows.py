"""The rows of a file of scores as a score table, read block by block, in an order that is not that of the file."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgcore.arrays import Bools, Ints, Labels, Scores, Weights, draw_folds
from kgcore.base_rate import BaseRate
from kgcore.config import ScoresConfig
from kgcore.data.formats.columns import MEANING
from kgcore.errors import InputError
from kgcore.scores.table import LABELLED, ScoreTable
from kgcore.wings.external.calibrator import scorer_fingerprint
from kgcore.wings.external.tables import SPLITS, UNKNOWN, read_table

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

    scores     (n,) finite numbers, higher = more plausible
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
        labelled_base_rate=None if base_rate is None else BaseRate(base_rate),
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
    return np.array([*(place.get(name, UNKNOWN) for name in names), UNKNOWN])[relations]


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


@dataclass(frozen=True)
class ScoreFile:
    """The labelled scores of a file.

    table      its rows of valid fit the calibrators, and its rows of test measure them. A file without splits has only
               rows of valid, and cross-fitting measures
    of_train   number of rows of the split train, which are left out: a scorer fits its own training rows too well
    of_weight  number of rows with weight 0, which are left out
    """

    table: ScoreTable
    of_train: int = 0
    of_weight: int = 0


def read_scores(path: Path, config: ScoresConfig, on_block: Callable[[float], None] = lambda done: None) -> ScoreFile:
    """Read a file of labelled scores: .csv, .tsv, .txt or .parquet, with a header.

    config    the names of the columns, and the scale of the scores
    on_block  function that is called after each block, with the part of the file that has been read, from 0 to 1

    The rows of the result are in an order that does not depend on the order of the file. Labels are 1 or true, and 0,
    -1 or false. The split of a row is train, test, or valid, validation, dev or calibration.

    Raises InputError, with file and line, as `read_table` does, for wrong values, and if there are not at least two
    true and two false rows to fit on.
    """
    file = _read(path, config, on_block)
    splits = ["valid", *(["test"] if file.table.rows("test").any() else [])]
    for split in splits:
        true, false = (int(file.table.rows(split, label=label).sum()) for label in (1, 0))
        if min(true, false) < 2:
            which = f" of the split {split}" if config.split else ""
            raise InputError(
                f"{path} has {true:,} true and {false:,} false rows{which} with a weight above 0: calibrators need at "
                "least 2 of each"
            )
    return file


def read_new_rows(path: Path, config: ScoresConfig) -> ScoreTable:
    """Read all rows of a file of newly labelled scores, without weights and splits, as `read_scores` does.

    Raises InputError for wrong values, with file and line, and for a column of weights.
    """
    if config.weight:
        raise InputError(f"--weight {config.weight} is given: newly labelled rows are a random sample, without weights")
    return _read(path, config.replace(split=""), lambda done: None).table


def _read(path: Path, config: ScoresConfig, on_block: Callable[[float], None]) -> ScoreFile:
    columns, names = defaultdict[str, list[npt.NDArray[Any]]](list), dict[str, int]()
    wanted = {f"--{name}": str(getattr(config, name)) for name in ("score", "label", "weight", "relation", "split")}
    for block in read_table(path, wanted, all_columns=False):
        columns["scores"].append(block.scores(config.score, config.scale))
        columns["labels"].append(block.codes(config.label, "label", MEANING))
        if config.weight:
            columns["weights"].append(block.numbers(config.weight, "weight", 0.0))
        if config.relation:
            columns["relations"].append(block.names(config.relation, names))
        if config.split:
            columns["splits"].append(block.codes(config.split, "split", SPLITS))
        on_block(block.done)
    file = _file({name: np.concatenate(columns.pop(name)) for name in list(columns)}, names, config)
    pa.default_memory_pool().release_unused()  # millions of rows: the fits need the memory
    return file


def _file(columns: Mapping[str, npt.NDArray[Any]], names: Mapping[str, int], config: ScoresConfig) -> ScoreFile:
    """Return the rows that are used, with relations in the order of their names. names: relation -> its number."""
    ones = np.ones(len(columns["scores"]), dtype=np.int8)
    splits, weighty = columns.get("splits", ones), columns.get("weights", ones) > 0
    used, relations = weighty & (splits != SPLITS["train"]), sorted(names)
    place = np.argsort([names[name] for name in relations])  # number in the column -> number in order
    kept = columns if used.all() else {name: column[used] for name, column in columns.items()}
    table = table_of_rows(
        kept["scores"],
        kept["labels"].astype(np.float64),
        is_test=kept["splits"] == SPLITS["test"] if config.split else None,
        weights=kept.get("weights"),
        numbers=place[kept["relations"]] if config.relation else None,
        relations=tuple(relations),
        model=scorer_fingerprint(config.named, config.scale),
        base_rate=config.base_rate,
    )
    return ScoreFile(table, int((splits == SPLITS["train"]).sum()), int((~weighty).sum()))
