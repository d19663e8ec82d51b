"""How kgcal's flows are Prefect flow runs."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import Flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

P = ParamSpec("P")
R = TypeVar("R")
HEARTBEAT = 30  # seconds; prefect.yaml sets the same for what a worker runs


class BeatingFlow(Flow[P, R]):
    """A flow that, called by hand, too, has a heartbeat every HEARTBEAT seconds.

    Prefect's own are 180 seconds apart: longer than the silence that the automation of `kgcal up` takes a run for dead
    after.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:  # type: ignore[override]
        with temporary_settings(updates={PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT}):
            return super().__call__(*args, **kwargs)


def flow(
    name: str, flow_run_name: str | Callable[[], str] | None = None
) -> Callable[[Callable[P, R]], BeatingFlow[P, R]]:
    """Decorator that makes a function a flow of that name; `flow_run_name` may have its parameters in braces."""

    def make(function: Callable[P, R]) -> BeatingFlow[P, R]:
        return BeatingFlow(function, name=name, flow_run_name=flow_run_name)

    return make
