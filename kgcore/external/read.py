"""Reads a file of labelled scores as a score table, block by block."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgcore.arrays import Floats, Ints
from kgcore.config import ScoresConfig
from kgcore.datasets.formats.columns import MEANING
from kgcore.errors import InputError
from kgcore.external.calibrator import scorer_fingerprint
from kgcore.external.rows import table_of_rows
from kgcore.external.tables import SPLITS, TableBlock, read_table
from kgcore.score_table import ScoreTable


@dataclass(frozen=True)
class ScoreFile:
    """The labelled scores of a file.

    table      rows of valid, that calibrators are fitted on: those of the split valid, or all rows of a file without
               splits. Rows of test, on which the calibrators are measured; if there are none, cross-fitting measures
    of_train   number of rows of the split train, which are left out: a scorer fits its own training rows too well
    of_weight  number of rows with weight 0, which are left out
    """

    table: ScoreTable
    of_train: int = 0
    of_weight: int = 0


@dataclass
class _Columns:
    """The columns of the blocks that have been read."""

    scores: list[Floats] = field(default_factory=list)
    labels: list[npt.NDArray[np.int8]] = field(default_factory=list)
    weights: list[Floats] = field(default_factory=list)
    relations: list[Ints] = field(default_factory=list)
    splits: list[npt.NDArray[np.int8]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)

    def add(self, rows: TableBlock, config: ScoresConfig) -> None:
        """Add the rows of a block. Raises InputError for a wrong value."""
        self.scores.append(rows.scores(config.score, config.scale))
        self.labels.append(rows.codes(config.label, "label", MEANING))
        if config.weight:
            self.weights.append(rows.numbers(config.weight, "weight", 0.0))
        if config.relation:
            self.relations.append(rows.names(config.relation, self.names))
        if config.split:
            self.splits.append(rows.codes(config.split, "split", SPLITS))

    def file(self, config: ScoresConfig) -> ScoreFile:
        """Return the rows that are used, with relations in the order of their names."""
        splits = np.concatenate(self.splits) if self.splits else None
        weights = np.concatenate(self.weights) if self.weights else None
        weighty = np.ones(sum(map(len, self.scores)), dtype=bool) if weights is None else weights > 0
        used = weighty if splits is None else weighty & (splits > 0)
        names, numbers = sorted(self.names), None
        if names:
            place = np.empty(len(names), dtype=np.int64)
            place[[self.names[name] for name in names]] = np.arange(len(names))
            numbers = place[np.concatenate(self.relations)][used]
        table = table_of_rows(
            np.concatenate(self.scores)[used],
            np.concatenate(self.labels)[used].astype(np.float64),
            is_test=None if splits is None else (splits == SPLITS["test"])[used],
            weights=None if weights is None else weights[used],
            numbers=numbers,
            relations=tuple(names),
            model=scorer_fingerprint(config.named, config.scale),
            base_rate=config.base_rate,
        )
        return ScoreFile(table, 0 if splits is None else int((splits == 0).sum()), int((~weighty).sum()))


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
    return _read(path, replace(config, split=""), lambda done: None).table


def _read(path: Path, config: ScoresConfig, on_block: Callable[[float], None]) -> ScoreFile:
    columns = _Columns()
    wanted = {f"--{name}": str(getattr(config, name)) for name in ("score", "label", "weight", "relation", "split")}
    for block in read_table(path, wanted, all_columns=False):
        columns.add(block, config)
        on_block(block.done)
    file = columns.file(config)
    del columns
    pa.default_memory_pool().release_unused()  # millions of rows: the fits need the memory
    return file
