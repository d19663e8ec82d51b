"""The recorded results of the reproduction: they agree with the paper's figures, and the page agrees with them."""

import pandas as pd

from kgcore.config.presets import PRESETS
from kgcore.wings.reproduction.compare import COLUMNS, recorded, side_by_side
from kgcore.wings.reproduction.grid import grid
from tests.docs.scripts import script

page = script("reproduction")


def test_recorded_results_stand_beside_the_papers_values_of_the_same_cells() -> None:
    frame = recorded(["all"], [], PRESETS)
    assert list(frame.columns) == COLUMNS
    assert frame["ours"].notna().all()
    assert not frame.duplicated(page.CELL).any()
    expected = side_by_side(grid(("all",), (), PRESETS), {})
    both = frame[frame["relation"] == ""].merge(expected, on=[c for c in page.CELL if c != "seed"], how="left")
    assert both["ours_y"].isna().all()  # no run
    pd.testing.assert_series_equal(both["paper_x"], both["paper_y"], check_names=False, rtol=1e-5)
    assert (both["note_x"] == both["note_y"]).all()


def test_the_page_has_the_recorded_results() -> None:
    tables = page.tables(recorded(["all"], [], PRESETS))
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, tables) == text, "run `python docs/scripts/reproduction.py`"
    shown = set(page.BLOCK.findall(text))
    assert shown == set(tables)
