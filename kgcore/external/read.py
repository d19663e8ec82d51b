"""Reads a file of labelled scores, block by block."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgcore.arrays import Bools, Floats
from kgcore.config import ScoresConfig
from kgcore.errors import InputError
from kgcore.external.columns import LABELS, SPLITS, Columns
from kgcore.external.rows import ScoreRows, log_odds
from kgcore.external.tables import read_table


@dataclass(frozen=True)
class ScoreFile:
    """The labelled scores of a file.

    fit        rows that calibrators are fitted on: those of the split valid, or all rows of a file without splits
    test       rows of the split test, on which the calibrators are measured; None: cross-fitting measures them
    of_train   number of rows of the split train, which are left out: a scorer fits its own training rows too well
    of_weight  number of rows with weight 0, which are left out
    """

    fit: ScoreRows
    test: ScoreRows | None
    of_train: int = 0
    of_weight: int = 0

    @property
    def has_relations(self) -> bool:
        """Return whether the rows have relations."""
        return self.fit.relations is not None


@dataclass
class _Parts:
    """The columns of the blocks that have been read."""

    scores: list[Floats] = field(default_factory=list)
    positive: list[npt.NDArray[np.int8]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    relations: list[npt.NDArray[np.int32]] = field(default_factory=list)
    splits: list[npt.NDArray[np.int8]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def add(self, columns: Columns, config: ScoresConfig) -> None:
        """Add the rows of a block. Raises InputError for a wrong value."""
        self.scores.append(read_column(columns, config.score, config.scale))
        self.positive.append(columns.codes(config.label, "label", LABELS))
        if config.weight:
            self.weights.append(columns.numbers(config.weight, "weight", 0.0))
        if config.relation:
            self.relations.append(columns.names(config.relation, self.names).astype(np.int32))
        if config.split:
            self.splits.append(columns.codes(config.split, "split", SPLITS))

    def rows(self) -> ScoreRows:
        """Return all rows, with relations in the order of their names."""
        names = sorted(self.names)
        weights = np.concatenate(self.weights) if self.weights else None
        relations = None
        if self.relations:
            place = np.empty(len(names), dtype=np.int32)
            place[[self.names[name] for name in names]] = np.arange(len(names))
            relations = place[np.concatenate(self.relations)]
        return ScoreRows(np.concatenate(self.scores), np.concatenate(self.positive), weights, relations, tuple(names))


def read_column(columns: Columns, name: str, scale: str) -> Floats:
    """Return a column of scores (n,). If `scale` is `probability`, they are the log-odds of the column.

    Raises InputError for a value that is no finite number and, if `scale` is `probability`, is outside [0, 1].
    """
    scores = columns.numbers(name, "score")
    if scale != "probability":
        return scores
    if len(scores) and not 0 <= scores.min() <= scores.max() <= 1:
        row = int(np.flatnonzero((scores < 0) | (scores > 1))[0])
        place = f"{columns.path}, {columns.block.unit} {columns.block.first + row}"
        raise InputError(
            f"{place}: the score in the column {name} is {scores[row]:g}: with --scale probability it must be in [0, 1]"
        )
    return log_odds(scores)


def read_scores(path: Path, config: ScoresConfig, on_block: Callable[[float], None] = lambda done: None) -> ScoreFile:
    """Read a file of labelled scores: .csv, .tsv, .txt or .parquet, with a header.

    config    the names of the columns, and the scale of the scores
    on_block  function that is called after each block, with the part of the file that has been read, from 0 to 1

    The rows of the result are in an order that does not depend on the order of the file. Labels are 1 or true, and 0,
    -1 or false. The split of a row is train, test, or valid, validation, dev or calibration.

    Raises InputError, with file and line, as `read_table` does, for wrong values, and if there are not at least two
    true and two false rows to fit on.
    """
    rows, splits = _read_all(path, config, on_block)
    used = np.ones(len(rows), dtype=bool) if rows.weights is None else rows.weights > 0
    of_weight = len(rows) - int(used.sum())
    if splits is None:
        rows = rows if used.all() else rows.part(used)
        _check(path, rows, "")
        return ScoreFile(rows.in_order(), None, of_weight=of_weight)
    fit = _split(path, rows, used & (splits == SPLITS["valid"]), "valid")
    tested = used & (splits == SPLITS["test"])
    test = _split(path, rows, tested, "test") if tested.any() else None
    return ScoreFile(fit, test, int((splits == SPLITS["train"]).sum()), of_weight)


def read_new_rows(path: Path, config: ScoresConfig) -> ScoreRows:
    """Read all rows of a file of newly labelled scores, without weights, in the order of `read_scores`.

    Splits are ignored. Raises InputError for wrong values, with file and line, and for a column of weights.
    """
    if config.weight:
        raise InputError(f"--weight {config.weight} is given: newly labelled rows are a random sample, without weights")
    rows, _ = _read_all(path, replace(config, split=""), lambda done: None)
    return rows.in_order()


def _read_all(
    path: Path, config: ScoresConfig, on_block: Callable[[float], None]
) -> tuple[ScoreRows, npt.NDArray[np.int8] | None]:
    """Return the rows of a file in its order, and the split of each row, if there is a column of splits."""
    parts = _Parts()
    wanted = {f"--{name}": str(getattr(config, name)) for name in ("score", "label", "weight", "relation", "split")}
    for block in read_table(path, wanted, all_columns=False):
        parts.add(Columns(path, block), config)
        on_block(block.done)
    if not sum(map(len, parts.scores)):
        raise InputError(f"{path} has no rows after its header: it must have a row for each score")
    rows, splits = parts.rows(), np.concatenate(parts.splits) if parts.splits else None
    del parts
    pa.default_memory_pool().release_unused()  # millions of rows: the fits need the memory
    return rows, splits


def _split(path: Path, rows: ScoreRows, own: Bools, name: str) -> ScoreRows:
    found = rows.part(own)
    _check(path, found, f" of the split {name}")
    return found.in_order()


def _check(path: Path, rows: ScoreRows, which: str) -> None:
    true, false = rows.positives, len(rows) - rows.positives
    if min(true, false) < 2:
        raise InputError(
            f"{path} has {true:,} true and {false:,} false rows{which} with a weight above 0: calibrators need at "
            "least 2 of each"
        )
