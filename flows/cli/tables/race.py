"""The race of the preset `auto` in the terminal."""

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kgcore.report.race import race_cells, race_head, settings_text

if TYPE_CHECKING:
    from kgcore.tuning.race_result import Race

MOST_COLUMNS = 6  # that fit in 80 characters with the settings left out


def show_race(console: Console, race: "Race") -> None:
    """Print the sentences about a race, and a row for each contender unless there was no race."""
    for sentence in race.sentences():
        console.print(sentence.replace("`", ""), markup=False)
    if race.no_race:
        return
    head = race_head(race)
    left_out = {"settings"} | ({"seconds"} if len(head) > MOST_COLUMNS else set())  # the report shows them
    kept = [place for place, name in enumerate(head) if name not in left_out]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place in kept:
        is_text = head[place] in ("configuration", "result")
        table.add_column(head[place], justify="left" if is_text else "right", no_wrap=True)
    for cells in race_cells(race):
        table.add_row(*(escape(cells[place]) for place in kept))
    console.print(table)
    console.print(f"{race.winner.name}: {settings_text(race.winner) or 'the defaults'}", markup=False)
