"""The same graph in every format: equal to the last bit. Headers, columns and labels are found."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.draw import SplitDraw, draw_splits
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.formats.base import TriplesFile, endings
from kgcore.data.formats.columns import find_columns
from kgcore.data.formats.headers import GEPHI, NAMES
from kgcore.registries import FORMATS
from kgcore.registries import LAYOUTS as REGISTERED
from tests.core.graph_files import LAYOUTS, TEXTS, ids_of, lines, n_triples, packed, write_splits

NAMES_OF_ENTITIES = [f"http://x.org/{name}" for name in ("Zürich", "b", "a", "Ü#1", "東京", "a-b", "10", "9", "c,d")]
RNG = np.random.default_rng(5)
ROWS = sorted(
    {
        (NAMES_OF_ENTITIES[s], f"http://x.org/p/p{p}", NAMES_OF_ENTITIES[o])
        for s, p, o in zip(*(RNG.integers(0, n, 160) for n in (9, 3, 9)), strict=True)
    }
)
ORDER = RNG.permutation(len(ROWS))
SHUFFLED = [ROWS[i] for i in ORDER]
SPLITS = {"train": [*SHUFFLED[:70], SHUFFLED[0]], "valid": SHUFFLED[70:85], "test": SHUFFLED[85:100]}


def read(name: str | Path, columns: tuple[str, ...] = (), draw: SplitDraw = SplitDraw()) -> Prepared:
    spec = find_dataset(str(name))
    assert spec.folder is not None
    return prepare(spec, spec.folder, columns, draw)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return read(write_splits(tmp_path_factory.mktemp("plain") / "mine", SPLITS, ".tsv"))


def test_every_format_and_layout_is_tested() -> None:
    tested = {ending.split(".")[1] for ending in TEXTS} | {"parquet", "trig", "turtle", "ntriples", "nquads"}
    tested |= {"owl", "ndjson"}
    assert {ending[1:] for ending in endings()} == tested
    assert set(REGISTERED.names()) == set(LAYOUTS) - {"kgx"}
    assert len(FORMATS.names()) == 11


@pytest.mark.parametrize("ending", [*TEXTS, ".parquet"])
def test_every_format_gives_the_same_graph(tmp_path: Path, expected: Prepared, ending: str) -> None:
    found = read(write_splits(tmp_path / "mine", SPLITS, ending))
    assert (found.graph.entities, found.graph.predicates) == (expected.graph.entities, expected.graph.predicates)
    assert found.graph.fingerprint() == expected.graph.fingerprint()
    assert found.counts == expected.counts
    assert found.counts["train_duplicates"] == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_graph(tmp_path: Path, expected: Prepared, layout: str) -> None:
    found = read(LAYOUTS[layout](tmp_path / "mine", SPLITS))
    assert found.graph.fingerprint() == expected.graph.fingerprint()
    assert found.counts == expected.counts
    assert found.graph.name == "mine"


@pytest.mark.parametrize("ending", [*TEXTS, ".parquet"])
def test_one_file_or_several_are_split_alike_in_every_format(tmp_path: Path, ending: str) -> None:
    plain = read(write_splits(tmp_path / "plain", {"mine": SHUFFLED}, ".tsv") / "mine.tsv")
    one = write_splits(tmp_path / "one", {"mine": ROWS}, ending) / f"mine{ending}"
    halves = write_splits(tmp_path / "mine", {"a": ROWS[60:], "b": ROWS[:60]}, ending)
    several = read(",".join(str(halves / f"{name}{ending}") for name in "ab"))
    for found in (read(one), read(one.parent), several):
        assert found.graph.fingerprint() == plain.graph.fingerprint()
        assert found.counts == plain.counts
    assert (read(one).graph.name, several.graph.name) == ("mine", "mine")


def test_transc_has_negatives_in_files_of_their_own(tmp_path: Path) -> None:
    folder = LAYOUTS["transc"](tmp_path / "mine", SPLITS)
    entities, predicates = ids_of(SPLITS)
    false = [(s, p, o) for s in entities for p in predicates for o in entities if (s, p, o) not in ROWS]
    for split, (s, p, o) in zip(("Valid", "Test"), false, strict=False):
        text = f"1\n{entities[s]} {entities[o]} {predicates[p]}\n"
        (folder / split / "triple2id_negative.txt").write_text(text)
    graph = read(folder).graph
    assert graph.labelled
    assert graph.names_of(graph.valid.negatives).iloc[0].tolist() == list(false[0])


def test_the_names_of_files_tell_the_splits(tmp_path: Path, expected: Prepared) -> None:
    folder = write_splits(tmp_path / "x", {f"umls-{name}": rows for name, rows in SPLITS.items()}, ".nt")
    (folder / "notes.md").write_text("no triples")
    assert read(folder).graph.fingerprint() == expected.graph.fingerprint()
    named = ",".join(str(folder / f"umls-{name}.nt") for name in ("test", "train", "valid"))
    assert read(named).graph.fingerprint() == expected.graph.fingerprint()


def test_literals_are_left_out_and_counted_and_blank_nodes_have_names(tmp_path: Path) -> None:
    text = n_triples(ROWS) + '<http://x.org/a> <http://x.org/p/p0> "10"^^<http://x.org/type> .\n'
    text += '_:n <http://x.org/p/p0> <http://x.org/a> .\n<http://x.org/a> <http://x.org/p/p0> "no . <entity>"@en .\n'
    (tmp_path / "mine.nt").write_text(text)
    found = read(tmp_path / "mine.nt")
    assert found.counts["triples_with_literals"] == 2
    assert found.counts["drawn_from_rows"] == len(ROWS) + 1
    assert "_:n" in found.graph.entities


def test_unlabelled_blank_nodes_have_the_same_names_at_every_reading(tmp_path: Path) -> None:
    text = n_triples(ROWS) + "<http://x.org/a> <http://x.org/p/p0> [ <http://x.org/p/p1> <http://x.org/b> ] .\n"
    (tmp_path / "mine.ttl").write_text(text)
    first, second = (read(tmp_path / "mine.ttl").graph for _ in range(2))
    assert first.fingerprint() == second.fingerprint()
    assert "_:unlabelled_1" in first.entities


@pytest.mark.parametrize("true", ["1", "True", "true", "1.0"])
@pytest.mark.parametrize("false", ["-1", "0", "FALSE", "false"])
@pytest.mark.parametrize("header", [(), ("label", "head", "relation", "tail")])
def test_labels_may_be_spelt_in_several_ways(tmp_path: Path, true: str, false: str, header: tuple[str, ...]) -> None:
    splits = {name: [(*row, true) for row in rows] for name, rows in SPLITS.items()}
    for name in ("valid", "test"):
        splits[name][3:6] = [(*row[:3], false) for row in splits[name][3:6]]
    for name, rows in splits.items():
        moved = [header, *((row[3], *row[:3]) for row in rows)] if header else rows
        packed(tmp_path / f"{name}.tsv", lines(moved).encode())
    graph = read(tmp_path).graph
    assert graph.labelled
    assert (len(graph.valid.negatives), len(graph.test.negatives), len(graph.train.negatives)) == (3, 3, 0)


def test_labels_of_parquet_may_be_numbers_or_truth_values(tmp_path: Path) -> None:
    for kind, values in (("int", [1, 0]), ("float", [1.0, -1.0]), ("bool", [True, False])):
        for name, rows in SPLITS.items():
            columns = dict(zip(("head", "relation", "tail"), zip(*rows, strict=True), strict=True))
            label = [values[name != "train" and i in (2, 4)] for i in range(len(rows))]
            (tmp_path / kind).mkdir(exist_ok=True)
            pq.write_table(pa.table({**columns, "label": label}), tmp_path / kind / f"{name}.parquet")
        assert len(read(tmp_path / kind).graph.valid.negatives) == 2


def test_negatives_of_a_single_file_go_to_valid_and_test(tmp_path: Path) -> None:
    false = [(s, p, o) for s, p, o in ((o, p, s) for s, p, o in ROWS) if (s, p, o) not in ROWS][:20]
    rows = [(*row, "1") for row in ROWS] + [(*row, "0") for row in false]
    (tmp_path / "mine.tsv").write_text(lines(rows))
    graph = read(tmp_path / "mine.tsv", draw=SplitDraw(valid_share=0.1, test_share=0.3)).graph
    assert (len(graph.valid.negatives), len(graph.test.negatives), len(graph.train.negatives)) == (5, 15, 0)


@pytest.mark.parametrize("columns", [("to", "kind", "from"), ("3", "2", "1")])
def test_columns_may_be_named_or_numbered(tmp_path: Path, columns: tuple[str, ...]) -> None:
    rows = [(s, p, o, "x") for s, p, o in ROWS]
    named = [("from", "kind", "to", "weight"), *rows] if columns[0] == "to" else rows
    (tmp_path / "mine.csv").write_text(lines([tuple(f'"{cell}"' for cell in row) for row in named], ","))
    (tmp_path / "turned.tsv").write_text(lines([(o, p, s) for s, p, o in ROWS]))
    found = read(tmp_path / "mine.csv", columns)
    assert found.graph.fingerprint() == read(tmp_path / "turned.tsv").graph.fingerprint()


@given(st.tuples(*(st.sampled_from(names) for names in NAMES.values())), st.permutations(range(5)), st.booleans())
def test_a_header_is_found_whatever_its_names_order_and_case(
    names: tuple[str, str, str], order: list[int], upper: bool
) -> None:
    assume({*names, "label"} != GEPHI)  # whose label is the predicate
    cells = [*(name.upper() if upper else name for name in names), "Label", "weight"]
    found = find_columns(TriplesFile(Path("x.tsv")), [cells[i] for i in order])
    assert found.header
    assert [order[found.names[name]] for name in ("subject", "predicate", "object", "label")] == [0, 1, 2, 3]


@pytest.mark.parametrize("row", [("a", "p", "b"), ("subject", "p", "b"), ("s", "p", "x"), ("head", "tail", "x")])
def test_a_row_without_all_three_names_is_data(row: tuple[str, ...]) -> None:
    assert not find_columns(TriplesFile(Path("x.tsv")), row).header


rows_of_a_graph = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 5), st.just(1)), min_size=24, unique=True
)


@settings(max_examples=40)
@given(rows_of_a_graph, st.integers(0, 3), st.floats(0.05, 0.45), st.floats(0.05, 0.45))
def test_a_split_is_a_partition_and_train_keeps_every_name(
    rows: list[tuple[int, ...]], seed: int, valid: float, test: float
) -> None:
    distinct = np.unique(np.array(rows, dtype=np.int64), axis=0)
    distinct[::5, 3] = 0
    true = distinct[distinct[:, 3] == 1]
    found = draw_splits(distinct, SplitDraw(valid, test, seed)).rows
    assert sorted(map(tuple, np.concatenate(list(found.values())).tolist())) == list(map(tuple, distinct.tolist()))
    assert all((found[name][:, 3] == 1).any() for name in ("train", "valid", "test"))
    assert (found["train"][:, 3] == 1).all()
    for columns in ([0, 2], [1]):
        np.testing.assert_array_equal(np.unique(found["train"][:, columns]), np.unique(true[:, columns]))
    again = draw_splits(distinct, SplitDraw(valid, test, seed)).rows
    assert all(np.array_equal(again[name], found[name]) for name in found)


def test_any_order_of_rows_gives_the_same_split_and_another_seed_another(tmp_path: Path) -> None:
    prints = set()
    for trial in range(4):
        path = tmp_path / f"{trial}" / "mine.tsv"
        path.parent.mkdir()
        path.write_text(lines([ROWS[i] for i in np.random.default_rng(trial).permutation(len(ROWS))]))
        prints.add(read(path).graph.fingerprint())
    assert len(prints) == 1
    assert read(path, draw=SplitDraw(seed=1)).graph.fingerprint() not in prints
    sizes = read(path, draw=SplitDraw(valid_share=0.2, test_share=0.05)).graph
    assert (len(sizes.valid), len(sizes.test)) == (round(0.2 * len(ROWS)), round(0.05 * len(ROWS)))
