"""The search: trial after trial of a study that is kept in a file, so that it can be gone on with, and shared.

Trials are drawn by the tree-structured Parzen estimator (Bergstra et al., "Algorithms for Hyper-Parameter
Optimization", NIPS 2011), the first ten by chance. At a quarter, a half and three quarters of its epochs a trial is
measured, and given up where it is worse than the median of the others at that point (Golovin et al., "Google Vizier",
KDD 2017): not at the same epoch, because the step size falls to its end over the epochs that a trial has.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from optuna import Study, Trial, TrialPruned
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.training.loop import train
from kgcore.tuning.objective import Objective
from kgcore.tuning.record import Record
from kgcore.tuning.space import Space
from kgcore.tuning.study import begun, completed, leave_off, leave_off_dead

LOOKS = 4  # a trial is measured after each of so many parts of its epochs


class TimeIsUp(BaseException):
    """The time of a search ends in the middle of a trial: no error of the trial's, so none that catches errors."""


@dataclass(frozen=True)
class Plan:
    """What a search is to do.

    total    trials that the study is to have, those of earlier and of other processes included
    seconds  after which none is begun, and the one that runs is left off, to be run again by who goes on with the
             study; until one is complete there is no end
    seed     of the drawing: a trial is drawn by this seed, how many were begun before it, and how they went, so that a
             study that was gone on with is the one that was never stopped
    """

    total: int
    seconds: float
    seed: int


def search(
    study: Study,
    graph: KnowledgeGraph,
    objective: Objective,
    space: Space,
    plan: Plan,
    device: torch.device,
    record: Callable[[int, TrainConfig], AbstractContextManager[Record]] = lambda number, config: nullcontext(Record()),
    lock: AbstractContextManager[Any] | None = None,
    lives: Callable[[FrozenTrial], bool] = lambda trial: False,
) -> bool:
    """Run trials until the study has as many as are planned, or the time is up; whether Ctrl-C ended it before.

    graph   what is trained on: without a test split, as the objective's
    record  opens the record of a trial, of that number and configuration, for as long as it runs
    lock    is held where a trial is begun: one for all the processes that share the study
    lives   whether a trial that the study calls running is run by some process: else it is run again

    A trial that raises FitError, because its loss explodes, is a failed one, and the search goes on. Raises
    KeyboardInterrupt where none is complete yet, and whatever else a trial raises, which is then run again.
    """
    ends = time.monotonic() + plan.seconds
    while True:
        try:
            with ExitStack() as held:
                with lock or nullcontext():
                    leave_off_dead(study, lives)
                    before = len(begun(study))
                    if before >= plan.total or (time.monotonic() >= ends and completed(study)):
                        return False
                    trial = study.ask()
                    held.enter_context(_told(study, trial))
                    [seed] = np.random.SeedSequence([plan.seed, before]).generate_state(1).tolist()
                    study.sampler = TPESampler(seed=seed)  # it draws when a value is suggested
                    config = space.suggest(trial)
                    trial.set_user_attr("config", asdict(config))
                    told = held.enter_context(record(trial.number, config))
                    for name, value in told.attributes.items():
                        trial.set_user_attr(name, value)
                _run(study, trial, config, graph, objective, device, told, ends)
        except TimeIsUp:
            continue
        except KeyboardInterrupt:
            if not completed(study):
                raise
            return True


def _run(
    study: Study,
    trial: Trial,
    config: TrainConfig,
    graph: KnowledgeGraph,
    objective: Objective,
    device: torch.device,
    told: Record,
    ends: float,
) -> None:
    """Train and measure, and tell the study and the record how it went."""

    def on_epoch(epoch: int, loss: float) -> None:
        told.epoch(epoch, loss)
        if time.monotonic() >= ends and completed(study):
            raise TimeIsUp

    def measure(epoch: int, model: TrainedModel) -> float:
        figures = objective.measure(model)
        trial.set_user_attr("figures", figures)
        trial.set_user_attr("epochs", epoch)
        told.measured(epoch, figures)
        return objective.value(figures)

    def on_model(epoch: int, model: TrainedModel) -> None:
        trial.report(measure(epoch, model), looks[epoch])
        if trial.should_prune():
            raise TrialPruned

    looks = {config.epochs * part // LOOKS: part for part in range(1, LOOKS)}
    try:
        trained = train(graph, config, device, on_epoch=on_epoch, on_model=on_model, model_epochs=looks).model
    except TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
        told.ended("pruned")
    else:
        study.tell(trial, measure(config.epochs, trained))
        told.ended("complete")


@contextmanager
def _told(study: Study, trial: Trial) -> Iterator[None]:
    """See to it that the study is told of the end of a trial, whatever that is."""
    try:
        yield
    except FitError as error:
        trial.set_user_attr("reason", str(error))
        study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        leave_off(study, trial.number)
        raise
