"""A buffer for a metric with one value per step: the values are logged in batches while a computation runs."""

import time

from tasks.tracking.record import DatasetId
from tasks.tracking.store import Store


class SeriesLog:
    """A buffer for the values of one metric of a run. It writes them to MLflow at intervals of at least `seconds`.

    name     name of the metric
    dataset  the data set on which the metric is measured
    seconds  shortest time between two writes
    """

    def __init__(self, store: Store, run_id: str, name: str, dataset: DatasetId, seconds: float) -> None:
        self._store, self._run_id, self._name, self._dataset = store, run_id, name, dataset
        self._seconds, self._flushed = seconds, time.monotonic()
        self._first, self._values = 1, list[float]()

    def add(self, step: int, value: float) -> None:
        """Add the value of a step. The first step may have any number, each later one is the step before plus 1."""
        if not self._values:
            self._first = step
        self._values.append(value)
        if time.monotonic() - self._flushed >= self._seconds:
            self.flush()

    def flush(self) -> None:
        """Write the values to MLflow that are not written yet."""
        self._store.log_series(self._run_id, self._name, self._values, self._dataset, self._first)
        self._values, self._flushed = [], time.monotonic()
