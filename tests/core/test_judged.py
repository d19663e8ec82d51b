"""Files of candidates of which some have labels."""

from pathlib import Path

import pandas as pd
import pytest

from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.mixture.judged import JudgedCandidates, read_judged

COLUMNS = ["subject", "predicate", "object"]


@pytest.fixture
def fresh(small_graph: KnowledgeGraph) -> list[list[str]]:
    """Return the names of five test triples."""
    return small_graph.names_of(small_graph.test.triples[:5]).loc[:, COLUMNS].to_numpy().tolist()


def write(folder: Path, name: str, rows: list[list[object]], columns: list[str] | None = None) -> Path:
    path = folder / name
    frame = pd.DataFrame(rows, columns=columns)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t", header=columns is not None, index=False)
    return path


def labels(found: JudgedCandidates) -> list[float]:
    return found.labels.tolist()


@pytest.mark.parametrize(
    "values", [[1, -1, None, 1, -1], ["1", "-1", "", " 1 ", "-1"], [1.0, -1.0, float("nan"), 1, -1]]
)
def test_parquet_with_a_column_label(
    tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]], values: list[object]
) -> None:
    rows = [[*row, value] for row, value in zip(fresh, values, strict=True)]
    found = read_judged(write(tmp_path, "c.parquet", rows, [*COLUMNS, "label"]), small_graph)
    assert labels(found) == [1, 0, -1, 1, 0]
    assert found.labelled.tolist() == [True, True, False, True, True]
    assert (found.triples == small_graph.test.triples[:5]).all()
    assert found.left_out() == []


def test_the_column_label_may_be_anywhere_and_others_do_not_count(
    tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]]
) -> None:
    rows = [["-1", "x", *row] for row in fresh]
    found = read_judged(write(tmp_path, "c.tsv", rows, ["label", "note", *COLUMNS]), small_graph)
    assert labels(found) == [0] * 5
    found = read_judged(write(tmp_path, "d.tsv", [row[1:] for row in rows], ["note", *COLUMNS]), small_graph)
    assert labels(found) == [-1] * 5


def test_without_names_of_columns_the_fourth_has_the_labels(
    tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]]
) -> None:
    rows = [[*row, value] for row, value in zip(fresh, ["1", "", "-1", "", "1"], strict=True)]
    assert labels(read_judged(write(tmp_path, "c.tsv", rows), small_graph)) == [1, -1, 0, -1, 1]
    assert labels(read_judged(write(tmp_path, "d.tsv", fresh), small_graph)) == [-1] * 5


def test_rows_that_do_not_count(tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]]) -> None:
    fact = small_graph.names_of(small_graph.train.triples[:1]).loc[:, COLUMNS].to_numpy().tolist()
    rows = [*([*row, ""] for row in fresh), [*fresh[1], "1"], [*fact[0], "1"], ["nobody", "p0", "e1", "1"]]
    found = read_judged(write(tmp_path, "c.tsv", rows), small_graph)
    assert (found.rows, found.twice, found.trained, found.unknown) == (8, 1, 1, 1)
    assert sorted(labels(found)) == [-1, -1, -1, -1, 1]  # of equal triples, the one with a label counts
    assert len(found.left_out()) == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [(["yes", "1"], "labels 'yes': a label must be 1"), ([0, 1], "labels '0'"), ([True, False], "a label must be")],
)
def test_other_labels(
    tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]], values: list[object], message: str
) -> None:
    rows = [[*row, value] for row, value in zip(fresh, values, strict=False)]
    with pytest.raises(InputError, match=message):
        read_judged(write(tmp_path, "c.parquet", rows, [*COLUMNS, "label"]), small_graph)


@pytest.mark.parametrize("name", ["gold", "is_correct", "refuted", "negated"])
def test_labels_under_another_name_are_not_overlooked(
    tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]], name: str
) -> None:
    path = write(tmp_path, "c.parquet", [[*row, "1"] for row in fresh], [*COLUMNS, name])
    with pytest.raises(InputError, match=f"has the column {name}, .*: call it label, with 1"):
        read_judged(path, small_graph)


def test_two_labels_of_one_triple(tmp_path: Path, small_graph: KnowledgeGraph, fresh: list[list[str]]) -> None:
    rows = [[*fresh[0], "1"], [*fresh[0], "-1"], [*fresh[1], "1"]]
    with pytest.raises(InputError, match="labels 1 triples both true and false"):
        read_judged(write(tmp_path, "c.tsv", rows), small_graph)


def test_no_rows(tmp_path: Path, small_graph: KnowledgeGraph) -> None:
    with pytest.raises(InputError, match="has no candidates"):
        read_judged(write(tmp_path, "c.tsv", [], COLUMNS), small_graph)
