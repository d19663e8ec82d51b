"""The terminal output of `kgcal predict`."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.jobs.prediction import Prediction


def show_prediction(console: Console, made: Prediction) -> None:
    """Print the answer for a single triple, a table of a few answers without a file, or counts; then the model."""
    if made.rows == 1:
        [row] = made.examples
        console.print(escape(f"{row['subject']} {row['predicate']} {row['object']}"), soft_wrap=True)
        console.print(_answer(row, made.threshold), soft_wrap=True)
    elif not made.output and len(made.examples) == made.rows:
        console.print(_answers(made))
    else:
        console.print(
            f"{made.rows:,} triples: {made.answered:,} answered, {made.accepted:,} with a probability above "
            f"{made.threshold:g}, {made.known:,} known facts{', ' if made.expected_text else ''}{made.expected_text}"
        )
    for sentence in (made.about, *made.notes):
        if sentence:
            console.print(escape(sentence), soft_wrap=True)
    if made.unseen and made.rows > 1:
        console.print(
            f"from names: {made.unseen:,} of the answers are about entities that training has not seen", soft_wrap=True
        )
    if made.fdr:
        console.print(
            f"selected: {made.selected:,} of {made.tested:,} candidates that are no known facts; at most "
            f"{100 * made.fdr:g} % of the selected ones are false, in expectation",
            soft_wrap=True,
        )
    if made.rows > 1 and made.base_rate is not None:
        for reason, number in made.reasons.items():
            console.print(f"no answer: {reason} ({number:,} triples)")
    if made.lacks:
        console.print(made.lacks, soft_wrap=True)
    console.print(f"model: {made.model} ({made.calibrator}), base rate {made.base_rate_text}", soft_wrap=True)
    if made.output:
        console.print(f"answers: {made.output}", soft_wrap=True)


def _answer(row: Mapping[str, Any], threshold: float) -> str:
    if row["reason"]:
        return f"no answer: {row['reason']}"
    interval = "" if row["low"] is None else f" (95 % interval: {row['low']:.4f} to {row['high']:.4f})"
    accepted = "above" if row["decision"] else "not above"
    known = "; a known fact" if row["known"] else ""
    answer = f"probability {row['probability']:.4f}{interval}, {accepted} the threshold {threshold:g}{known}"
    return (
        f"{answer}\ntraining has not seen the {row['unseen']}: the answer rests on names" if row["unseen"] else answer
    )


def _answers(made: Prediction) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    if made.base_rate is None:  # an order without probabilities
        for name in ("rank", "triple", "known"):
            table.add_column(name, overflow="fold", justify="right" if name == "rank" else "left")
        for rank, row in enumerate(made.examples, start=1):
            triple = escape(f"{row['subject']} {row['predicate']} {row['object']}")
            table.add_row(str(rank), triple, "yes" if row["known"] else "no")
        return table
    for name in ("triple", "probability", "95 % interval", f"above {made.threshold:g}", "known"):
        table.add_column(name, overflow="fold", justify="right" if name in ("probability", "95 % interval") else "left")
    for row in made.examples:
        table.add_row(*_cells(row))
    return table


def _cells(row: Mapping[str, Any]) -> list[str]:
    triple = escape(f"{row['subject']} {row['predicate']} {row['object']}")
    if row["reason"]:
        return [triple, "", "", "", str(row["reason"])]
    interval = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
    return [triple, f"{row['probability']:.4f}", interval, _word(row["decision"]), _known(row)]


def _known(row: Mapping[str, Any]) -> str:
    return f"{row['unseen']} unseen: from names" if row["unseen"] else _word(row["known"])


def _word(value: bool) -> str:
    return "yes" if value else "no"
