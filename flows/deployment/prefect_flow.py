"""The class of kgcal's Prefect flows. Its import loads Prefect."""

from typing import Any, ParamSpec, TypeVar

from prefect import Flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

P = ParamSpec("P")
R = TypeVar("R")
HEARTBEAT = 30  # seconds; prefect.yaml sets the same interval for the runs of a worker


class HeartbeatFlow(Flow[P, R]):
    """A flow that sends a heartbeat every HEARTBEAT seconds, also without a worker.

    Prefect's default interval is 180 seconds. The automation of `kgcal up` marks a run as crashed after less silence.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:  # type: ignore[override]
        with temporary_settings(updates={PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT}):
            return super().__call__(*args, **kwargs)
