"""The search, which runs the trials of a study. A file stores the study, so a search can stop and continue later.

Several processes can work on the same study at the same time.

The tree-structured Parzen estimator draws the trials (Bergstra et al., "Algorithms for Hyper-Parameter Optimization",
NIPS 2011); it draws at random until ten trials are complete or pruned. A trial is measured after a quarter, a half and
three quarters of its epochs. It is pruned if it is worse than the median of the other trials at the same share of their
epochs (Golovin et al., "Google Vizier", KDD 2017). The comparison uses shares of the epochs, not epoch numbers, because
the learning rate decays over all epochs of a trial.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from optuna import Study, Trial, TrialPruned
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, TrialState

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.errors import FitError
from kgcore.wings.tuning.objective import SearchObjective, TimeIsUp
from kgcore.wings.tuning.record import Record
from kgcore.wings.tuning.space import Space
from kgcore.wings.tuning.study import begun, completed, requeue, requeue_abandoned

PARTS = 4  # number of equal parts of a trial's epochs; the trial is measured after each part


@dataclass(frozen=True)
class Plan:
    """The length of a search, and the seed of its trials.

    total    planned number of trials in the study, including the trials of earlier calls and of other processes
    seconds  time limit in seconds. After the limit no trial begins, and the running trial stops and is queued again for
             the next call. If no trial is complete yet, the search continues after the limit until one is
    seed     seed of the trials. A trial depends only on the seed, and on the number and results of the earlier trials.
             Therefore a search that stops and continues has the same trials as an uninterrupted search
    """

    total: int
    seconds: float
    seed: int


def search(
    study: Study,
    graph: KnowledgeGraph,
    objective: SearchObjective,
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

    graph        the graph to train on, without a test split; the same graph as in the objective
    open_record  function that opens the record of a trial, given the trial's number and settings. The record is open
                 while the trial runs
    lock         lock that all processes of the study share. The search holds it while it draws a trial
    lives        function that returns whether a process still runs a trial that the study lists as running. If not, the
                 trial is queued again

    If training a trial raises FitError, for example because the loss diverges, the trial counts as failed and the
    search continues. Raises KeyboardInterrupt if Ctrl-C is pressed before any trial is complete. If a trial ends
    with another exception, the search queues the trial again and raises that exception.
    """
    ends = time.monotonic() + plan.seconds
    while True:
        try:
            with ExitStack() as trial_context:
                with lock or nullcontext(), _none_abandoned(study, lives):
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
    """Draw the settings of a trial, and store them in the study. `before` is the number of earlier trials."""
    [trial_seed] = np.random.SeedSequence([seed, before]).generate_state(1).tolist()
    study.sampler = TPESampler(seed=trial_seed)  # Optuna draws when a value is suggested
    config = space.suggest(trial)
    trial.set_user_attr("config", config.as_dict())
    return config


def _run(
    study: Study,
    trial: Trial,
    config: TrainConfig,
    graph: KnowledgeGraph,
    objective: SearchObjective,
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
        return figures[objective.metric]

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
def _none_abandoned(study: Study, lives: Callable[[FrozenTrial], bool]) -> Iterator[None]:
    """Queue again every trial that no process runs: before the block, and after it if it is interrupted.

    `Study.ask` stores the trial before it returns it, so an interruption can leave a trial that nothing else ends.
    """
    requeue_abandoned(study, lives)
    try:
        yield
    except BaseException:
        requeue_abandoned(study, lives)
        raise


@contextmanager
def _ensure_end(study: Study, trial: Trial) -> Iterator[None]:
    """If a trial ends with FitError, mark it as failed with the reason. After any other exception, queue it again."""
    try:
        yield
    except FitError as error:
        trial.set_user_attr("reason", str(error))
        study.tell(trial, state=TrialState.FAIL)
    except BaseException:
        requeue(study, trial.number)
        raise
