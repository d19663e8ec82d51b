"""The trials of a search. Each is logged as an MLflow run that is nested under the run of the search."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.tuning.record import Record
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.series import SeriesLog
from tasks.tracking.store import Store

log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class TrialRecords:
    """A factory that opens the MLflow run of each trial of a search.

    parent    id of the MLflow run of the search
    metric    the objective of the search
    dataset   the data set that trials are measured on
    on_epoch  function that is called after every epoch with the number of the trial and a short text on its progress
    """

    store: Store
    parent: str
    metric: str
    dataset: DatasetId
    on_epoch: Callable[[int, str], None]

    @contextmanager
    def __call__(self, number: int, config: TrainConfig) -> Iterator["TrialRecord"]:
        """Open the run of a trial, and yield its record. The run ends as FINISHED if the trial is complete or pruned.

        It ends as FAILED, with the reason as its note, if the block raises FitError; as KILLED if it is interrupted.
        """
        with self.store.open_run(f"trial {number}", RunTags(stage="trial", parent=self.parent)) as run_id:
            self.store.log_params(run_id, config.as_dict() | {"trial": number})
            self.store.log_dataset(run_id, self.dataset, self.dataset.name, {})
            record = TrialRecord(self, run_id, number, config.epochs)
            try:
                yield record
            except FitError as error:
                self.store.log_tags(run_id, RunTags(state="failed", note=str(error)))
                log.info("trial %-3d failed: %s", number, error)
                raise
            finally:
                record.flush()


class TrialRecord(Record):
    """The record of a trial. It logs losses and metrics to MLflow, and reports the progress of the trial."""

    FLUSH_SECONDS = 5.0

    def __init__(self, search: TrialRecords, run_id: str, number: int, epochs: int) -> None:
        self._search, self._run_id, self._number, self._epochs = search, run_id, number, epochs
        self._losses = SeriesLog(search.store, run_id, "loss", search.dataset, self.FLUSH_SECONDS)
        self._figures, self._epoch = dict[str, float](), 0
        self.attributes = {"run": run_id}

    def epoch(self, epoch: int, loss: float) -> None:
        self._epoch = epoch
        self._search.on_epoch(self._number, f"epoch {epoch} of {self._epochs}")
        self._losses.add(epoch, loss)

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        self._figures = dict(figures)
        self._search.store.log_metrics(self._run_id, figures, epoch, dataset=self._search.dataset)

    def ended(self, state: str) -> None:
        search, value = self._search, self._figures[self._search.metric]
        search.store.log_tags(self._run_id, RunTags(state=state))
        if state == "complete":
            metrics = {f"trial.{search.metric}": value}
            search.store.log_metrics(search.parent, metrics, self._number, dataset=search.dataset)
        word = "" if state == "complete" else f", {state}"
        log.info("trial %-3d %s %.4f after %d epochs%s", self._number, search.metric, value, self._epoch, word)

    def flush(self) -> None:
        """Write the losses to MLflow that are not written yet."""
        self._losses.flush()
