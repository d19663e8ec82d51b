"""The terminal output of `kgcal calibrate-scores`."""

from rich.console import Console

from flows.cli.tables.results import results_table, show_best
from tasks.jobs.fitted_scores import ScoresResult


def show_scores(console: Console, found: ScoresResult) -> None:
    """Print the results of the calibrators, the sentences about them, the counts of the answers, and the places."""
    if found.summary is not None:
        console.print(results_table(found.summary.results, console.width))
        show_best(console, found.summary.results)
        for note in found.summary.notes:
            console.print(note, soft_wrap=True, markup=False)
    if found.expected is not None:
        console.print(
            f"{found.rows:,} rows, {found.expected:,.1f} expected to be true: {found.output}",
            soft_wrap=True,
            markup=False,
        )
    if found.promotion:
        console.print(found.promotion, soft_wrap=True, markup=False)
    console.print(f"model: {found.model} ({found.calibrator}), base rate {found.base_rate_text}", soft_wrap=True)
    if found.report:
        console.print(f"report: {found.report}", soft_wrap=True, markup=False)
