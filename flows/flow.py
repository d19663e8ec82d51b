"""The class of kgcal's Prefect flows, the decorator that makes a function a flow, and names of flow runs."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from prefect import Flow
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from flows.job import kind_of
from flows.local.recorder import recording
from kgcore.config import CalibrateConfig, PipelineConfigs, PrepareConfig
from kgcore.config.presets import resolve
from kgcore.errors import InputError
from tasks.jobs.pipeline import name_of
from tasks.workspace.flow_run import current_flow_run, tag
from tasks.workspace.settings import uses_prefect

P = ParamSpec("P")
R = TypeVar("R")
HEARTBEAT = 30  # seconds; prefect.yaml sets the same interval for the runs of a worker


class HeartbeatFlow(Flow[P, R]):
    """A flow whose runs are recorded in KGCAL_HOME where the settings name no Prefect server.

    It sends a heartbeat every HEARTBEAT seconds, also without a worker. Prefect's default interval is 180 seconds. The
    automation of `kgcal up` marks a run as crashed after less silence.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:  # type: ignore[override]
        """Run the flow with Prefect; if KGCAL_PREFECT is off, call its function.

        Raises InputError as `recording` and `uses_prefect` do.
        """
        if not uses_prefect():
            return self.fn(*args, **kwargs)
        beating = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT}
        if PREFECT_API_URL.value() or current_flow_run() is not None:
            with temporary_settings(updates=beating):
                return super().__call__(*args, **kwargs)
        with recording() as api, temporary_settings(updates=beating | {PREFECT_API_URL: api}), _without_run_logs():
            return super().__call__(*args, **kwargs)


def flow(
    name: str, flow_run_name: str | Callable[[], str] | None = None
) -> Callable[[Callable[P, R]], HeartbeatFlow[P, R]]:
    """Return a decorator that makes a function a flow. `flow_run_name` may contain parameters in braces."""
    return lambda function: HeartbeatFlow(function, name=name, flow_run_name=flow_run_name, on_running=[_tag])


def _tag(flow: Flow[P, R], flow_run: FlowRun, state: State[Any]) -> None:
    """Tag a flow run with the kind of its job and, if a parameter names it, with its data set."""
    from tasks.jobs.compare import dataset_name  # loads pandas

    given: Mapping[str, Any] = flow_run.parameters
    settings: Mapping[str, Any] = next((given[name] for name in ("prepare", "config") if name in given), {})
    default = PrepareConfig().dataset if "prepare" in given else ""
    named = given.get("dataset") or settings.get("dataset") or default
    tag(str(flow_run.id), kind_of(flow.name), dataset_name(named) if named else "")


def resolved_name(*words: str) -> Callable[[], str]:
    """Return a function that names a flow run: the words, then the data set, the model and the loss.

    The given settings and the preset determine the data set, the model and the loss. If a race chooses the model, its
    name is `auto`; only the flow without words, the pipeline, has races. A stated base rate ends the name. Prefect
    calls the function in the context of the flow run. If the settings are invalid, the name is the words alone, or
    `pipeline` if there are no words; the flow itself then raises the error.
    """

    def name() -> str:
        run = current_flow_run()
        assert run is not None
        parameters = run.parameters
        try:
            given = PipelineConfigs(
                prepare=parameters["prepare"],
                train=parameters["train"],
                calibrate=parameters.get("calibrate", CalibrateConfig()),
            )
            configs = resolve(parameters["preset"], given, races=not words).configs
            return " ".join([*words, name_of(configs)])
        except InputError:
            return " ".join(words) or "pipeline"

    return name


@contextmanager
def _without_run_logs() -> Iterator[None]:
    """Hide Prefect's log lines of runs from the terminal, but for warnings of its engine: the history has them."""
    consoles = [own for own in logging.getLogger().handlers if isinstance(own, PrefectConsoleHandler)]
    for console in consoles:
        console.addFilter(_is_of_no_run)
    try:
        yield
    finally:
        for console in consoles:
            console.removeFilter(_is_of_no_run)


def _is_of_no_run(record: logging.LogRecord) -> bool:
    of_run = record.name.startswith(("prefect.flow_runs", "prefect.task_runs"))
    return not of_run and not (record.name == "prefect.engine" and record.levelno < logging.WARNING)
