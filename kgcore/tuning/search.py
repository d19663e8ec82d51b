"""The search: trials of a study that a file keeps, so that a search can be resumed, and shared by processes.

The tree-structured Parzen estimator draws the trials (Bergstra et al., "Algorithms for Hyper-Parameter Optimization",
NIPS 2011), the first ten at random. A trial is measured after a quarter, a half and three quarters of its epochs, and
pruned if it is worse than the median of the other trials at that point (Golovin et al., "Google Vizier", KDD 2017). The
points are shares of a trial's epochs, not epoch numbers, because the learning rate decays over all epochs of a trial.
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
from kgcore.tuning.study import begun, completed, requeue, requeue_abandoned

PARTS = 4  # a trial is measured after each of so many equal parts of its epochs


class TimeIsUp(BaseException):
    """The time of a search ends during a trial. No Exception, so that nothing that handles errors catches it."""


@dataclass(frozen=True)
class Plan:
    """How long a search goes on, and the seed of its trials.

    total    number of trials that the study must have, including those of earlier calls and of other processes
    seconds  after this time no trial begins, and the running trial is queued again for the next call; a search always
             goes on until one trial is complete
    seed     determines a trial together with the number and the results of the trials before it, so that a resumed
             search finds what an uninterrupted one finds
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
    open_record: Callable[[int, TrainConfig], AbstractContextManager[Record]] = lambda number, config: nullcontext(
        Record()
    ),
    lock: AbstractContextManager[Any] | None = None,
    lives: Callable[[FrozenTrial], bool] = lambda trial: False,
) -> bool:
    """Run trials until the study has the planned number or the time is up. Return whether Ctrl-C ended the search.

    graph        the training graph, without a test split, as for the objective
    open_record  opens the record of a trial, given its number and settings; it stays open while the trial runs
    lock         is held while a trial is drawn: one lock for all processes that share the study
    lives        whether a process still runs a trial that the study calls running; any other is queued again

    A trial that raises FitError, because its loss diverges, counts as failed, and the search goes on. Raises
    KeyboardInterrupt if no trial is complete yet, and any other exception of a trial, which is then queued again.
    """
    ends = time.monotonic() + plan.seconds
    while True:
        try:
            with ExitStack() as trial_context:
                with lock or nullcontext():
                    requeue_abandoned(study, lives)
                    before = len(begun(study))
                    if before >= plan.total or (time.monotonic() >= ends and completed(study)):
                        return False
                    trial = study.ask()
                    trial_context.enter_context(_ensure_end(study, trial))
                    config = _draw(study, trial, space, plan.seed, before)
                    record = trial_context.enter_context(open_record(trial.number, config))
                    for name, value in record.attributes.items():
                        trial.set_user_attr(name, value)
                _run(study, trial, config, graph, objective, device, record, ends)
        except TimeIsUp:
            continue
        except KeyboardInterrupt:
            if not completed(study):
                raise
            return True


def _draw(study: Study, trial: Trial, space: Space, seed: int, before: int) -> TrainConfig:
    """Draw the settings of a trial that `before` others precede, and keep them in the study."""
    [trial_seed] = np.random.SeedSequence([seed, before]).generate_state(1).tolist()
    study.sampler = TPESampler(seed=trial_seed)  # Optuna draws when a value is suggested
    config = space.suggest(trial)
    trial.set_user_attr("config", asdict(config))
    return config


def _run(
    study: Study,
    trial: Trial,
    config: TrainConfig,
    graph: KnowledgeGraph,
    objective: Objective,
    device: torch.device,
    record: Record,
    ends: float,
) -> None:
    """Train and measure one trial, and report the result to the study and the record."""

    def on_epoch(epoch: int, loss: float) -> None:
        record.epoch(epoch, loss)
        if time.monotonic() >= ends and completed(study):
            raise TimeIsUp

    def measure(epoch: int, model: TrainedModel) -> float:
        figures = objective.measure(model)
        trial.set_user_attr("figures", figures)
        trial.set_user_attr("epochs", epoch)
        record.measured(epoch, figures)
        return objective.value(figures)

    def on_model(epoch: int, model: TrainedModel) -> None:
        trial.report(measure(epoch, model), part_of[epoch])
        if trial.should_prune():
            raise TrialPruned

    part_of = {config.epochs * part // PARTS: part for part in range(1, PARTS)}
    try:
        trained = train(graph, config, device, on_epoch=on_epoch, on_model=on_model, model_epochs=part_of).model
    except TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)
        record.ended("pruned")
    else:
        study.tell(trial, measure(config.epochs, trained))
        record.ended("complete")


@contextmanager
def _ensure_end(study: Study, trial: Trial) -> Iterator[None]:
    """Ensure that the study learns how a trial ends: failed with a reason, or queued again."""
    try:
        yield
    except FitError as error:
        trial.set_user_attr("reason", str(error))
        study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        requeue(study, trial.number)
        raise
