"""The result of a search for training settings: the ranking of its trials, and what a user sees of it."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from kgcore.config import TrainConfig
from kgcore.config.base import OBJECTIVES
from kgcore.report.result import Result, ResultTable
from tasks.tracking.labels import shares_text

MOST_ROWS = 10  # trials that the terminal and the Prefect UI show
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
OBJECTIVE_TITLES = {"brier": "Brier", "log_loss": "log loss", "accuracy": "accuracy", "mrr": "MRR"}


@dataclass(frozen=True)
class Trial:
    """A trial of a search.

    number       its number in the study, from 0
    state        complete, pruned, failed or running
    value        its value of the objective; None: not measured
    epochs_done  number of epochs that it trained
    seconds      its duration in seconds; None: it has not ended
    config       its settings; None: not drawn yet
    """

    number: int
    state: str
    value: float | None
    epochs_done: int
    seconds: float | None
    config: TrainConfig | None


@dataclass(frozen=True)
class TuningResult:
    """The result of a search.

    dataset      name of the data set
    metric       the objective of the search
    searched     names of the searched settings
    value        the best value of the objective
    trial        number of the best trial
    settings     the settings of the best trial
    command      the `kgcal run` command that trains with these settings
    trials       all trials, in the order of their numbers
    interrupted  whether Ctrl-C ended the search
    run          id of the search's MLflow run
    """

    dataset: str
    metric: str
    searched: tuple[str, ...]
    value: float
    trial: int
    settings: TrainConfig
    command: str
    trials: tuple[Trial, ...]
    interrupted: bool
    run: str

    def result(self) -> Result:
        """Return the best trials, the number of trials in each state, and the command with the best settings."""
        columns = {name: cell for searched in self.searched for name, cell in COLUMNS.get(searched, {}).items()}
        metric, ranked = OBJECTIVE_TITLES[self.metric], self.ranked()[:MOST_ROWS]
        rows = [
            {
                "trial": f"{trial.number}",
                metric: f"{trial.value:.4f}",
                "epochs": f"{trial.config.epochs}",
                "seconds": f"{trial.seconds or 0:.0f}",
                **{name: cell(trial.config) for name, cell in columns.items()},
            }
            for trial in ranked
            if trial.config is not None
        ]
        data = [
            {"trial": trial.number, "value": trial.value, "epochs": trial.epochs_done, "seconds": trial.seconds}
            | (trial.config.as_dict() if trial.config else {})
            for trial in self.ranked()
        ]
        legend = "; ".join(text for name, text in LEGEND.items() if name in columns)
        heading = f"{self.dataset}, {self.settings.model} {self.settings.loss}: best {metric} on validation first"
        return Result(
            title=f"{self.settings.model} {self.settings.loss} on {self.dataset}: settings",
            tables=[ResultTable(heading, rows, TEXTS, [legend] if legend else [])],
            sentences=[self.outcome(), "train with the best settings:", self.command],
            run=self.run,
            linked=True,
            rows=data[:MOST_ROWS],
            facts=asdict(self) | {"settings": self.settings.as_dict(), "trials": data},
            exit_code=128 + signal.SIGINT if self.interrupted else 0,
        )

    def ranked(self) -> list[Trial]:
        """Return the complete trials, best first."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return sorted(complete, key=lambda trial: trial.value or 0.0, reverse=OBJECTIVES[self.metric] == "maximize")

    def outcome(self) -> str:
        """Return how many trials ended in each state, and the values of the best and the initial settings, as text."""
        states = ("complete", "pruned", "failed", "running")
        counts = {state: sum(trial.state == state for trial in self.trials) for state in states}
        ends = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        text = f"{len(self.trials)} trials: {ends}. "
        text += f"Best {OBJECTIVE_TITLES[self.metric]}: {self.value:.4f} in trial {self.trial}"
        first = self.trials[0]
        text += f", {first.value:.4f} with the initial settings" if first.state == "complete" else ""
        return text + "." + (" Interrupted: the same command resumes the search." if self.interrupted else "")
