"""A fitted calibrator of scores, bound to the scorer that gave them, and its answers about rows of scores."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibrate.calibrated import Calibrated
from kgcore.errors import InputError, MismatchError, check_format, first_line
from kgcore.registries import STORED
from kgcore.storage.folders import read_sealed, reading, write_sealed
from kgcore.wings.external.tables import UNKNOWN, TableBlock, read_table

FORMAT, SCORE_CALIBRATOR_FILE = 2, "score_calibrator.json"
SCORE, RELATION, SCORER = "score", "relation", "scorer"  # columns of a frame
SCORE_ANSWERS = ("probability", "low", "high")


def scorer_fingerprint(scorer: str, scale: str) -> str:
    """Return a hash of the name of a scorer and the scale of its scores. It stands for the model of a calibrator."""
    return hashlib.sha256(f"{scale}\n{scorer}".encode()).hexdigest()[:32]


@STORED.register("score_calibrator")
@dataclass(frozen=True)
class ScoreCalibrator:
    """A calibrator of the scores of one scorer.

    scorer     name of the scorer
    scale      any, or probability: then the calibrator takes log-odds of the scores
    relations  names of the relations that it knows, in the order of their numbers
    bound      the fitted calibrator. Its model is `scorer_fingerprint`, its dataset the fingerprint of the rows
    """

    scorer: str
    scale: str
    relations: tuple[str, ...]
    bound: Calibrated

    @property
    def by_relation(self) -> bool:
        """Return whether it has a map for each relation."""
        return self.bound.calibrator.by_predicate

    def check_scorer(self, scorer: str) -> None:
        """Raise MismatchError if scores come from another scorer."""
        if scorer != self.scorer:
            raise MismatchError(
                f"the calibrator {self.bound.name} belongs to the scorer {self.scorer!r}, but the scores are of "
                f"{scorer!r}: if they are of the same scorer, give --scorer {self.scorer}"
            )

    def calibrate(self, scores: Scores, relations: Ints | None) -> tuple[Probabilities, Probabilities, Probabilities]:
        """Return probabilities (n,) and the ends (n,) of their 95 % confidence intervals, all in [0, 1].

        scores     (n,) on the scale of the calibrator; log-odds if it is `probability`
        relations  (n,) their numbers, UNKNOWN if unknown; None: no relations

        The intervals are those of `Calibrated.interval`. Raises InputError if relations are missing and needed.
        """
        q = self.bound.predict(scores, scorer_fingerprint(self.scorer, self.scale), relations)
        return q, *self.bound.interval(scores, q, relations)

    def answer(self, rows: TableBlock, score: str = SCORE, relation: str = RELATION) -> pa.Table:
        """Return rows with the columns of SCORE_ANSWERS added: the probability and its 95 % interval.

        score, relation  the columns with the scores and, if the calibrator has a map for each, the relations

        Raises InputError for a wrong score, for missing relations, and if the rows have a column of SCORE_ANSWERS.
        """
        table, numbers = rows.table, None
        taken = [name for name in SCORE_ANSWERS if name in table.column_names]
        if taken:
            raise InputError(f"{rows.source} already has the columns {', '.join(taken)} of the answers: leave them out")
        if self.by_relation:
            if relation not in table.column_names:
                lacks = f"; {rows.source} has no column {relation}" if relation else ""
                raise InputError(
                    f"the calibrator {self.bound.name} has a map for each relation: name their column with --relation"
                    f"{lacks}"
                )
            numbers = rows.names(relation, {name: number for number, name in enumerate(self.relations)})
            numbers[numbers >= len(self.relations)] = UNKNOWN
        answers = self.calibrate(rows.scores(score, self.scale), numbers)
        for name, values in zip(SCORE_ANSWERS, answers, strict=True):
            table = table.append_column(name, pa.array(values, from_pandas=True))
        return table

    def answer_file(self, path: Path, score: str, relation: str) -> Iterator[tuple[pa.Table, float]]:
        """Yield the answered blocks of a file, and the share of the file that has been read, in [0, 1].

        Raises InputError as `answer` and `read_table` do.
        """
        wanted = {"--score": score, "--relation": relation if self.by_relation else ""}
        for rows in read_table(path, wanted):
            yield self.answer(rows, score, relation), rows.done

    def predict(self, frame: pd.DataFrame, *, base_rate: float | None = None) -> pd.DataFrame:
        """Return the columns of SCORE_ANSWERS for the rows of a frame.

        frame      n rows with the columns score and, if the calibrator has a map for each, relation. An optional column
                   scorer has the name of the scorer
        base_rate  share of true rows that the probabilities assume, in (0, 1); None: that of the calibrator

        Raises InputError as `answer` and `at` do, MismatchError if the scores come from another scorer.
        """
        for scorer in frame[SCORER].dropna().unique() if SCORER in frame else ():
            self.check_scorer(str(scorer))
        if SCORE not in frame:
            raise InputError(f"the input has no column {SCORE}: it must have the scores")
        try:
            columns = {SCORE: pa.array(frame[SCORE], from_pandas=True)}
        except pa.ArrowException as error:
            raise InputError(f"the column {SCORE} must have numbers: {first_line(error)}") from error
        if self.by_relation and RELATION in frame:
            columns[RELATION] = pa.array(frame[RELATION].astype("string"), from_pandas=True)
        table = self.at(base_rate).answer(TableBlock("the input", pa.table(columns)))
        answers: pd.DataFrame = table.select(SCORE_ANSWERS).to_pandas()
        return answers.set_axis(frame.index)

    def at(self, base_rate: float | None) -> Self:
        """Return the calibrator for another base rate in (0, 1), as `Calibrated.at` does; itself for None."""
        return self if base_rate is None else replace(self, bound=self.bound.at(base_rate))

    def to_json(self) -> dict[str, Any]:
        """Return the calibrator as plain JSON."""
        names = {"scorer": self.scorer, "scale": self.scale, "relations": list(self.relations)}
        return {"format": FORMAT, **names, "calibrator": self.bound.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the calibrator that `to_json` wrote. Raises InputError for an unknown format."""
        check_format("calibrators of scores", data, FORMAT)
        bound = Calibrated.from_json(data["calibrator"])
        return cls(data["scorer"], data["scale"], tuple(data["relations"]), bound)

    def write(self, folder: Path) -> None:
        """Write score_calibrator.json to the folder."""
        write_sealed(folder / SCORE_CALIBRATOR_FILE, self.to_json())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the output of `write`. Raises InputError for a damaged file."""
        with reading(f"the calibrator of scores in {folder}"):
            return read_sealed(folder / SCORE_CALIBRATOR_FILE, cls.from_json)
