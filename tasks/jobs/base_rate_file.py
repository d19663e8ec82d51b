"""Writes estimated base rates to a file of the user."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from kgcore.errors import InputError
from kgcore.prediction.sink import ENDINGS, sink
from kgcore.storage.json_file import write_json
from tasks.jobs.base_rate_result import BaseRateResult, RelationRow

JSON = ".json"
COLUMNS = pa.schema(
    [
        ("relation", pa.string()),
        ("base_rate", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("candidates", pa.int64()),
        ("labels", pa.int64()),
    ]
)


def check_output(output: str) -> None:
    """Raise InputError if the name of the output file has an unknown ending. '' means no file."""
    if output and Path(output).suffix.lower() not in (*ENDINGS, JSON):
        raise InputError(f"{output} is of an unknown kind: its name must end in {', '.join((*ENDINGS, JSON))}")


def write_estimates(output: str, found: BaseRateResult, everything: dict[str, object]) -> None:
    """Write the base rates to a file. '' means no file.

    .json                   `everything`
    .parquet, .csv or .tsv  a row for all candidates, without a relation, then a row for each relation

    Raises InputError if the file cannot be written.
    """
    if not output:
        return
    path = Path(output)
    if path.suffix.lower() == JSON:
        try:
            write_json(path, everything)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error
        return
    rows = [asdict(row) for row in (_overall(found), *found.relations)]
    rows[0]["relation"] = None
    with sink(path) as write:
        write(pa.Table.from_pylist(rows, COLUMNS))


def _overall(found: BaseRateResult) -> RelationRow:
    rate = found.rate
    unlabelled = found.mixture.candidates if found.mixture is not None else 0
    return RelationRow("", rate.value, rate.low, rate.high, unlabelled + found.labels, found.labels)
