"""Patience: no signal interrupts a request to the store, and while the store is away, requests are repeated."""

import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kgcore.errors import OutageError, first_line
from tasks.tracking.record import quoted
from tasks.workspace.settings import masked, outage_seconds

if TYPE_CHECKING:
    from mlflow import MlflowClient

T = TypeVar("T")
BRIEF = 0.3  # seconds: the patience of work that need not wait
START_SECONDS = 3.0  # the patience of a command at its start
LONGEST_PAUSE = 10.0  # seconds between two requests to a store that does not answer
# how MLflow, and the libraries that MLflow calls, say that a server does not answer
AWAY = re.compile(
    r"API request to \S+ failed with|Connection ?(aborted|broken|Error|refused)|IncompleteRead"
    r"|onnection to server at|server closed the connection|terminating connection"
)
log = logging.getLogger("kgcal")


class Patience:
    """A way to make requests to one store.

    uri      address of the store
    seconds  how long a request is made again while the store is away; None: `outage_seconds`
    """

    def __init__(self, uri: str, seconds: float | None = None) -> None:
        self.uri, self.seconds = uri, seconds
        is_server = uri.startswith(("http://", "https://"))  # it ends its transactions, and may take minutes to answer
        self._whole: Callable[[], AbstractContextManager[None]] = nullcontext if is_server else uninterrupted

    def __call__(self, request: Callable[[], T], made: Callable[[], T | None] = lambda: None) -> T:
        """Return the value of a request.

        made  returns what an earlier attempt has made if only its answer was lost; otherwise None

        Raises OutageError if the store is away for too long.
        """
        end, pause, told = None, 0.1, False
        while True:
            try:
                with self._whole():
                    value = made() if end is not None else None
                    value = request() if value is None else value
                if told:
                    log.info("the MLflow store %s answers again", masked(self.uri))
                return value
            except Exception as error:
                if not AWAY.search(str(error)):
                    raise
                reason = error
            seconds = outage_seconds() if self.seconds is None else self.seconds
            end = end or time.monotonic() + seconds
            if time.monotonic() >= end:
                raise OutageError(
                    f"the MLflow store {masked(self.uri)} has not answered for {seconds:.0f} seconds, "
                    f"{masked(first_line(reason))}: nothing is lost, start it and run the same command again, which "
                    "re-uses finished stages and resumes a training"
                ) from reason
            if pause > 1 and not told:  # a connection that was closed while it was not used is opened at once
                log.warning("the MLflow store %s does not answer: waiting at most %.0f s", masked(self.uri), seconds)
                told = True
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
            pause = min(2 * pause, LONGEST_PAUSE)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the block. Only the main thread is interrupted by them.

    If a handler raises an error inside a transaction of SQLAlchemy, the transaction stays open, because MLflow rolls
    back only for an `Exception`. The database is then locked as long as the error exists, also for its handlers.
    """
    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    before, received = [(number, signal.getsignal(number)) for number in numbers], list[int]()
    try:
        for number in numbers:
            signal.signal(number, lambda interrupt, frame: received.append(interrupt))
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        for interrupt in received:
            signal.raise_signal(interrupt)


def patient(client: "MlflowClient", patience: Patience) -> "MlflowClient":
    """Return a client whose requests are made with patience and create nothing twice.

    It must create a run with its start time, and a LoggedModel with its run.
    """
    return cast("MlflowClient", _PatientClient(client, patience))


class _PatientClient:
    def __init__(self, client: "MlflowClient", patience: Patience) -> None:
        self._client, self._patience = client, patience

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, made = getattr(self._client, name), _MADE.get(name, lambda *values, **options: None)
        return lambda *values, **options: self._patience(
            partial(method, *values, **options), partial(made, self._client, *values, **options)
        )


def _made_experiment(client: "MlflowClient", name: str, **options: Any) -> str | None:
    found = client.get_experiment_by_name(name)
    return None if found is None else str(found.experiment_id)


def _made_run(client: "MlflowClient", experiment: str, tags: dict[str, str], run_name: str, start_time: int) -> Any:
    runs = client.search_runs([experiment], f"attributes.start_time = {start_time}")
    return next((run for run in runs if tags.items() <= run.data.tags.items()), None)


def _made_batch(client: "MlflowClient", run_id: str, metrics: Sequence[Any] = (), *other: Any, **more: Any) -> Any:
    first = next((metric for metric in metrics if metric.model_id), None)  # MLflow refuses only these a second time
    if first is None:
        return None
    known = client.get_logged_model(first.model_id).metrics or []
    return any((m.key, m.timestamp, m.run_id) == (first.key, first.timestamp, run_id) for m in known) or None


def _made_model(client: "MlflowClient", experiment: str, name: str, source_run_id: str, **options: Any) -> Any:
    models = client.search_logged_models([experiment], f"name = {quoted(name)}")
    return next((m for m in models if m.source_run_id == source_run_id and m.status == "PENDING"), None)


def _made_outputs(client: "MlflowClient", run_id: str, models: list[Any]) -> Any:
    outputs = client.get_run(run_id).outputs
    known = {model.model_id for model in outputs.model_outputs} if outputs else set()
    return {model.model_id for model in models} <= known or None


def _made_registered_model(client: "MlflowClient", name: str, **options: Any) -> Any:
    return next(iter(client.search_registered_models(f"name = {quoted(name)}")), None)


def _made_version(
    client: "MlflowClient", name: str, source: str, run_id: str, tags: dict[str, str], **other: Any
) -> Any:
    versions = client.search_model_versions(f"name = {quoted(name)}")
    return next((version for version in versions if version.tags == tags), None)


# method of MlflowClient that must not be called twice -> returns what a call with these arguments has made, or None
_MADE: dict[str, Callable[..., Any]] = {
    "create_experiment": _made_experiment,
    "create_run": _made_run,
    "log_batch": _made_batch,
    "create_logged_model": _made_model,
    "log_outputs": _made_outputs,
    "create_registered_model": _made_registered_model,
    "create_model_version": _made_version,
}
