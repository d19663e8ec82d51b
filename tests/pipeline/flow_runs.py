"""A Prefect server for the tests of a module, and what it has recorded."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace

import pytest
from prefect import flow_engine
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowFilter, FlowFilterName
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import FlowRunSort

from flows.local.prefect_server import create_prefect_database
from tests.conftest import use_home


@contextmanager
def prefect_server() -> Iterator[None]:
    """Run a Prefect server with an empty database, and send flow runs of the block to it."""
    from prefect.testing import utilities  # it loads the server, for 2 s

    # the end of a flow run waits for the thread of its heartbeats, which sleeps a second at a time
    brief = SimpleNamespace(**vars(time) | {"sleep": lambda seconds: time.sleep(seconds / 50)})
    folder = Path(mkdtemp())  # the harness removes it
    with pytest.MonkeyPatch.context() as patch:
        use_home(folder, patch)
        create_prefect_database()  # mostly a copy; the harness would migrate for 4 s
        (folder / "prefect" / "prefect.db").rename(folder / "prefect-test.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utilities, "mkdtemp", lambda: str(folder))
        patch.setattr(flow_engine, "time", brief)
        patch.setenv("KGCAL_PREFECT", "on")
        with utilities.prefect_test_harness(server_startup_timeout=120):
            yield


async def recorded() -> tuple[list, list]:
    """Return the flow runs and the task runs."""
    async with get_client() as client:
        return await client.read_flow_runs(), await client.read_task_runs(limit=100)


def published(flow_name: str) -> dict[str, Artifact]:
    """Return key -> artifact of the newest run of the flow."""
    with get_client(sync_client=True) as client:
        named = FlowFilter(name=FlowFilterName(any_=[flow_name]))
        [run] = client.read_flow_runs(flow_filter=named, limit=1, sort=FlowRunSort.START_TIME_DESC)
        its_artifacts = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        return {artifact.key: artifact for artifact in client.read_artifacts(artifact_filter=its_artifacts)}
