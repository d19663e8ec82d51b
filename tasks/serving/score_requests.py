"""The types of requests to the server of a scorer."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from kgcore.arrays import Ints, Scores
from kgcore.errors import InputError
from kgcore.external.calibrator import UNKNOWN, ScoreCalibrator
from kgcore.external.rows import log_odds
from tasks.serving.requests import BaseRate

MOST_ROWS = 100_000  # of a request to /predict


class ScoreRow(BaseModel):
    """A score, and its relation if the calibrator has a map for each relation."""

    model_config = ConfigDict(extra="forbid", strict=True)
    score: Annotated[float, Field(allow_inf_nan=False, description="score; a higher one means a more plausible row")]
    relation: Annotated[str | None, Field(description="relation of the row")] = None


class ScoresRequest(BaseModel):
    """A question about some scores."""

    model_config = ConfigDict(extra="forbid", strict=True)
    rows: Annotated[list[ScoreRow], Field(min_length=1, max_length=MOST_ROWS, description="scores")]
    base_rate: BaseRate = None
    scorer: Annotated[str | None, Field(description="scorer of the scores: it must be that of the calibrator")] = None


class ScoreFileQuery(BaseModel):
    """The format of a file of scores, and of the file of answers, and the names of its columns."""

    model_config = ConfigDict(extra="forbid")
    format: Annotated[str, Field(pattern="^(tsv|csv|parquet)$", description="format of both files")]
    score: Annotated[str, Field(description="column with the scores")] = "score"
    relation: Annotated[str, Field(description="column with the relations")] = "relation"
    base_rate: BaseRate = None


def columns_of(rows: Sequence[ScoreRow], calibrator: ScoreCalibrator) -> tuple[Scores, Ints | None]:
    """Return the scores (n,) on the scale of the calibrator, and the numbers (n,) of the relations, if it needs them.

    Raises InputError for a score outside [0, 1] if the scores are probabilities, and for a missing relation.
    """
    scores = np.array([row.score for row in rows])
    if calibrator.scale == "probability":
        for place in np.flatnonzero((scores < 0) | (scores > 1))[:1].tolist():
            raise InputError(
                f"rows[{place}].score is {scores[place]:g}: it must be in [0, 1], because the scores of "
                f"{calibrator.scorer} are probabilities"
            )
        scores = log_odds(scores)
    if not calibrator.bound.calibrator.by_predicate:
        return scores, None
    for place, row in enumerate(rows):
        if row.relation is None:
            raise InputError(
                f"rows[{place}].relation is missing: the calibrator {calibrator.bound.name} has a map for each relation"
            )
    numbers = {name: number for number, name in enumerate(calibrator.relations)}
    return scores, np.array([numbers.get(str(row.relation), UNKNOWN) for row in rows], dtype=np.int64)
