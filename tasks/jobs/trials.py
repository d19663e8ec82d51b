"""A trial of a search as an MLflow run of its own, under that of the search."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.tuning.record import Record
from tasks.stages.base import log
from tasks.tracking.store import Store


class TrialRecord(Record):
    """Logs to MLflow what is told of a trial, and shows how far it is.

    dataset  name and digest of what it is measured on
    say      is called after every epoch with the trial's number and a word on how it goes
    """

    SECONDS = 5.0  # between two loggings of the losses

    def __init__(
        self,
        store: Store,
        parent: str,
        run_id: str,
        number: int,
        config: TrainConfig,
        metric: str,
        dataset: tuple[str, str],
        say: Callable[[int, str], None],
    ) -> None:
        self._store, self._parent, self._run_id, self._number = store, parent, run_id, number
        self._config, self._metric, self._dataset, self._say = config, metric, dataset, say
        self._losses: list[float] = []
        self._logged, self._last, self._figures, self._epoch = 0, time.monotonic(), dict[str, float](), 0
        self.attributes = {"run": run_id}

    def epoch(self, epoch: int, loss: float) -> None:
        self._losses.append(loss)
        self._epoch = epoch
        self._say(self._number, f"epoch {epoch} of {self._config.epochs}")
        if time.monotonic() - self._last >= self.SECONDS:
            self.flush()

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        self._figures = dict(figures)
        self._store.log_metrics(self._run_id, figures, epoch, dataset=self._dataset)

    def ended(self, state: str) -> None:
        value = self._figures[self._metric]
        self._store.log_tags(self._run_id, {"kgcal.state": state})
        if state == "complete":
            self._store.log_metrics(self._parent, {f"trial.{self._metric}": value}, self._number, dataset=self._dataset)
        word = "" if state == "complete" else f", {state}"
        log.info("trial %-3d %s %.4f after %d epochs%s", self._number, self._metric, value, self._epoch, word)

    def flush(self) -> None:
        """Log the losses that are not logged yet."""
        new = self._losses[self._logged :]
        self._store.log_series(self._run_id, "loss", new, self._dataset, self._logged + 1)
        self._logged, self._last = len(self._losses), time.monotonic()


class TrialRecords:
    """Opens the records of a search's trials, under its run `parent`."""

    def __init__(
        self, store: Store, parent: str, metric: str, dataset: tuple[str, str], say: Callable[[int, str], None]
    ) -> None:
        self._store, self._parent, self._metric, self._dataset, self._say = store, parent, metric, dataset, say

    @contextmanager
    def __call__(self, number: int, config: TrainConfig) -> Iterator[TrialRecord]:
        """The MLflow run of a trial: FINISHED when it is complete or pruned, FAILED with the reason, or KILLED."""
        store = self._store
        with store.open_run(f"trial {number}", {"stage": "trial"}, self._parent) as run_id:
            store.log_params(run_id, asdict(config) | {"trial": number})
            store.log_dataset(run_id, self._dataset, self._dataset[0], {})
            record = TrialRecord(store, self._parent, run_id, number, config, self._metric, self._dataset, self._say)
            try:
                yield record
            except FitError as error:
                store.log_tags(run_id, {"kgcal.state": "failed", "mlflow.note.content": str(error)})
                log.info("trial %-3d failed: %s", number, error)
                raise
            finally:
                record.flush()
