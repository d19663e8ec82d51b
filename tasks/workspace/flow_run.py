"""The Prefect flow run of the calling code, and the server that the user names. No other file reads Prefect's context.

Code in a flow run has loaded Prefect. So a process without Prefect gets its answer without the import of Prefect, which
takes more than a second.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.workspace.services import RECORDER, recorded_services


@dataclass(frozen=True)
class FlowRun:
    """A Prefect flow run.

    id          its id, a UUID
    started     when it started, in seconds since 1970
    parameters  the parameters of its flow, by name
    """

    id: str
    started: float
    parameters: Mapping[str, Any]


def current_flow_run() -> FlowRun | None:
    """Return the flow run of the calling code; None outside a flow run."""
    if "prefect.context" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return FlowRun(str(context.flow_run.id), context.start_time.timestamp(), context.parameters or {})


def in_task() -> bool:
    """Return whether the calling code runs inside a Prefect task."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import TaskRunContext

    return TaskRunContext.get() is not None


def named_api() -> str | None:
    """Return the API URL of the Prefect server that Prefect's settings name; None if they name no server.

    Prefect is loaded only if it is loaded already, because a program may have changed its settings, or if one of the
    sources of its settings may name a server.
    """
    if "prefect.settings" not in sys.modules and not _may_name_a_server():
        return None
    from prefect.settings import PREFECT_API_URL

    url: str | None = PREFECT_API_URL.value()
    return url


def permanent_api() -> str | None:
    """Return the API URL of the Prefect server that Prefect's settings name; None for the recorder, or without one."""
    url, recorder = named_api(), recorded_services().get(RECORDER)
    return None if recorder is not None and url == f"{recorder.url}/api" else url


def _may_name_a_server() -> bool:
    """Return whether the environment, a file in the working folder or a saved profile may name a Prefect server."""
    variables = {name.upper() for name in os.environ}  # Prefect reads them in any case
    if "PREFECT_PROFILE" in variables or any(name.startswith("PREFECT_API") for name in variables):
        return True
    return Path("prefect.toml").exists() or any(word in text for word, text in _files())


def _files() -> Iterator[tuple[str, str]]:
    """Yield, for each file that may name a server among other things, the word of that setting and the file's text."""
    folder = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or folder / "profiles.toml"
    for word, path in (("prefect_", ".env"), ("tool.prefect", "pyproject.toml"), ("prefect_api", profiles)):
        try:
            yield word, Path(path).expanduser().read_text(encoding="utf-8", errors="replace").lower()
        except OSError:  # there is no such file, or Prefect cannot read it either
            continue
