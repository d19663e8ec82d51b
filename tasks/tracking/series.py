"""A metric that grows by one value per step, logged in batches while a computation runs."""

import time

from tasks.tracking.record import DatasetId
from tasks.tracking.store import Store


class SeriesLog:
    """Buffers the values of one metric of a run, and logs them to MLflow when `seconds` have passed since the last log.

    name     name of the metric
    dataset  the data set that the metric belongs to
    seconds  shortest time between two logs, in seconds
    """

    def __init__(self, store: Store, run_id: str, name: str, dataset: DatasetId, seconds: float) -> None:
        self._store, self._run_id, self._name, self._dataset = store, run_id, name, dataset
        self._seconds, self._flushed = seconds, time.monotonic()
        self._first, self._values = 1, list[float]()

    def add(self, step: int, value: float) -> None:
        """Add the value of the step after the last one; the first call may have any step."""
        if not self._values:
            self._first = step
        self._values.append(value)
        if time.monotonic() - self._flushed >= self._seconds:
            self.flush()

    def flush(self) -> None:
        """Log the values that are not logged yet."""
        self._store.log_series(self._run_id, self._name, self._values, self._dataset, self._first)
        self._values, self._flushed = [], time.monotonic()
