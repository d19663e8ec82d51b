"""A study: the trials of a search, kept in a file with their results and the queue of trials to run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import optuna
import pandas as pd
from optuna import Study
from optuna.pruners import MedianPruner
from optuna.trial import FrozenTrial, TrialState

from kgcore.config import TrainConfig
from kgcore.config.choices import OBJECTIVES
from kgcore.errors import FitError
from kgcore.tuning.space import Drawn

LOCKED_SECONDS = 60  # how long a process waits while another one writes to the file
COUNTED = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
_NAME = "tune"


@dataclass(frozen=True)
class TrialRow:
    """A trial and its results.

    trial        number in the study, from 0
    state        complete, pruned, failed or running
    value        the figure that the search improves; None while the trial has no value
    epochs_done  epochs after which the figures were last measured
    seconds      duration of the trial; None while it runs
    reason       why the trial failed, else ''
    run          id of the MLflow run that recorded the trial, else ''
    figures      every figure of the objective
    settings     training settings; None if a process ended before it drew them
    """

    trial: int
    state: str
    value: float | None
    epochs_done: int
    seconds: float | None
    reason: str
    run: str
    figures: Mapping[str, float]
    settings: TrainConfig | None

    def columns(self) -> dict[str, object]:
        """The row as columns: its fields, each figure, and each training setting."""
        own = {name: value for name, value in vars(self).items() if name not in ("figures", "settings")}
        return own | dict(self.figures) | (asdict(self.settings) if self.settings else {})


def open_study(path: Path, metric: str, starts: Sequence[Drawn] = (), anew: bool = False) -> Study:
    """Open the study of that file, or create it.

    metric  name in OBJECTIVES of the figure that the search improves
    starts  what the first trials of a new study draw
    anew    delete the trials of an existing study
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    patience = {"connect_args": {"timeout": LOCKED_SECONDS}}
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=patience)
    if anew and _NAME in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=_NAME, storage=storage)
    study = optuna.create_study(
        storage=storage,
        study_name=_NAME,
        direction=OBJECTIVES[metric],
        pruner=MedianPruner(n_startup_trials=3),
        load_if_exists=True,
    )
    if not study.get_trials(deepcopy=False):
        for values in starts:
            study.enqueue_trial(dict(values))
    return study


def begun(study: Study) -> list[FrozenTrial]:
    """The trials that count: running, complete, pruned, and failed with a reason. Queued trials do not count."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state in COUNTED or (trial.state == TrialState.FAIL and "reason" in trial.user_attrs)
    ]


def running(study: Study) -> list[FrozenTrial]:
    """The trials that run, and those whose process ended without a word."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def completed(study: Study) -> list[FrozenTrial]:
    """The trials that trained all their epochs."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def requeue(study: Study, number: int) -> None:
    """End a trial so that it does not count, and queue its values again. Do nothing if the trial has ended."""
    trial = study.get_trials(deepcopy=False)[number]
    if not trial.state.is_finished():
        study.tell(number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def requeue_abandoned(study: Study, lives: Callable[[FrozenTrial], bool]) -> None:
    """Queue again every running trial that no process runs."""
    for trial in running(study):
        if not lives(trial):
            requeue(study, trial.number)


def config_of(trial: FrozenTrial) -> TrainConfig:
    """The training settings of a trial."""
    return TrainConfig(**trial.user_attrs["config"])


def best(study: Study) -> FrozenTrial:
    """The complete trial with the best value. Raises FitError with the reasons of failure if no trial is complete."""
    if not completed(study):
        reasons = dict.fromkeys(trial.user_attrs["reason"] for trial in begun(study) if "reason" in trial.user_attrs)
        raise FitError(f"no trial is complete: {'; '.join(reasons) or 'all were pruned'}")
    return study.best_trial


def trial_rows(study: Study) -> list[TrialRow]:
    """The trials that count, in their order."""
    return [
        TrialRow(
            trial=trial.number,
            state="failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
            value=trial.value,
            epochs_done=trial.user_attrs.get("epochs", 0),
            seconds=round(trial.duration.total_seconds(), 1) if trial.duration else None,
            reason=trial.user_attrs.get("reason", ""),
            run=trial.user_attrs.get("run", ""),
            figures=trial.user_attrs.get("figures", {}),
            settings=config_of(trial) if "config" in trial.user_attrs else None,
        )
        for trial in begun(study)
    ]


def trials_table(study: Study) -> pd.DataFrame:
    """`trial_rows` as a table, as trials.csv has it: a row per trial, `TrialRow.columns` as columns."""
    return pd.DataFrame([row.columns() for row in trial_rows(study)])
