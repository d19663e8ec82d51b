"""Output files: every format gives back what was written, and a failure leaves the earlier file as it was."""

import os
import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from kgcore.answer.sink import sink
from kgcore.errors import InputError

FLOATS = np.array([0.1, 1 / 3, 1e-300, np.nextafter(1, 0), 123456789.123456789, 5e-324])


def table() -> pa.Table:
    return pa.table(
        {
            "name": ['plain, "quoted"', "ümlaut", "", "d", "e", "f"],
            "value": pa.array(FLOATS, mask=np.arange(6) == 2),
            "yes": pa.array([True, False, None, True, True, True]),
            "reason": pa.array([None, "unknown object", None, None, None, None], pa.string()),
        }
    )


def read(path: Path) -> pd.DataFrame:
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    options = {"sep": "\t", "quoting": 3} if path.suffix == ".tsv" else {}
    return pd.read_csv(path, float_precision="round_trip", **options)


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "TSV"])
def test_numbers_are_read_back_to_the_last_bit(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    with sink(path) as write:
        for start in range(0, 6, 2):
            write(table().slice(start, 2))
    found = read(path.rename(path.with_suffix(path.suffix.lower())))
    np.testing.assert_array_equal(found["value"].to_numpy(), np.where(np.arange(6) == 2, np.nan, FLOATS))
    assert found["name"].fillna("").tolist() == table()["name"].to_pylist()
    assert found["reason"].isna().tolist() == [True, False, True, True, True, True]
    assert str(found["yes"][1]).lower() == "false"
    assert list(tmp_path.iterdir()) == [path.with_suffix(path.suffix.lower())]


def write_half(path: Path) -> None:
    with sink(path) as write:
        write(table())
        raise RuntimeError("in the middle")


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv"])
def test_a_failure_leaves_the_earlier_file_and_nothing_else(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    path.write_text("earlier")
    with pytest.raises(RuntimeError, match="in the middle"):
        write_half(path)
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"out\.json is of an unknown kind: its name must end in"),
        sink(tmp_path / "out.json"),
    ):
        pass


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\rb"])
def test_a_tab_or_a_line_break_does_not_fit_into_tsv(tmp_path: Path, name: str) -> None:
    rows = pa.table({"name": [name]})
    with pytest.raises(InputError, match="column name has a tab or a line break"), sink(tmp_path / "out.tsv") as write:
        write(rows)
    assert not list(tmp_path.iterdir())
    with sink(tmp_path / "out.parquet") as write:
        write(rows)
    assert pd.read_parquet(tmp_path / "out.parquet")["name"].tolist() == [name]


def test_a_folder_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"out\.csv cannot be written: No such file"),
        sink(tmp_path / "no" / "out.csv"),
    ):
        pass


def test_a_link_stays_and_the_file_that_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, file = tmp_path / "a.csv", tmp_path / "there" / "real.csv"
    file.write_text("earlier")
    link.symlink_to(file)
    with sink(link) as write:
        write(pa.table({"x": [1]}))
    assert link.is_symlink()
    assert file.read_text() == '"x"\n1\n'
    assert [*(tmp_path / "there").iterdir()] == [file]


def test_a_pipe_stays_and_its_reader_gets_the_rows(tmp_path: Path) -> None:
    pipe, got = tmp_path / "a.csv", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    with sink(pipe) as write:
        write(pa.table({"x": [1]}))
    reader.join(timeout=20)
    assert got == ['"x"\n1\n']
    assert stat.S_ISFIFO(pipe.stat().st_mode)
