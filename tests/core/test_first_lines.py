"""Whether a first line without all three known names is a triple, whatever the number of lines after it."""

from pathlib import Path

import pytest

from kgcore.data.formats.base import TriplesFile, read_blocks
from kgcore.errors import InputError
from tests.core.graph_files import lines

Row = tuple[str, ...]
FACTS: list[Row] = [(f"e{i}", ("treats", "is_a")[i % 2], f"e{i + 1}") for i in range(60)]


def rows_of(folder: Path, rows: list[Row]) -> list[Row]:
    """Write rows to a file without a header, and read them."""
    path = folder / "mine.csv"
    path.write_text(lines(rows, ","))
    return [(*row.values(),) for block in read_blocks(TriplesFile(path)) for row in block.names.to_pylist()]


@pytest.mark.parametrize("count", [1, 12, 60])
@pytest.mark.parametrize("names", ["source kind target", "Subject Verb Object", "node_a link node_b"])
def test_the_names_of_both_ends_are_refused_whatever_follows(tmp_path: Path, names: str, count: int) -> None:
    given = names.replace(" ", ",")
    with pytest.raises(InputError, match=f"--columns {given}; or --columns 1,2,3 if the line is a triple"):
        rows_of(tmp_path, [(*names.split(),), *FACTS[:count]])


@pytest.mark.parametrize("names", ["source target effect", "verdict entity_a entity_b", "to link from"])
def test_the_names_of_both_ends_are_refused_in_other_places_too(tmp_path: Path, names: str) -> None:
    with pytest.raises(InputError, match=f"{names.replace(' ', ', ')} look like the names of the columns"):
        rows_of(tmp_path, [(*names.split(),), FACTS[0]])


@pytest.mark.parametrize("first", ["s target o", "drug object source", "aspirin head toe"])
def test_words_that_do_not_belong_together_are_a_triple(tmp_path: Path, first: str) -> None:
    rows = [(*first.split(),), *FACTS[:5]]
    assert rows_of(tmp_path, rows) == rows


@pytest.mark.parametrize(
    ("names", "fewest"), [("gene relation disease", 10), ("source of light", 10), ("pill treatment illness", 20)]
)
def test_a_known_name_at_its_place_needs_fewer_facts_after_it(tmp_path: Path, names: str, fewest: int) -> None:
    first = (*names.split(),)
    few = [first, *FACTS[: fewest - 1]]
    assert rows_of(tmp_path, few) == few
    with pytest.raises(InputError, match=f"{', '.join(first)} look like the names of the columns"):
        rows_of(tmp_path, [first, *FACTS[:fewest]])


@pytest.mark.parametrize("again", [("x", "antonym", "y"), ("tail", "part_of", "y"), ("head", "part_of", "y")])
def test_the_line_is_a_triple_if_one_of_its_names_occurs_again(tmp_path: Path, again: Row) -> None:
    rows = [("head", "antonym", "tail"), *FACTS[:12], again]
    assert rows_of(tmp_path, rows) == rows


def test_a_file_of_one_line_is_a_triple(tmp_path: Path) -> None:
    for only in (("aspirin", "interaction", "warfarin"), ("head", "antonym", "tail")):
        assert rows_of(tmp_path, [only]) == [only]
