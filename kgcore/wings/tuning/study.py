"""A study: a file with the trials of a search, their results, and the queue of trials to run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna import Study
from optuna.pruners import MedianPruner
from optuna.trial import FrozenTrial, TrialState

from kgcore.config import TrainConfig
from kgcore.config.base import OBJECTIVES
from kgcore.errors import FitError

LOCKED_SECONDS = 60  # how long a process waits while another one writes to the file
COUNTED = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
_NAME = "tune"


def open_study(path: Path, metric: str, starts: Sequence[Mapping[str, Any]] = (), anew: bool = False) -> Study:
    """Return the study in a SQLite file, and create both if they do not exist. The caller holds the study's lock.

    metric  name in `kgcore.config.base.OBJECTIVES`, which says whether the search minimises or maximises the metric
    starts  settings of the first trials of a new study
    anew    whether to replace an existing study by a new study

    A new file has a temporary name until it is complete. Therefore a process that is killed during the creation leaves
    no incomplete study.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    if anew or not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        _remove_database(partial)  # left by a killed process
        _load_study(partial, metric, starts, keep_open=False)
        _remove_database(path)  # and its journal, because SQLite otherwise applies the journal to the new file
        partial.rename(path)
    return _load_study(path, metric, starts)


def _load_study(path: Path, metric: str, starts: Sequence[Mapping[str, Any]], keep_open: bool = True) -> Study:
    storage = optuna.storages.RDBStorage(
        f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": LOCKED_SECONDS}}
    )
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
    if not keep_open:
        storage.remove_session()
        storage.engine.dispose()
    return study


def _remove_database(path: Path) -> None:
    for companion in ("", "-journal"):
        Path(f"{path}{companion}").unlink(missing_ok=True)


def begun(study: Study) -> list[FrozenTrial]:
    """Return the trials that count towards the planned number: running, complete, pruned, and failed with a reason.

    Queued trials do not count.
    """
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state in COUNTED or (trial.state == TrialState.FAIL and "reason" in trial.user_attrs)
    ]


def running(study: Study) -> list[FrozenTrial]:
    """Return the trials that the study lists as running. The process of such a trial may have been killed."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def completed(study: Study) -> list[FrozenTrial]:
    """Return the complete trials, whose epochs are all trained."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def requeue(study: Study, number: int) -> None:
    """Mark a trial as failed without a reason, so that it does not count, and queue its values again.

    A trial that has already ended does not change.
    """
    trial = study.get_trials(deepcopy=False)[number]
    if not trial.state.is_finished():
        study.tell(number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def requeue_abandoned(study: Study, lives: Callable[[FrozenTrial], bool]) -> None:
    """Queue again every trial that the study lists as running but for which `lives` returns False."""
    for trial in running(study):
        if not lives(trial):
            requeue(study, trial.number)


def config_of(trial: FrozenTrial) -> TrainConfig:
    """Return the training settings of a trial."""
    return TrainConfig(**trial.user_attrs["config"])


def best(study: Study) -> FrozenTrial:
    """Return the complete trial with the best value. Raises FitError, with the reasons, if no trial is complete."""
    if not completed(study):
        reasons = dict.fromkeys(trial.user_attrs["reason"] for trial in begun(study) if "reason" in trial.user_attrs)
        raise FitError(f"no trial is complete: {'; '.join(reasons) or 'all were pruned'}")
    return study.best_trial


def trials_table(study: Study) -> pd.DataFrame:
    """Return the table for trials.csv: a row for each trial of `begun`, in the order of the trials.

    trial        number in the study, from 0
    state        complete, pruned, failed or running
    value        value of the metric that the search optimises; None while the trial has no value
    epochs_done  number of epochs that were trained when the metrics were last measured
    seconds      duration of the trial in seconds; None while it runs
    reason       reason of the failure, '' if the trial has not failed
    run          id of the MLflow run of the trial, '' without a run

    A column for each metric of the objective, and one for each training setting follow.
    """
    rows = []
    for trial in begun(study):
        row = {
            "trial": trial.number,
            "state": "failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
            "value": trial.value,
            "epochs_done": trial.user_attrs.get("epochs", 0),
            "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
            "reason": trial.user_attrs.get("reason", ""),
            "run": trial.user_attrs.get("run", ""),
        }
        rows.append(row | trial.user_attrs.get("figures", {}) | trial.user_attrs.get("config", {}))
    return pd.DataFrame(rows)
