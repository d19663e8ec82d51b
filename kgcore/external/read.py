"""Reads a file of labelled scores as a score table, block by block."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgcore.config import ScoresConfig
from kgcore.datasets.formats.columns import MEANING
from kgcore.errors import InputError
from kgcore.external.calibrator import scorer_fingerprint
from kgcore.external.rows import table_of_rows
from kgcore.external.tables import SPLITS, read_table
from kgcore.score_table import ScoreTable


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
    """Return the rows that are used, with relations in the order of their names.

    columns  the columns of the file
    names    name of a relation -> its number in the column
    """
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
