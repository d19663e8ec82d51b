"""A person approves a challenger, or refuses it, in a flow run that is paused on a real Prefect server."""

import contextvars
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow import MlflowClient
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.flow_runs import resume_flow_run

from flows.jobs import promote as promotion
from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import GateConfig, PrepareConfig, TrainConfig
from kgcore.errors import InputError
from tasks.jobs.promote import Decision, approve, promote_best
from tasks.tracking.registry import CHAMPION, aliased
from tasks.tracking.store import open_store
from tests.pipeline.flow_runs import prefect_server

pytestmark = pytest.mark.long

APPROVE = GateConfig(approve=True)


@pytest.fixture
def measured(home: Path) -> Path:
    train = TrainConfig(k=16, epochs=16, batch_size=128)
    pipeline.fn(prepare=PrepareConfig(size=300), train=train)
    return home


@pytest.fixture
def harness() -> Iterator[None]:
    with prefect_server():
        yield


def paused_run() -> FlowRun:
    """Wait until a flow run is paused, and return it."""
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED]))
    end = time.monotonic() + 120
    with get_client(sync_client=True) as client:
        while time.monotonic() < end:
            if found := client.read_flow_runs(flow_run_filter=FlowRunFilter(state=state)):
                return found[0]
            time.sleep(0.5)
    raise AssertionError("no flow run is paused")


def test_without_a_server_the_command_says_what_is_needed(measured: Path) -> None:
    with pytest.raises(InputError, match=r"--approve needs a Prefect server, .* start it with `kgcal up`"):
        promote.fn(dataset="family", config=APPROVE)
    assert aliased(open_store(), "family", "challenger") is None  # nothing has moved


@pytest.mark.parametrize("answer", [True, False, None])
def test_the_answer_is_carried_out(measured: Path, answer: bool | None) -> None:
    decision = promote_best("family", None, APPROVE)
    assert (decision.passed, decision.waiting, decision.champion) == (True, True, None)
    assert "It waits for approval." in decision.explanation
    done = approve(decision, answer)
    champion = aliased(open_store(), "family", CHAMPION)
    assert (champion is not None) == (answer is True)
    assert not done.waiting
    words = {True: "A person has approved it", False: "A person has refused it", None: "Nobody has answered"}
    assert words[answer] in done.explanation
    if answer is not True:
        again = promote_best("family", None, APPROVE)  # after a refusal, it is not judged again on this paper
        assert again.waiting == (answer is None)


def test_an_answer_that_comes_too_late_is_refused(measured: Path) -> None:
    decision = promote_best("family", None, APPROVE)
    client = MlflowClient(tracking_uri=f"sqlite:///{measured}/mlflow.db")
    client.delete_registered_model_alias("kgcal-family", "challenger")
    with pytest.raises(InputError, match="has changed while models:/kgcal-family/1 waited for approval"):
        approve(decision, True)


def test_a_paused_flow_run_waits_for_a_person(measured: Path, harness: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "OFTEN", 1)

    def wait() -> list[Decision]:
        return promote(dataset="family", config=APPROVE)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(contextvars.copy_context().run, wait)
        resume_flow_run(paused_run().id, run_input={"approve": True})
        [decision] = waiting.result(timeout=120)
    assert decision.champion == "models:/kgcal-family/1"
    assert "A person has approved it: it is the new champion." in decision.explanation
