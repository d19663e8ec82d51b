"""What a search found, as a person sees it at its end."""

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kgcore.config.choices import OBJECTIVES
from tasks.tracking.names import shares_text
from tasks.tracking.ui import ui_command

SHOWN = 10
WORDS = {"brier": "Brier", "log_loss": "log loss", "accuracy": "accuracy", "mrr": "MRR"}
# searched setting -> its columns, and what stands in them
COLUMNS: dict[str, dict[str, Any]] = {
    "learning_rate": {"rate": lambda row: f"{row['learning_rate']:g}"},
    "regulariser": {
        "LP": lambda row: f"{row['lp_weight']:g}" if row["lp_weight"] else "-",
        "p": lambda row: f"{row['lp_power']:g}" if row["lp_weight"] else "-",
    },
    "dropout": {"dropout": lambda row: f"{row['dropout']:g}"},
    "initial_scale": {"scale": lambda row: f"{row['initial_scale']:g}"},
    "training_strategy": {"strategy": lambda row: shares_text(row["training_strategy"])},
    "training_sides": {"sides": lambda row: row["training_sides"]},
    "inverse_relations": {"inverse": lambda row: "yes" if row["inverse_relations"] else "-"},
    "cohort_weight": {"cohort": lambda row: f"{row['cohort_weight']:g}"},
    "k": {"k": lambda row: str(row["k"])},
    "training_eta": {"eta": lambda row: str(row["training_eta"])},
}


def ranked(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The complete trials, best first."""
    complete = [row for row in found["trials"] if row["state"] == "complete"]
    highest = OBJECTIVES[found["metric"]] == "maximize"
    return sorted(complete, key=lambda row: -row["value"] if highest else row["value"])


def show_tuning(console: Console, found: dict[str, Any]) -> None:
    """Print the best trials, how many ended how, and the command with the best settings."""
    columns = {name: cell for searched in found["searched"] for name, cell in COLUMNS.get(searched, {}).items()}
    word = WORDS[found["metric"]]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("trial", word, "epochs", "s", *columns):
        table.add_column(name, justify="left" if name in ("strategy", "sides") else "right", overflow="fold")
    for row in ranked(found)[:SHOWN]:
        cells = [f"{row['trial']}", f"{row['value']:.4f}", f"{row['epochs']}", f"{row['seconds']:.0f}"]
        table.add_row(*(escape(text) for text in [*cells, *(cell(row) for cell in columns.values())]))
    console.print(f"{escape(found['dataset'])}, {found['model']} {found['loss']}: best {word} on validation first")
    console.print(table)
    console.print(outcome(found), soft_wrap=True)
    console.print(f"MLflow run {found['run']}: {ui_command()}", soft_wrap=True)
    console.print(escape(found["command"]), soft_wrap=True)


def outcome(found: dict[str, Any]) -> str:
    """How the trials ended, and how the best compares with where the search started, in a sentence each."""
    rows = found["trials"]
    counts = {
        state: sum(row["state"] == state for row in rows) for state in ("complete", "pruned", "failed", "running")
    }
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    word = WORDS[found["metric"]]
    text = f"{len(rows)} trials: {told}. Best {word}: {found['value']:.4f} of trial {found['trial']}"
    first = rows[0]
    text += f", {first['value']:.4f} where it started" if first["state"] == "complete" else ""
    return text + "." + (" Interrupted: the same command goes on." if found["interrupted"] else "")
