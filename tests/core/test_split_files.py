"""Splits of files: the messages about columns and sizes, names that train lacks, and the settings."""

from pathlib import Path

import pytest

from kgcore.config import CorruptConfig, PipelineConfigs, PrepareConfig
from kgcore.config.base import SplitRule
from kgcore.config.presets import resolve
from kgcore.data.datasets.twins import repeats_of
from kgcore.errors import InputError
from kgcore.measure.report.graph_findings import findings, shape_of
from tests.core.split_graphs import ENTITIES, KNOWS, LIKES, LIKES_TOO, NAMES, graph_with_twins, lines_of, read

MADE = [f"x{i % 13}\tr\ty{i % 17}\t{2000 + i % 10}\tstudy {i % 8}" for i in range(220)]


@pytest.mark.parametrize(
    ("split", "wrong", "message"),
    [
        ("time:year", "x1\tr\ty2\t\tstudy 1", "line 3: time is missing: it must be a number or an ISO date"),
        ("time:year", "x1\tr\ty2\t17/05/2019\tstudy 1", "line 3: time is '17/05/2019': it must be a number or an ISO"),
        ("time:year", "x1\tr\ty2\t2019-05\tstudy 1", ""),
        ("time:study", "", "line 2: time is 'study 0': it must be a number"),
        (
            "time:month",
            "",
            "has no column month: --split time must be one of s, p, o, year, study, or a position from 1",
        ),
        ("group:study", "x1\tr\ty2\t2001\t", "line 3: group is empty"),
        ("group:p", "", "--split group:p is the column of the predicate: it must be another column"),
        ("cold:object:s", "", "the graph has no predicate 's' for the split `cold`: near ones are r"),
        (
            "cold:object:r",
            "",
            "no object of r fits into valid: each has too large a share of the facts, or no other fact",
        ),
    ],
)
def test_errors_say_where_and_what_would_be_right(tmp_path: Path, split: str, wrong: str, message: str) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of(["s\tp\to\tyear\tstudy", MADE[0], *([wrong] if wrong else []), *MADE[1:]]))
    if not message:
        read(path, split)
        return
    with pytest.raises(InputError) as caught:
        read(path, split)
    assert message in str(caught.value)


def test_times_of_two_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of(["s\tp\to\tyear", "a\tr\tb\t17.5", "b\tr\ta\t2020-05"]))
    with pytest.raises(
        InputError, match=r"some times are numbers, such as 17\.5, and others are dates, such as 2020-05"
    ):
        read(path, "time:year")


def test_a_split_that_is_too_small_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of([f"{row}\t{number % 2}" for number, row in enumerate(MADE)]))
    with pytest.raises(
        InputError, match="the 2 groups of the column cannot fill test and leave train some: the smallest"
    ):
        read(path, "group:6")
    new = [f"new{i}\tr\tnewer{i}\t2010\tstudy 9" for i in range(25)]
    path.write_text(lines_of([*MADE, *new]))
    with pytest.raises(
        InputError, match="test would have 0 usable true triples, and 25 more have a name that train lacks"
    ):
        read(path, "time:4")


def test_rows_with_names_that_train_lacks_are_dropped_and_kept_as_unseen(tmp_path: Path) -> None:
    new = [f"new{i % 3}\tr\ty{i % 11}\t{2009 + i % 2}\tstudy 9" for i in range(12)]
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of([*MADE, *new]))
    prepared = read(path, "time:4", test_share=0.2, valid_share=0.2)
    lost = prepared.counts["valid_with_unseen"] + prepared.counts["test_with_unseen"]
    assert lost == 12
    assert prepared.unseen is None or set(prepared.unseen.names) <= {"new0", "new1", "new2"}


def test_the_count_of_twins_does_not_depend_on_the_seed_or_the_shares(tmp_path: Path) -> None:
    rows = graph_with_twins(0, negatives=0)
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of([f"e{s}\t{NAMES[p]}\te{o}" for s, p, o, _ in rows.tolist()]))
    figures = set()
    for seed, share in ((0, 0.1), (1, 0.1), (2, 0.4), (3, 0.02)):
        prepared = read(path, "random", seed=seed, test_share=share)
        shape = shape_of(prepared.graph)
        [one] = [f for f in findings(prepared.graph, shape, prepared.counts) if f.title.startswith("Inverse")]
        figures.add(one.figure)
        assert (shape.leaking, one.warns) == (0, False)
    assert len(figures) == 1
    repeats = repeats_of(rows[:, :3], ENTITIES, len(NAMES))
    assert {(one.predicate, one.other, one.inverse) for one in repeats} >= {
        (LIKES, LIKES_TOO, False),
        (KNOWS, KNOWS, True),
    }


def test_the_facts_that_are_in_no_split_are_known_facts(tmp_path: Path) -> None:
    rows = graph_with_twins(4, negatives=0)
    path = tmp_path / "mine.tsv"
    path.write_text(lines_of([f"e{s}\t{NAMES[p]}\te{o}" for s, p, o, _ in rows.tolist()]))
    prepared = read(path, "cold:object:knows", valid_share=0.2, test_share=0.2)
    assert prepared.counts["drawn_left_out"] == len(prepared.graph.other_facts) > 0


def test_calibration_keeps_the_cold_entity() -> None:
    def sides(split: str, given: CorruptConfig = CorruptConfig()) -> str:
        found = resolve("default", PipelineConfigs(prepare=PrepareConfig(split=split), corrupt=given))
        return found.configs.corrupt.calibration_sides

    usual = PipelineConfigs().corrupt.calibration_sides
    assert [sides(split) for split in ("random", "time:year", "group:study")] == [usual] * 3
    assert (sides("cold:object:treats"), sides("cold:subject")) == ("subject", "object")
    assert sides("cold:object", CorruptConfig(calibration_sides="both")) == "both"


@pytest.mark.parametrize("text", ["", "time", "time:", "cold", "cold:both", "cold:object:", "group:", "years:a"])
def test_a_misspelt_split_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="it must be random, time:COLUMN, cold:subject or cold:object"):
        PrepareConfig(split=text)


@pytest.mark.parametrize("text", ["random", "time:year", "group:a:b", "cold:object", "cold:subject:biolink:treats"])
def test_a_rule_is_written_as_it_is_read(text: str) -> None:
    assert str(SplitRule.of(text)) == text
