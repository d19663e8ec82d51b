"""The search runs the trials of a study. A file keeps the study, so processes can resume and share a search.

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

PARTS = 4  # number of equal parts of a trial's epochs; the trial is measured after each part


class TimeIsUp(BaseException):
    """The time of a search ends during a trial. It is no Exception, so error handlers do not catch it."""


@dataclass(frozen=True)
class Plan:
    """The length of a search, and the seed of its trials.

    total    planned number of trials in the study, including the trials of earlier calls and of other processes
    seconds  time limit in seconds. After it no trial begins, and the running trial is queued again for the next call.
             A search without a complete trial continues after the limit until one trial is complete
    seed     seed of the trials. The seed and the number and results of the earlier trials determine a trial. Therefore
             a resumed search has the same trials as an uninterrupted search
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
    open_record  function of a trial's number and settings that opens its record. The record is open while the trial
                 runs
    lock         lock for all processes that share the study. The search holds it while it draws a trial
    lives        function that returns True if a process still runs a trial in the state running. Other trials in this
                 state are queued again

    A trial with a diverging loss raises FitError. It counts as failed, and the search continues. Raises
    KeyboardInterrupt if Ctrl-C is pressed before a trial is complete. Raises any other exception of a trial, and queues
    the trial again.
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
    """Draw the settings of the trial after `before` others, and store the settings in the study."""
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
    """If a trial ends with an exception, mark it in the study as failed with a reason (FitError), or queue it again."""
    try:
        yield
    except FitError as error:
        trial.set_user_attr("reason", str(error))
        study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        requeue(study, trial.number)
        raise
