"""Malformed inputs: each is refused with a sentence that says where the fault is and what would be right."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.errors import InputError
from tests.core.graph_files import LAYOUTS, write_triples_factory

GOOD = "".join(f"e{i % 7}\tr{i % 2}\te{(3 * i + 1) % 7}\n" for i in range(60))
NT = "<http://x.org/a> <http://x.org/p> <http://x.org/b> .\n"
SPLITS = {
    "train": [("a", "p", "b"), ("b", "p", "c"), ("c", "p", "a")],
    "valid": [("b", "p", "a")],
    "test": [("c", "p", "b")],
}
IDS = {"entity2id.txt": "2\na\t0\nb\t1\n", "relation2id.txt": "1\np\t0\n", "train2id.txt": "1\n0 1 0\n"}


def written(name: str, data: str | bytes, *columns: str) -> tuple[Callable[[Path], Path], tuple[str, ...]]:
    """Return a function that writes the file into a folder and returns its path, and the setting `columns`."""

    def write(folder: Path) -> Path:
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        return folder / name

    return write, columns


def folder_of(texts: Mapping[str, str | bytes]) -> tuple[Callable[[Path], Path], tuple[str, ...]]:
    def write(folder: Path) -> Path:
        for name, text in texts.items():
            written(name, text)[0](folder)
        return folder

    return write, ()


def table_of(*columns: str, **values: list[object]) -> tuple[Callable[[Path], Path], tuple[str, ...]]:
    def write(folder: Path) -> Path:
        pq.write_table(pa.table(values), folder / "mine.parquet")
        return folder / "mine.parquet"

    return write, columns


def factory_with(name: str, text: str) -> tuple[Callable[[Path], Path], tuple[str, ...]]:
    def write(folder: Path) -> Path:
        made = write_triples_factory(folder / "mine", SPLITS)
        (made / "training" / name).write_bytes(gzip.compress(text.encode()))
        return made

    return write, ()


def read(place: Path, columns: tuple[str, ...]) -> None:
    spec = find_dataset(str(place))
    assert spec.folder is not None
    prepare(spec, spec.folder, columns)


def both_endings(folder: Path) -> Path:
    return folder_of({"train.nt": NT, "train.csv": "a,p,b\n"})[0](folder)


MALFORMED = {
    "unknown ending": (*written("mine.json", "{}"), r"mine\.json is of an unknown kind: its name must end in \.tsv, "),
    "packed Parquet": (*written("mine.parquet.gz", b""), r"\.gz or \.zst may follow, but not after \.parquet"),
    "empty file": (*written("mine.csv", ""), r"mine\.csv is empty: it must have the columns subject, predicate, obj"),
    "only a header": (*written("mine.tsv", "head\trelation\ttail\n"), r"mine\.tsv has no triples: it must have at lea"),
    "two columns": (
        *written("mine.tsv", GOOD + "a\tb\n"),
        r"mine\.tsv, line 61: 2 tab-separated columns: it must have 3",
    ),
    "five columns": (
        *written("mine.csv", "a,b,c,d,e\n"),
        r"line 1: 5 columns without known names: it must have 3 or 4",
    ),
    "other separator": (
        *written("mine.csv", "a;b;c\n"),
        r"mine\.csv, line 1: 1 comma-separated columns: it must have 3",
    ),
    "a file of nodes": (*written("mine.tsv", "id\tcategory\tname\n"), r"is a file of nodes.*give the file of edges"),
    "an open quote": (*written("mine.csv", 'a,p,b\n"a,p,c\nb,p,c\n'), r"mine\.csv, .*(line 2|cannot be read)"),
    "an empty name": (*written("mine.csv", "a,p,b\na,,b\n"), r"mine\.csv, line 2: predicate is empty"),
    "an empty line": (*written("mine.tsv", "a\tp\tb\n\nb\tp\ta\n"), r"mine\.tsv, line 2: subject is empty"),
    "a line break": (*table_of(s=["a\nb"], p=["p"], o=["c"]), r"row 1: subject is 'a\\nb': a name must have no tab"),
    "not UTF-8": (
        *written("mine.tsv", b"a\tp\tb\na\tp\t\xe9\n"),
        r"line 2: byte 0xe9 is not UTF-8: save the file as UTF",
    ),
    "UTF-16": (
        *written("mine.csv", "a,p,b\n".encode("utf-16")),
        r"mine\.csv, line 1: byte 0xff is not UTF-8: save the",
    ),
    "a wrong label": (
        *written("mine.tsv", "a\tp\tb\t1\nb\tp\tc\tmaybe\n"),
        r"line 2: label is 'maybe': it must be 1 or -1, 1",
    ),
    "a byte 0": (*written("mine.tsv", "a\tp\tb\na\0\tp\tc\n"), r"mine\.tsv, line 2: the line has a byte 0x00, which"),
    "header without object": (
        *written("mine.csv", "subject,predicate,note\na,p,b\n"),
        r"mine\.csv has no column object: it must have .* --columns must name three of subject, predicate, note",
    ),
    "header with two objects": (
        *written("mine.csv", "subject,predicate,object,object\na,p,b,c\n"),
        r"mine\.csv has the column object twice: give every column its own name",
    ),
    "columns unknown": (
        *written("mine.csv", "x,y,z\na,p,b\n", "x", "y", "w"),
        r"no column w: --columns must name three of",
    ),
    "columns too high": (
        *written("mine.csv", "a,p,b\n", "1", "2", "4"),
        r"has 3 columns: --columns 1,2,4 must be positions",
    ),
    "columns of RDF": (
        *written("mine.nt", NT, "s", "p", "o"),
        r"is RDF, and its triples have no columns: leave out --col",
    ),
    "not gzip": (*written("mine.nt.gz", NT), r"mine\.nt\.gz is damaged, incomplete or not gzip .*: compress it anew"),
    "cut gzip": (
        *written("mine.tsv.gz", gzip.compress(GOOD.encode())[:40]),
        r"tsv\.gz is damaged, incomplete or not gzip",
    ),
    "not zstd": (*written("mine.csv.zst", "a,p,b\n"), r"mine\.csv\.zst is damaged, incomplete or not zstd"),
    "not Parquet": (*written("mine.parquet", "a"), r"mine\.parquet cannot be read as Parquet"),
    "Parquet columns": (
        *table_of(a=["x"], p=["p"], b=["y"]),
        r"has no column subject, object: it must have .* --columns",
    ),
    "nested names": (
        *table_of(s=[["x"]], p=["p"], o=["y"]),
        r"the column subject of .* has the type list.*must be text",
    ),
    "a missing name": (*table_of(s=["x", None], p=["p", "p"], o=["y", "z"]), r"mine\.parquet, row 2: subject is empty"),
    "N-Triples, no dot": (
        *written("mine.nt", NT + NT[:-3] + "\n" + NT),
        r"mine\.nt, line 3: .*dot: it must be valid N-Triples",
    ),
    "a relative IRI": (
        *written("mine.nt", NT + "<a> <b> <c> .\n"),
        r"mine\.nt, line 2: No scheme .*: it must be valid N",
    ),
    "Turtle, no prefix": (
        *written("mine.ttl", "x:a x:p x:b .\n"),
        r"mine\.ttl, line 1: .*prefix.*: it must be valid Turtle",
    ),
    "only literals": (
        *written("mine.nt", '<http://x.org/a> <http://x.org/p> "b" .\n'),
        r"no triples but 1 with literals",
    ),
    "too sparse": (*written("mine.tsv", "a\tp\tb\n"), r"only 0 of the 1 true triples can leave train.*at least 2"),
    "no split": (*folder_of({"a.nt": NT, "b.nt": NT}), r"the files a\.nt, b\.nt, and no name tells a split: if"),
    "no valid": (*folder_of({"train.nt": NT, "test.nt": NT}), r"has no valid\.txt or dev\.txt: a data set needs train"),
    "two endings": (both_endings, (), r"has train\.csv and train\.nt: keep one of them, or name the files to read"),
    "labels in one split": (
        *folder_of({"train.txt": GOOD, "valid.txt": "e0\tr0\te1\t1\n", "test.txt": "e3\tr1\te3\n"}),
        r"valid\.txt has labels, and .*test\.txt has none: both must have labels, or neither",
    ),
    "a false training row": (
        *folder_of({"train.txt": "a\tp\tb\t1\na\tp\tc\t-1\n", "valid.txt": "a\tp\tb\n", "test.txt": "a\tp\tb\n"}),
        r"train\.txt, line 2: the label is false: train must have true triples only",
    ),
    "OpenKE, wrong count": (
        *folder_of(IDS | {"train2id.txt": "2\n0 1 0\n"}),
        r"line 1: '2': it must be 1, the number of",
    ),
    "OpenKE, wrong id": (
        *folder_of(IDS | {"train2id.txt": "1\n0 7 0\n"}),
        r"line 2: object 7 is not in entity2id\.txt",
    ),
    "PyKEEN, wrong id": (
        *factory_with("numeric_triples.tsv.gz", "head\trelation\ttail\n0\t0\t1\n0\t9\t1\n"),
        r"numeric_triples\.tsv\.gz, line 3: predicate 9 is not in relation_to_id\.tsv\.gz",
    ),
    "PyKEEN, a name twice": (
        *factory_with("entity_to_id.tsv.gz", "id\tlabel\n0\ta\n1\tb\n2\ta\n"),
        r"entity_to_id\.tsv\.gz, line 4: the label a occurs twice",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_input_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    write, columns, message = MALFORMED[case]
    (tmp_path / "input").mkdir()
    place = write(tmp_path / "input")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=message) as caught:
        read(place, columns)
    assert "\n" not in str(caught.value)
    assert "/input" in str(caught.value) or case == "too sparse"
    assert sorted(tmp_path.rglob("*")) == before


def test_there_are_two_dozen_and_more() -> None:
    assert len(MALFORMED) >= 24


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/mine.nt", "the file no/such/mine.nt does not exist: a data set is a folder or one of codex-m"),
        ("mine.csv", "the file mine.csv does not exist"),
        ("no/such", "the folder no/such does not exist"),
        ("mine", "unknown data set 'mine': the known ones are"),
    ],
)
def test_a_missing_file_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_dataset(name)


def test_a_missing_file_and_a_folder_among_several_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text(NT)
    with pytest.raises(InputError, match=r"the file .*/b\.nt does not exist"):
        find_dataset(f"{tmp_path}/a.nt,{tmp_path}/b.nt")
    with pytest.raises(InputError, match="is a folder: name one folder alone, or files"):
        find_dataset(f"{tmp_path}/a.nt,{tmp_path}")


@pytest.mark.parametrize("layout", ["openke", "transc", "triples_factory"])
def test_columns_of_a_layout_are_fixed(tmp_path: Path, layout: str) -> None:
    with pytest.raises(InputError, match="by its layout: leave out --columns"):
        read(LAYOUTS[layout](tmp_path / "mine", SPLITS), ("1", "2", "3"))
