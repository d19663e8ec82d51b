"""The race of the preset `auto` in the terminal."""

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kgcore.report.race import race_cells, race_head, settings_text

if TYPE_CHECKING:
    from kgcore.tuning.race_result import Race


def show_race(console: Console, race: "Race") -> None:
    """Print the sentences about a race, and a row for each contender unless there was no race."""
    for sentence in race.sentences():
        console.print(sentence.replace("`", ""), markup=False)
    if race.no_race:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(race_head(race)[:-1]):  # only the report shows the settings
        table.add_column(name, justify="left" if number == 0 or name == "result" else "right")
    for cells in race_cells(race):
        table.add_row(*map(escape, cells[:-1]))
    console.print(table)
    console.print(f"{race.winner.name}: {settings_text(race.winner) or 'the defaults'}", markup=False)
