"""Reading tab-separated triples, with the line of everything that is wrong."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from kgcore.errors import InputError

COLUMNS = ("subject", "predicate", "object")


def read_triples(path: Path, labelled: bool) -> tuple[pd.DataFrame, list[str]]:
    """The file as a table of strings: subject, predicate, object, and label where `labelled`; the index is the line,
    from 1. And its faults: lines with another number of columns, which are left out of the table.

    Raises InputError, with file and line, for a file that is missing, empty or not UTF-8.
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
    refused: list[pa.csv.InvalidRow] = []

    def skip(row: pa.csv.InvalidRow) -> str:
        refused.append(row)
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
    lines = np.setdiff1d(np.arange(1, len(table) + len(refused) + 1), [row.number for row in refused])
    faults = [
        f"{path}, line {row.number}: {row.actual_columns} tab-separated columns, {row.expected_columns} are needed"
        for row in refused
    ]
    return table.to_pandas().set_index(lines), faults
