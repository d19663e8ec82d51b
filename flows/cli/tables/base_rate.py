"""The terminal output of `kgcal base-rate`."""

from rich.console import Console

from flows.cli.tables.layout import Column, fitted_table
from tasks.jobs.base_rate_result import BaseRateResult

RATE = {"rate": Column("base rate", numbers=True), "interval": Column("95 % interval", numbers=True)}
COUNTS = {"candidates": Column("candidates", numbers=True), "labels": Column("labels", numbers=True)}


def show_base_rate(console: Console, found: BaseRateResult) -> None:
    """Print the overall estimates, the shares of the mistakes, the base rates by relation, and the sentences."""
    rows = [[name, *_rate(rate.value, rate.low, rate.high)] for name, rate in found.rows()]
    _show(console, {"from": Column("from")} | RATE, rows)
    if found.mixture is not None:
        console.print("\nmistakes", soft_wrap=True)
        shares = [[name, *_rate(one.value, one.low, one.high)] for name, one in found.mixture.shares.items()]
        columns = {"strategy": Column("resemble"), "share": Column("share", numbers=True)}
        _show(console, columns | {"interval": RATE["interval"]}, shares)
    if found.relations:
        console.print("\nrelations", soft_wrap=True)
        by_relation = [
            [one.relation, *_rate(one.base_rate, one.low, one.high), f"{one.candidates:,}", f"{one.labels:,}"]
            for one in found.relations
        ]
        _show(console, {"relation": Column("relation")} | RATE | COUNTS, by_relation)
    if found.others:
        console.print(f"{found.others:,} other relations have too few triples for an estimate", soft_wrap=True)
    console.print()
    for sentence in found.sentences():
        console.print(sentence, soft_wrap=True, markup=False)


def _rate(value: float, low: float, high: float) -> tuple[str, str]:
    return f"{value:.3g}", f"{low:.3g} to {high:.3g}"


def _show(console: Console, columns: dict[str, Column], rows: list[list[str]]) -> None:
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    console.print(fitted_table(columns, cells, console.width))
