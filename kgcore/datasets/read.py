"""Reading tab-separated triples, with the line of everything that is wrong."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from kgcore.errors import InputError, refuse

COLUMNS = ("subject", "predicate", "object")


def read_triples(path: Path, labelled: bool) -> pd.DataFrame:
    """The file as a table of strings: subject, predicate, object, and label where `labelled`; row i is line i + 1.

    Raises InputError, with file and line, for a file that is missing, empty, not UTF-8, or has a line with another
    number of columns.
    """
    names = [*COLUMNS, "label"] if labelled else list(COLUMNS)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not data.strip():
        raise InputError(f"{path} is empty: lines of {len(names)} tab-separated columns are needed")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8 text") from error
    faults: list[str] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        where = f"line {row.number}" if row.number is not None else repr(row.text)
        faults.append(f"{path}, {where}: {row.actual_columns} tab-separated columns, {row.expected_columns} are needed")
        return "skip"

    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            # one block: a refused line then bears its number
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=max(len(data), 1)),
            parse_options=pa.csv.ParseOptions(
                delimiter="\t",
                quote_char=False,
                ignore_empty_lines=False,
                invalid_row_handler=skip,
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} cannot be read as tab-separated text: {error}") from error
    refuse(faults)
    frame: pd.DataFrame = table.to_pandas()
    return frame
