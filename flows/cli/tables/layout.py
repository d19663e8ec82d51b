"""Tables that fit into the terminal. A cell wraps only at spaces, never inside a word or a number."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

Cells = Mapping[str, Sequence[str]]  # column -> a text for each row
GAP, NARROW_GAP = 2, 1  # spaces between two columns; NARROW_GAP if the table does not fit with GAP


@dataclass(frozen=True)
class Column:
    """A column of a table.

    title    its header; a line break shows where the header wraps
    numbers  whether the cells are aligned on the right and never wrap
    """

    title: str
    numbers: bool = False

    def widest(self, texts: Sequence[str]) -> int:
        """Return the width of the column in characters if no cell wraps."""
        return max(map(cell_len, [*self.title.split("\n"), *texts]))

    def narrowest(self, texts: Sequence[str]) -> int:
        """Return the width of the column in characters if every cell wraps at each of its spaces."""
        words = self.title.split() + [word for text in texts for word in ([text] if self.numbers else text.split())]
        return max(map(cell_len, words), default=0)


def full_width(columns: Mapping[str, Column], cells: Cells) -> int:
    """Return the width of the table in characters if no cell wraps."""
    return _total([column.widest(cells[name]) for name, column in columns.items()], GAP)


def least_width(columns: Mapping[str, Column], cells: Cells) -> int:
    """Return the smallest width of the table, in characters, that breaks no word."""
    return _total([column.narrowest(cells[name]) for name, column in columns.items()], NARROW_GAP)


def fitted_table(
    columns: Mapping[str, Column],
    cells: Cells,
    width: int,
    marked: Collection[str] = (),
    best: Collection[tuple[str, int]] = (),
) -> Table:
    """Return the table with at most `width` characters per line, or with its least width if that is larger.

    The widest columns wrap first.

    marked  columns in which cells that end with a star are highlighted
    best    column and row of further cells that are highlighted
    """
    widths = {name: column.widest(cells[name]) for name, column in columns.items()}
    least = {name: column.narrowest(cells[name]) for name, column in columns.items()}
    gap = GAP if _total(least.values(), GAP) <= width else NARROW_GAP
    while _total(widths.values(), gap) > width and (wide := [name for name in widths if widths[name] > least[name]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for name, column in columns.items():
        table.add_column(column.title, justify="right" if column.numbers else "left", width=widths[name])
    for number, row in enumerate(zip(*(cells[name] for name in columns), strict=True)):
        stars = {name for name, text in zip(columns, row, strict=True) if name in marked and text.endswith("*")}
        shown = stars | {name for name in columns if (name, number) in best}
        texts = ((name in shown, escape(text)) for name, text in zip(columns, row, strict=True))
        table.add_row(*(f"[bold green]{text}[/]" if is_shown else text for is_shown, text in texts))
    return table


def _total(widths: Collection[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)
