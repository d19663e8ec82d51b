"""The terminal table of a search: its best trials and its best settings."""

from collections.abc import Callable, Mapping

from rich.console import Console
from rich.markup import escape

from flows.cli.tables.layout import Column, fitted_table
from kgcore.config import TrainConfig
from tasks.jobs.tuning_result import OBJECTIVE_TITLES, TuningResult
from tasks.tracking.labels import shares_text
from tasks.tracking.ui import ui_command

MOST_ROWS = 10
# searched setting -> its columns: header -> function that returns the text of a cell
COLUMNS: Mapping[str, Mapping[str, Callable[[TrainConfig], str]]] = {
    "learning_rate": {"learning\nrate": lambda config: f"{config.learning_rate:g}"},
    "regulariser": {
        "LP\nweight": lambda config: f"{config.lp_weight:g}" if config.lp_weight else "-",
        "LP\npower": lambda config: f"{config.lp_power:g}" if config.lp_weight else "-",
    },
    "dropout": {"dropout": lambda config: f"{config.dropout:g}"},
    "initial_scale": {"initial\nscale": lambda config: f"{config.initial_scale:g}"},
    "training_strategy": {"training\nstrategy": lambda config: shares_text(config.training_strategy)},
    "training_sides": {"training\nsides": lambda config: config.training_sides},
    "inverse_relations": {"inverse\nrelations": lambda config: "yes" if config.inverse_relations else "-"},
    "cohort_weight": {"cohort\nweight": lambda config: f"{config.cohort_weight:g}"},
    "k": {"k": lambda config: str(config.k)},
    "training_eta": {"eta": lambda config: str(config.training_eta)},
}
TEXTS = ("training\nstrategy", "training\nsides")  # all other columns hold numbers
LEGEND = {"k": "k: embedding size", "eta": "eta: corruptions per positive in training"}


def show_tuning(console: Console, found: TuningResult) -> None:
    """Print the best trials, the number of trials in each state, and the command with the best settings."""
    columns = {name: cell for searched in found.searched for name, cell in COLUMNS.get(searched, {}).items()}
    metric = OBJECTIVE_TITLES[found.metric]
    rows = [(trial, trial.config) for trial in found.ranked()[:MOST_ROWS] if trial.config is not None]
    cells = {
        "trial": [f"{trial.number}" for trial, _ in rows],
        metric: [f"{trial.value:.4f}" for trial, _ in rows],
        "epochs": [f"{config.epochs}" for _, config in rows],
        "seconds": [f"{trial.seconds or 0:.0f}" for trial, _ in rows],
        **{name: [cell(config) for _, config in rows] for name, cell in columns.items()},
    }
    heads = {name: Column(name, numbers=name not in TEXTS) for name in cells}
    title = f"{escape(found.dataset)}, {found.settings.model} {found.settings.loss}"
    console.print(f"{title}: best {metric} on validation first")
    console.print(fitted_table(heads, cells, console.width))
    if legend := "; ".join(text for name, text in LEGEND.items() if name in columns):
        console.print(legend)
    console.print(found.outcome(), soft_wrap=True)
    console.print(f"MLflow run {found.run}: {ui_command()}", soft_wrap=True)
    console.print("train with the best settings:")
    console.print(escape(found.command), soft_wrap=True)
