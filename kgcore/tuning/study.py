"""A search's trials, kept in a file: what was run, what came of it, and what is to be run next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
from optuna import Study
from optuna.pruners import MedianPruner
from optuna.trial import FrozenTrial, TrialState

from kgcore.config import TrainConfig
from kgcore.config.choices import OBJECTIVES
from kgcore.errors import FitError

LOCKED_SECONDS = 60  # that a process waits for another one's writing
COUNTED = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
_NAME = "tune"


def open_study(path: Path, metric: str, starts: Sequence[Mapping[str, Any]] = (), anew: bool = False) -> Study:
    """Return the study in a SQLite file, and create both if they do not exist. The caller holds the study's lock.

    metric  the objective of `kgcore.config.choices.OBJECTIVES`: it decides the direction of the search
    starts  settings of the first trials of a new study
    anew    replace the study that exists by a new one

    A new file gets its name when it is complete: a process that is killed while it creates the study leaves none.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    path.parent.mkdir(parents=True, exist_ok=True)
    if anew or not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        _remove_database(partial)  # of a process that was killed
        _load_study(partial, metric, starts, keep_open=False)
        _remove_database(path)  # with its journal, which SQLite would otherwise apply to the new file
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
    """The trials that count: those that run, and those that have ended and were not left off."""
    return [
        trial
        for trial in study.get_trials(deepcopy=False)
        if trial.state in COUNTED or (trial.state == TrialState.FAIL and "reason" in trial.user_attrs)
    ]


def running(study: Study) -> list[FrozenTrial]:
    """The trials that run, or whose process is gone."""
    return study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))


def completed(study: Study) -> list[FrozenTrial]:
    """The trials that were trained to their end."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def leave_off(study: Study, number: int) -> None:
    """End a trial as one that does not count, and queue one with its values, unless it has ended."""
    trial = study.get_trials(deepcopy=False)[number]
    if not trial.state.is_finished():
        study.tell(number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def leave_off_dead(study: Study, lives: Callable[[FrozenTrial], bool]) -> None:
    """Leave off the trials that run nowhere."""
    for trial in running(study):
        if not lives(trial):
            leave_off(study, trial.number)


def config_of(trial: FrozenTrial) -> TrainConfig:
    """The settings of a trial."""
    return TrainConfig(**trial.user_attrs["config"])


def best(study: Study) -> FrozenTrial:
    """The complete trial with the best value. Raises FitError that says why trials failed where there is none."""
    if not completed(study):
        reasons = dict.fromkeys(trial.user_attrs["reason"] for trial in begun(study) if "reason" in trial.user_attrs)
        raise FitError(f"no trial was trained to its end: {'; '.join(reasons) or 'all were given up'}")
    return study.best_trial


def trials_table(study: Study) -> pd.DataFrame:
    """The trials that count, a row each, in their order.

    Columns: trial, state (complete, pruned, failed, running), value, epochs_done, seconds, reason (of a failure), run
    (what recorded it), the objective's figures, and every training setting.
    """
    rows = []
    for trial in begun(study):
        attrs = trial.user_attrs
        rows.append(
            {
                "trial": trial.number,
                "state": "failed" if trial.state == TrialState.FAIL else trial.state.name.lower(),
                "value": trial.value,
                "epochs_done": attrs.get("epochs", 0),
                "seconds": round(trial.duration.total_seconds(), 1) if trial.duration else None,
                "reason": attrs.get("reason", ""),
                "run": attrs.get("run", ""),
                **attrs.get("figures", {}),
                **(asdict(config_of(trial)) if "config" in attrs else {}),
            }
        )
    return pd.DataFrame(rows)
