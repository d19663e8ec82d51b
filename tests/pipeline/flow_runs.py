"""What a Prefect server has recorded."""

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowFilter, FlowFilterName
from prefect.client.schemas.objects import Artifact
from prefect.client.schemas.sorting import FlowRunSort


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
