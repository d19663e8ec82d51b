"""The same flows under a real Prefect server."""

import asyncio
from collections.abc import Iterator

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.testing.utilities import prefect_test_harness
from prefect.utilities.importtools import import_object

from flows import stages
from flows.pipeline import pipeline
from kgcore.config import PrepareConfig, TrainConfig
from tests.pipeline.conftest import CHECKOUT

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module", autouse=True)
def harness() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=120):
        yield


async def recorded() -> tuple[list, list]:
    async with get_client() as client:
        return await client.read_flow_runs(), await client.read_task_runs(limit=100)


def test_the_pipeline_is_a_flow_of_tasks_and_a_stage_is_a_flow_of_its_own() -> None:
    prepare, train = PrepareConfig(size=300), TrainConfig(k=8, epochs=2)
    summary = pipeline(prepare=prepare, train=train)
    flow_runs, task_runs = asyncio.run(recorded())
    assert [run.state_name for run in flow_runs] == ["Completed"]
    assert flow_runs[0].name == "family transe self_adversarial"
    assert len(task_runs) == 9
    assert {run.state_name for run in task_runs} == {"Completed"}
    assert "calibrate_scores" in {run.name.rsplit("-", 1)[0] for run in task_runs}

    again = stages.calibrate(scores=summary["runs"]["score"])
    assert again == summary["runs"]["calibrate"]  # MLflow is the cache, with Prefect and without


def test_every_deployment_names_a_flow_that_is_there() -> None:
    deployments = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]
    names = [deployment["name"] for deployment in deployments]
    assert names == ["pipeline", *(f"stage-{flow.name}" for flow in stages.STAGE_FLOWS)]
    for deployment in deployments:
        path, name = deployment["entrypoint"].split(":")
        module = path.removesuffix(".py").replace("/", ".")
        assert import_object(f"{module}.{name}").name == deployment["name"].removeprefix("stage-")
