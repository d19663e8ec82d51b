"""The file of facts to label: how to write it, and how to read it with its labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from kgcore.arrays import Bools, Ints
from kgcore.audit.sample import Strata
from kgcore.datasets.formats.base import COLUMNS
from kgcore.errors import InputError, raise_faults
from kgcore.graph import KnowledgeGraph
from kgcore.prediction.candidates import read_candidates

LABEL, STRATUM, FACTS = "label", "stratum", "stratum_facts"
_NEEDED = (*COLUMNS, LABEL, STRATUM, FACTS)


def to_label(graph: KnowledgeGraph, strata: Strata, rows: Ints) -> pa.Table:
    """Return the facts to label as a table of text.

    rows  (m,) their positions among the training facts

    label          empty: the user writes 1 for a true fact and -1 for a wrong one
    stratum        number of the fact's stratum, from 1
    stratum_facts  number of training facts in this stratum

    The table has no probabilities, so that they cannot influence the person who labels.
    """
    table = pa.Table.from_pandas(graph.names_of(graph.train.positives[rows]), preserve_index=False)
    of = strata.of[rows]
    for name, values in ((LABEL, [""] * len(rows)), (STRATUM, of + 1), (FACTS, strata.counts[of])):
        table = table.append_column(name, pa.array([str(value) for value in values], pa.string()))
    return table


@dataclass(frozen=True)
class Labelled:
    """The labels of a stratified sample.

    strata      (m,) the stratum of each labelled fact, from 0
    counts      (H,) number of training facts in each stratum
    wrong       (m,) whether each labelled fact is wrong
    unlabelled  number of facts of the file without a label
    """

    strata: Ints
    counts: Ints
    wrong: Bools
    unlabelled: int


def read_labelled(path: Path, graph: KnowledgeGraph) -> Labelled:
    """Read a file that `to_label` made and a user has filled in.

    graph  the graph whose training facts the file samples

    Raises InputError if the file cannot be read or lacks a column, for other labels than 1, -1 and none, for a fact
    that is not a training fact or is there twice, and if the strata are not those of this graph.
    """
    frame = pd.concat([block.names.to_pandas() for block in read_candidates(path)] or [pd.DataFrame(columns=_NEEDED)])
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InputError(f"{path} has no column {', '.join(missing)}: use the file that `kgcal audit --sample` wrote")
    frame = frame.set_index(np.arange(2, len(frame) + 2))  # line numbers: the first line names the columns
    frame[LABEL] = frame[LABEL].fillna("").astype(str).str.strip()
    other = ~frame[LABEL].isin(["1", "-1", ""])
    faults = [
        f"{path}, row {row}: the label is {frame[LABEL][row]!r}: it must be 1, -1 or empty"
        for row in frame.index[other]
    ]
    triples, known = graph.number(frame)
    known[known] = graph.index(graph.train.positives).contains(triples[known])
    faults += [f"{path}, row {row}: this is no training fact of {graph.name}" for row in frame.index[~known]]
    faults += [f"{path}, row {row}: this fact is there twice" for row in frame.index[frame.duplicated(list(COLUMNS))]]
    raise_faults(faults)
    counts = _counts(path, frame, len(graph.train.positives))
    given = frame[frame[LABEL] != ""]
    strata = given[STRATUM].astype(np.int64).to_numpy() - 1
    return Labelled(strata, counts, (given[LABEL] == "-1").to_numpy(), len(frame) - len(given))


def _counts(path: Path, frame: pd.DataFrame, facts: int) -> Ints:
    """Return the number of facts of each stratum. Raises InputError if they do not sum to `facts`."""
    sizes = frame[[STRATUM, FACTS]].drop_duplicates()
    try:
        numbers = sizes.astype(np.int64).sort_values(STRATUM)
    except (ValueError, TypeError):
        raise InputError(f"{path}: the columns {STRATUM} and {FACTS} must be whole numbers") from None
    found = numbers[STRATUM].tolist()
    if found != list(range(1, len(found) + 1)) or numbers[FACTS].sum() != facts:
        raise InputError(
            f"{path}: the strata have {numbers[FACTS].sum():,} facts, and the graph has {facts:,} training facts: keep "
            "all rows of the file that `kgcal audit --sample` wrote for this graph"
        )
    return numbers[FACTS].to_numpy(dtype=np.int64)
