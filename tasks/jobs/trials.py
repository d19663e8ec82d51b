"""A trial of a search as an MLflow run of its own, under the run of the search."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.tuning.record import Record
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import Store

log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class TrialRecords:
    """Opens the records of a search's trials.

    parent    the run of the search
    metric    the figure that the search improves
    dataset   the data set that trials are measured on
    on_epoch  called after every epoch with the trial's number and a word on its progress
    """

    store: Store
    parent: str
    metric: str
    dataset: DatasetId
    on_epoch: Callable[[int, str], None]

    @contextmanager
    def __call__(self, number: int, config: TrainConfig) -> Iterator["TrialRecord"]:
        """The MLflow run of a trial: FINISHED when it is complete or pruned, FAILED with the reason, or KILLED."""
        with self.store.open_run(f"trial {number}", RunTags(stage="trial", parent=self.parent)) as run_id:
            self.store.log_params(run_id, asdict(config) | {"trial": number})
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
    """Logs a trial's losses and figures to MLflow, and shows its progress."""

    FLUSH_SECONDS = 5.0

    def __init__(self, search: TrialRecords, run_id: str, number: int, epochs: int) -> None:
        self._search, self._run_id, self._number, self._epochs = search, run_id, number, epochs
        self._losses: list[float] = []
        self._logged, self._last, self._figures, self._epoch = 0, time.monotonic(), dict[str, float](), 0
        self.attributes = {"run": run_id}

    def epoch(self, epoch: int, loss: float) -> None:
        self._losses.append(loss)
        self._epoch = epoch
        self._search.on_epoch(self._number, f"epoch {epoch} of {self._epochs}")
        if time.monotonic() - self._last >= self.FLUSH_SECONDS:
            self.flush()

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
        """Log the losses that are not logged yet."""
        new = self._losses[self._logged :]
        self._search.store.log_series(self._run_id, "loss", new, self._search.dataset, self._logged + 1)
        self._logged, self._last = len(self._losses), time.monotonic()
