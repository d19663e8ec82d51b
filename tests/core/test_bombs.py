"""Small files that would take much time or memory: they are read, or refused by what they state."""

from pathlib import Path

import pyarrow as pa
import pytest

from kgcore.data.formats.base import read_candidates
from kgcore.errors import InputError
from tests.core.graph_files import repeated


@pytest.mark.parametrize(("length", "rows"), [(6_000, 2**18), (2_000_000, 100_000)])
def test_a_long_name_that_occurs_often_is_refused_before_it_takes_memory(
    tmp_path: Path, length: int, rows: int
) -> None:
    path = repeated(tmp_path / "mine.parquet", length, rows)
    before = pa.total_allocated_bytes()
    with pytest.raises(
        InputError, match=r"mine\.parquet has [\d,]+ bytes of text in [\d,]+ rows: it must have shorter"
    ):
        list(read_candidates(path))
    assert pa.total_allocated_bytes() - before < 2**26


def test_a_name_that_occurs_often_is_read(tmp_path: Path) -> None:
    [block] = read_candidates(repeated(tmp_path / "mine.parquet", 100, 2**18))
    assert block.names.schema.types == [pa.string()] * 3
    assert block.names["subject"][-1].as_py() == "x" * 100


def test_many_columns_are_read(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(20_000)]
    (tmp_path / "mine.csv").write_text(
        ",".join(["subject", "predicate", "object", *names]) + "\n" + "x," * 20_002 + "x"
    )
    [block] = read_candidates(tmp_path / "mine.csv")
    assert len(block.names.columns) == 20_003
