"""The terminal output of `kgcal audit`."""

from rich import box
from rich.console import Console
from rich.table import Table

from tasks.jobs.audit_result import AuditResult


def show_audit(console: Console, found: AuditResult) -> None:
    """Print the facts that are most probably wrong, how many errors to expect, and the file."""
    if found.examples and not found.sampled:
        console.print(_facts(found))
    for sentence in found.sentences():
        console.print(sentence, soft_wrap=True)
    if found.sampled:
        console.print(f"{found.sampled:,} facts to label, 1 for true and -1 for wrong: {found.output}", soft_wrap=True)
    elif found.output:
        console.print(f"facts: {found.output}", soft_wrap=True)


def _facts(found: AuditResult) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("fact", "probability", "95 % interval", "expected wrong so far"):
        table.add_column(name, overflow="fold", justify="left" if name == "fact" else "right")
    for row in found.examples:
        fact = f"{row['subject']} {row['predicate']} {row['object']}"
        interval = f"{row['low']:.4f} to {row['high']:.4f}"
        table.add_row(fact, f"{row['probability']:.4f}", interval, f"{row['expected_wrong']:.1f}")
    return table
