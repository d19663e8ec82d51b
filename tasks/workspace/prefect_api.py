"""The Prefect server that the user names. Found without Prefect where possible: its import takes more than a second."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path


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
    from tasks.workspace.services import RECORDER, recorded_services

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
