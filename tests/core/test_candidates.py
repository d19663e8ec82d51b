"""Files of candidate triples: their layouts, blocks, and faults with file and line."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from kgcore.data.formats import text as columns_text
from kgcore.data.formats.base import read_candidates, read_names
from kgcore.errors import InputError

ROWS = [("ann", "knows", "bob"), ("bob", "likes", 'the "Röstigraben"'), ("NA", "null", "")]


def read(path: Path) -> list[dict[str, str]]:
    return [row for block in read_candidates(path) for row in block.names.to_pylist()]


def triples(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return [(row["subject"], row["predicate"], row["object"]) for row in rows]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("name", ["c.tsv", "c.txt", "C.TSV"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_tab_separated_text_without_a_header(tmp_path: Path, name: str, end: str, last: bool) -> None:
    text = end.join("\t".join(row) for row in ROWS[:2]) + (end if last else "")
    assert triples(read(write(tmp_path, name, text))) == ROWS[:2]


def test_further_columns_are_kept_under_their_numbers(tmp_path: Path) -> None:
    rows = read(write(tmp_path, "labelled.tsv", "a\tp\tb\t1\tx\nb\tp\ta\t-1\ty\n"))
    assert rows[1] == {"subject": "b", "predicate": "p", "object": "a", "column_4": "-1", "column_5": "y"}


@pytest.mark.parametrize(("name", "delimiter"), [("c.tsv", "\t"), ("c.csv", ",")])
def test_a_header_names_the_columns_in_any_order(tmp_path: Path, name: str, delimiter: str) -> None:
    text = "\n".join(delimiter.join(row) for row in [("Object", "rank", "Subject", "Predicate"), ("b", "7", "a", "p")])
    assert read(write(tmp_path, name, text)) == [{"subject": "a", "predicate": "p", "object": "b", "rank": "7"}]


def test_quotes_of_csv_enclose_commas(tmp_path: Path) -> None:
    path = write(tmp_path, "c.csv", 'subject,predicate,object\n"Bern, BE",in,"a ""quoted"" name"\n')
    assert triples(read(path)) == [("Bern, BE", "in", 'a "quoted" name')]
    assert triples(read(write(tmp_path, "d.csv", '"Bern, BE",in,CH\n'))) == [("Bern, BE", "in", "CH")]


def test_parquet_is_read_whatever_the_type_of_its_names(tmp_path: Path) -> None:
    table = pa.table(
        {
            "score_before": pa.array([0.5, 1.5]),
            "object": pa.array(["b", "c"]).dictionary_encode(),
            "subject": pa.array([1, 2]),
            "predicate": pa.array(["p", "p"], pa.large_string()),
        }
    )
    pa.parquet.write_table(table, tmp_path / "c.parquet")
    rows = read(tmp_path / "c.parquet")
    assert triples(rows) == [("1", "p", "b"), ("2", "p", "c")]
    assert [row["score_before"] for row in rows] == [0.5, 1.5]


def test_candidates_may_be_packed_text_with_other_names_or_rdf(tmp_path: Path) -> None:
    header = gzip.compress(b"relation,tail,head,note\nlikes,b,a,x\n")
    assert read(write(tmp_path, "c.csv.gz", header)) == [
        {"subject": "a", "predicate": "likes", "object": "b", "note": "x"}
    ]
    rdf = write(tmp_path, "c.nt", '<x:a> <x:p> <x:b> .\n<x:a> <x:p> "a literal" .\n')
    assert triples(read(rdf)) == [("x:a", "x:p", "x:b")]


@pytest.mark.parametrize("size", [1, 7, 20, 64, 10_000])
def test_blocks_of_any_size_hold_the_same_rows(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"s{i}", "p" * (i % 5 + 1), f"ö{i * i}") for i in range(50)]
    path = write(tmp_path, "c.tsv", "\n".join("\t".join(row) for row in rows) + "\n")
    monkeypatch.setattr(columns_text, "BLOCK_BYTES", size)
    blocks = list(read_candidates(path))
    assert triples([row for block in blocks for row in block.names.to_pylist()]) == rows
    assert (len(blocks) > 1) == (size < 1000)
    done = [block.done for block in blocks]
    assert done == sorted(done)
    assert done[-1] == 1


@pytest.mark.parametrize("size", [30, 10_000])
@pytest.mark.parametrize("header", [False, True])
def test_a_fault_states_its_line(tmp_path: Path, size: int, header: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_text, "BLOCK_BYTES", size)
    lines = ["subject\tpredicate\tobject"] * header + ["ann\tknows\tbob"] * 20
    lines[12] = "ann\tknows"
    with pytest.raises(InputError, match=r"c\.tsv, line 13: 2 columns: it must have 3"):
        read(write(tmp_path, "c.tsv", "\n".join(lines)))
    lines[12] = "ann\tknows\tcarl"
    text = "\n".join(lines).encode().replace(b"carl", b"c\xffrl")
    with pytest.raises(InputError, match=r"c\.tsv, line 13: byte 0xff is not UTF-8"):
        read(write(tmp_path, "c.tsv", text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", "{}", r"c\.json is of an unknown kind: its name must end in \.tsv, \.txt, \.csv, \.parquet"),
        ("c.tsv", "", r"c\.tsv is empty: it must have the columns subject, predicate, object"),
        ("c.tsv", "a\tb\n", r"c\.tsv, line 1: 2 columns: it must have at least 3, subject, predicate, object"),
        ("c.csv", "subject,predicate,object,x,x\n", r"c\.csv has the column x twice"),
        ("c.tsv", b"\xff\tp\to\n", r"c\.tsv, line 1: byte 0xff is not UTF-8"),
        ("c.parquet", "not Parquet", r"c\.parquet cannot be read as Parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, name, text))


def test_missing_files_and_columns_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.tsv cannot be read: No such file"):
        read(tmp_path / "none.tsv")
    pa.parquet.write_table(pa.table({"subject": ["a"], "object": ["b"]}), tmp_path / "c.parquet")
    with pytest.raises(
        InputError, match=r"c\.parquet has no column predicate: it must have subject, predicate, object"
    ):
        read(tmp_path / "c.parquet")


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read_names(write(tmp_path, "names.txt", "\ufeffann\r\nbob\r\n")) == ["ann", "bob"]
