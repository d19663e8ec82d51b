"""The result of a job, which terminal, Prefect UI, MLflow and a file of JSON show, and what a reader needs first."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ResultTable:
    """A table of a result, with its heading and sentences about it.

    title   heading; '': none
    rows    a mapping for each row: column -> text of the cell. In the name of a column, a line break shows where a
            header wraps
    words   columns with words: they are aligned on the left, and their cells wrap. Other columns have numbers
    notes   sentences below the table; a table without rows has only these
    best    row and column of the cells that are highlighted, beside numbers with a star
    equal   columns that leave a narrow terminal first, if all rows have the same text
    drops   columns that leave it later, in this order; the first one leaves even before those of `equal`
    ids     column whose cells are cut in a narrow terminal; '': none
    """

    title: str = ""
    rows: Sequence[Mapping[str, str]] = ()
    words: Collection[str] = ()
    notes: Sequence[str] = ()
    best: Collection[tuple[int, str]] = ()
    equal: Sequence[str] = ()
    drops: Sequence[str] = ()
    ids: str = ""

    def markdown(self) -> str:
        """Return heading, table and sentences in Markdown."""
        lines = []
        if self.rows:
            heads = [" ".join(column.split()) for column in self.rows[0]]
            cells = [heads, ["---"] * len(heads), *([_cell(text) for text in row.values()] for row in self.rows)]
            lines = ["\n".join(f"| {' | '.join(row)} |" for row in cells)]
        return "\n\n".join([*([f"**{self.title}**"] if self.title else []), *lines, *self.notes])


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a job found.

    title      what it is about
    verdict    what matters most, in a sentence or two above all others; '': none
    tables     tables, each with a heading and sentences
    sentences  what follows from them
    files      what a file holds -> its path or address
    run        id of the MLflow run; '': none
    runs       stage -> id of the MLflow run; only pipelines have these
    linked     whether the terminal says how to open MLflow
    rows       the main table as data; if empty, the rows of the first table
    facts      the result as plain JSON
    failure    why a part of the work failed, as a sentence: the command then fails; '': nothing failed
    exit_code  exit code of the command if nothing failed
    """

    title: str
    verdict: str = ""
    tables: Sequence[ResultTable] = ()
    sentences: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    runs: Mapping[str, str] = field(default_factory=dict)
    linked: bool = False
    rows: Sequence[Mapping[str, object]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    exit_code: int = 0

    @property
    def table(self) -> Sequence[Mapping[str, object]]:
        """Return the rows of the main table."""
        return self.rows or next((table.rows for table in self.tables if table.rows), ())

    def markdown(self) -> str:
        """Return all but the title in Markdown."""
        tables = [table.markdown() for table in self.tables]
        files = [f"{name}: `{place}`" for name, place in self.files.items() if place]
        runs = [runs_text(self.runs)] if self.runs else []
        return "\n\n".join(filter(None, [self.verdict, *tables, *self.sentences, self.failure, *files, *runs]))

    def to_json(self) -> dict[str, Any]:
        """Return the facts; without facts, the keys title, sentences, rows, files and run."""
        if self.facts:
            return dict(self.facts)
        said = [*(note for table in self.tables for note in table.notes), *self.sentences]
        rows = [dict(row) for row in self.table]
        return {"title": self.title, "sentences": said, "rows": rows, "files": dict(self.files), "run": self.run}


@dataclass(frozen=True)
class Brief:
    """What a reader needs first about a calibrator. Report, terminal, model card and MLflow show it in this order.

    verdict   whether its probabilities can be trusted, how sure that is, and what they are about
    examples  a row for each of a few test triples, from sure to doubtful
    steps     what to do next: command -> what it does
    """

    verdict: str
    examples: Sequence[Mapping[str, str]] = ()
    steps: Mapping[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[str]:
        """Return the commands, each with a comment."""
        width = max(map(len, self.steps), default=0)
        return [f"{command:{width}}  # {what}" for command, what in self.steps.items()]

    def markdown(self) -> str:
        """Return the verdict, the examples and the commands in Markdown."""
        table = [ResultTable(rows=self.examples).markdown()] if self.examples else []
        steps = ["\n".join(["```sh", *self.commands, "```"])] if self.steps else []
        return "\n\n".join([*([f"**{self.verdict}**"] if self.verdict else []), *table, *steps])


def table_of(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[dict[str, str]]:
    """Return the rows of a table from their cells, in the order of the columns."""
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in rows]


def runs_text(runs: Mapping[str, str]) -> str:
    """Return the run ids of stages in Markdown."""
    return "Stages: " + ", ".join(f"{stage} `{run_id}`" for stage, run_id in runs.items())


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
