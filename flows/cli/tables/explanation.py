"""The terminal output of `kgcal explain`."""

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from rich.console import Console

from flows.cli.tables.layout import Column, fitted_table
from tasks.jobs.explain import Explained

if TYPE_CHECKING:
    from kgcore.prediction.explanation import Explanation, UnseenExplanation
    from kgcore.prediction.similar import Alternatives

BASE_RATE = Column("base rate", numbers=True)
SCORE, PROBABILITY = Column("score", numbers=True), Column("probability", numbers=True)
VALUE, ADDS = Column("value", numbers=True), Column("adds", numbers=True)
LEAST_SHOWN = 0.05  # log-odds of a feature
INTERVAL, SIMILARITY = Column("95 % interval", numbers=True), Column("similarity", numbers=True)


def show_explanation(console: Console, shown: Explained) -> None:
    """Print the sentences of an explanation, its tables, and the model."""
    made = shown.explanation
    console.print(f"{made.subject} {made.predicate} {made.object}", soft_wrap=True, markup=False)
    for sentence in made.sentences:
        console.print(f"* {sentence}", soft_wrap=True, markup=False)
    columns: dict[str, Column]
    full = shown.of_known
    for title, columns, rows in chain(_common(made), _tables(full) if full else ()):
        console.print(f"\n{title}", soft_wrap=True, markup=False)
        cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
        console.print(fitted_table(columns, cells, console.width))
    console.print(f"\nmodel: {shown.model} ({made.calibrator}), base rate {shown.base_rate_text}", soft_wrap=True)
    if shown.output:
        console.print(f"explanation: {shown.output}", soft_wrap=True, markup=False)


def _common(made: "Explanation | UnseenExplanation") -> Iterator[tuple[str, dict[str, Column], list[list[str]]]]:
    """Yield the tables that both kinds of explanation have: their titles, columns and rows."""
    answer = {"probability": PROBABILITY, "interval": INTERVAL}
    if made.contributions:
        shown = [row for row in made.contributions if abs(row.log_odds) >= LEAST_SHOWN]
        left = sum(row.log_odds for row in made.contributions if abs(row.log_odds) < LEAST_SHOWN)
        cells = [
            [row.feature, "" if row.value is None else f"{row.value:.4g}", f"{row.log_odds:+.3f}"] for row in shown
        ]
        total = sum(row.log_odds for row in made.contributions)
        cells += [["others", "", f"{left:+.3f}"], ["sum: log-odds of the probability", "", f"{total:+.3f}"]]
        yield "what adds to the log-odds", {"evidence": Column("evidence"), "value": VALUE, "adds": ADDS}, cells
    if made.at_base_rates:
        rows = [[f"{row.base_rate:.4g}", row.text, row.interval_text] for row in made.at_base_rates]
        yield "other base rates", {"base_rate": BASE_RATE} | answer, rows


def _tables(made: "Explanation") -> Iterator[tuple[str, dict[str, Column], list[list[str]]]]:
    """Yield each further table that is not empty."""
    answer = {"probability": PROBABILITY, "interval": INTERVAL}
    sides = (
        ("object", f"{made.subject} {made.predicate} ?", made.objects),
        ("subject", f"? {made.predicate} {made.object}", made.subjects),
    )
    for side, query, found in sides:
        if found.best:
            yield f"best alternatives: {query}", {side: Column(side), "score": SCORE} | answer, _best(found)
    names = ("subject", "object", "split")
    facts = [
        [fact.subject, fact.object, fact.split, f"{fact.similarity:.2f}"]
        for group in (made.support.same_subject, made.support.same_object, made.support.others)
        for fact in group.nearest
    ]
    if facts:
        yield (
            f"nearest known facts of {made.predicate}",
            {n: Column(n) for n in names} | {"similarity": SIMILARITY},
            facts,
        )


def _best(found: "Alternatives") -> list[list[str]]:
    return [[row.name, f"{row.score:.4g}", row.text, row.interval_text] for row in found.best]
