"""Gives the rows of a table of scores their probabilities, with intervals."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from kgcore.arrays import Ints
from kgcore.errors import InputError
from kgcore.external.calibrator import UNKNOWN, ScoreCalibrator
from kgcore.external.columns import Columns
from kgcore.external.read import read_column
from kgcore.external.tables import TableBlock

ANSWERS = ("probability", "low", "high")


@dataclass(frozen=True)
class ScoreAnswers:
    """Answers rows of scores with a calibrator.

    calibrator  the calibrator
    score       name of the column with the scores
    relation    name of the column with the relations; '' if there is none
    """

    calibrator: ScoreCalibrator
    score: str
    relation: str

    def columns(self) -> dict[str, str]:
        """Return the columns that the rows must have: option -> name, '' if it is not needed.

        Raises InputError if the calibrator needs relations and no column is named.
        """
        needed = self.calibrator.bound.calibrator.by_predicate
        if needed and not self.relation:
            raise InputError(
                f"the calibrator {self.calibrator.bound.name} has a map for each relation: name their column with "
                "--relation"
            )
        return {"--score": self.score, "--relation": self.relation if needed else ""}

    def table(self, path: Path, block: TableBlock) -> pa.Table:
        """Return the rows of a block with the columns of ANSWERS added: probability and its 95 % interval.

        path  the file, for messages

        Raises InputError for a wrong score, and if the rows have a column of ANSWERS.
        """
        taken = [name for name in ANSWERS if name in block.table.column_names]
        if taken:
            raise InputError(f"{path} already has the columns {', '.join(taken)} of the answers: leave them out")
        columns = Columns(path, block)
        scores = read_column(columns, self.score, self.calibrator.scale)
        found, table = self.calibrator.predict(scores, self._relations(columns)), block.table
        for name, values in zip(ANSWERS, found, strict=True):
            table = table.append_column(name, pa.array(values, from_pandas=True))
        return table

    def _relations(self, columns: Columns) -> Ints | None:
        if not self.calibrator.bound.calibrator.by_predicate:
            return None
        return columns.names(self.relation, self._numbers, new=UNKNOWN)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.calibrator.relations)}
