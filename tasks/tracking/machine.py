"""What the machine does during a run, as MLflow's system metrics: load, memory, disk, network, and GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.tracking.store import Store


@contextmanager
def system_metrics(store: Store, run_id: str) -> Iterator[None]:
    """Log MLflow's system metrics to the run during the block.

    A thread of MLflow measures the whole machine every 10 seconds, or as MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL says.
    It ends with the block. A store that is away ends the measurements, not the block.
    """
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor: Any = SystemMetricsMonitor(run_id, tracking_uri=store.uri)  # type: ignore[no-untyped-call]
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()
