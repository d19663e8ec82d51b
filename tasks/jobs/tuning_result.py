"""The result of a search for training settings, with a ranking of its trials and a summary as text."""

from dataclasses import dataclass

from kgcore.config import TrainConfig
from kgcore.config.choices import OBJECTIVES

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
