"""The terminal output of `kgcal discover`."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tasks.jobs.discover import Discovered


def show_discovery(console: Console, found: Discovered) -> None:
    """Print the first rows, sentences about the list, the frequent flyers and the model."""
    if found.rows:
        console.print(_facts(found) if found.has_facts else _sets(found))
    listed = f"the first {len(found.examples)} are shown" if len(found.examples) < found.rows else ""
    parts = [f"the answer sets of {found.rows:,} kinds of queries {found.asked}", listed]
    if found.has_facts:
        parts[0] = f"{found.rows:,} missing {'fact' if found.rows == 1 else 'facts'} {found.asked}"
        parts.append(found.expected_text)
    console.print(escape(", ".join(filter(None, parts))), soft_wrap=True)
    for note in found.notes:
        console.print(escape(note), soft_wrap=True)
    for flyer in found.flyers:
        text = f"frequent flyer: {flyer['entity']} is the {flyer['part']} of {flyer['answers']} answers, "
        console.print(escape(f"{text}{flyer['expected']} expected"), soft_wrap=True)
    console.print(f"model: {found.model} ({found.calibrator}), base rate {found.base_rate_text}", soft_wrap=True)
    if found.output:
        console.print(f"the list: {found.output}", soft_wrap=True)


def _facts(found: Discovered) -> Table:
    has_p_values = "p_value" in found.examples[0]
    table = Table(box=box.SIMPLE_HEAD)
    has_flags = any(row["flag"] for row in found.examples)
    further = [*(["p-value"] if has_p_values else []), *(["flag"] if has_flags else [])]
    for name in ("rank", "missing fact", "probability", "95 % interval", *further):
        table.add_column(name, overflow="fold", justify="left" if name == "missing fact" else "right")
    for row in found.examples:
        triple = escape(f"{row['subject']} {row['predicate']} {row['object']}")
        interval = "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
        probability = "" if row["probability"] is None else f"{row['probability']:.4f}"
        cells = [str(row["rank"]), triple, probability, interval]
        cells += [f"{row['p_value']:.4f}"] if has_p_values else []
        table.add_row(*cells, *([str(row["flag"] or "")] if has_flags else []))
    return table


def _sets(found: Discovered) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    columns = ("queries", "calibrated on", "measure", "test queries", "test coverage", "mean size")
    for name in columns:
        table.add_column(name, overflow="fold", justify="left" if name in ("queries", "measure") else "right")
    for row in found.examples:
        query = f"(?, {row['predicate']}, o)" if row["asked"] == "subject" else f"(s, {row['predicate']}, ?)"
        calibrated = f"{row['calibration_queries']:,}{' pooled' if row['pooled'] else ''}"
        tested = ["", ""]
        if row["test_queries"]:
            tested = [f"{row['test_coverage']:.3f}", f"{row['mean_size']:,.1f}"]
        table.add_row(escape(query), calibrated, str(row["measure"]), f"{row['test_queries']:,}", *tested)
    return table
