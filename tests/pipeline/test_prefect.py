"""The flows as flow runs of a real Prefect server."""

import asyncio
import contextvars
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import httpcore
import pandas as pd
import pytest
import torch
import yaml
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    temporary_settings,
)
from prefect.utilities.importtools import import_object

from flows import flow as runs
from flows import stages
from flows.flow import HeartbeatFlow
from flows.job import all_jobs, publish
from flows.jobs import reproduce
from flows.jobs.refresh import refresh
from flows.jobs.tune import tune
from flows.local.prefect_server import SILENT_SECONDS
from flows.pipeline import pipeline
from kgcore.config import (
    CalibrateConfig,
    PrepareConfig,
    TrainConfig,
    TuneConfig,
)
from kgcore.errors import InputError
from kgcore.measure.report.results import Results
from kgcore.measure.report.summary import PipelineSummary
from kgcore.registries import DATASETS
from kgcore.wings.reproduction import grid
from tasks.workspace.flow_run import progress_bar
from tasks.workspace.resources import gpu_slot
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES
from tests.pipeline.command import CHECKOUT, small_family
from tests.pipeline.flow_runs import prefect_server, published, recorded

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module", autouse=True)
def harness() -> Iterator[None]:
    with prefect_server():
        yield


@pytest.mark.long
def test_a_pipeline_is_a_flow_run_of_tasks_and_a_single_stage_is_a_flow_run() -> None:
    prepare, train = PrepareConfig(size=300), TrainConfig(k=8, epochs=2)
    calibrate = CalibrateConfig(calibrators=("beta",))
    summary = pipeline(
        prepare=prepare, train=train, corrupt=FEW_CORRUPTIONS, calibrate=calibrate, evaluate=FEW_REPLICATES
    )
    flow_runs, task_runs = asyncio.run(recorded())
    assert [run.state_name for run in flow_runs] == ["Completed"]
    assert set(flow_runs[0].tags) == {"pipeline", "family"}
    assert flow_runs[0].name == "family transe self_adversarial"
    assert len(task_runs) == 9
    assert {run.state_name for run in task_runs} == {"Completed"}
    assert {run.name.rsplit("-", 1)[0] for run in task_runs} == set(summary.runs)

    artifacts = published("pipeline")
    assert set(artifacts) == {"summary", "results", "train", "rank", "evaluate"}
    [brier] = [row.metrics["brier"] for row in summary.results.rows if row.label == "ground_truth.beta"]
    assert f"{brier:.4f}" in artifacts["summary"].data
    assert len(json.loads(artifacts["results"].data)) == 4  # two baselines, and beta on two kinds of negatives
    assert artifacts["train"].type == "progress"
    assert artifacts["train"].data == 100
    assert artifacts["train"].description.startswith("train transe: 2 of 2; loss ")

    again = stages.calibrate(scores=summary.runs["score"], config=CalibrateConfig(calibrators=("beta",)))
    assert again == summary.runs["calibrate"]  # MLflow is the cache, inside and outside Prefect
    named = {run.name: set(run.tags) for run in asyncio.run(recorded())[0]}
    assert named[f"calibrate {summary.runs['score']} to 0.5"] == {"stage", "family"}
    assert "kgcal refresh" not in published("calibrate")["summary"].data
    other = stages.calibrate(summary.runs["score"], config=CalibrateConfig(calibrators=("beta",), base_rate=0.2))
    assert "classify, evaluate and report are still based on an earlier run" in published("calibrate")["summary"].data
    assert refresh(other).reused == ("prepare", "train", "corrupt", "score", "calibrate", "rank")


def test_a_single_stage_shows_its_results_when_it_runs_and_when_it_is_re_used() -> None:
    data = stages.prepare(PrepareConfig(size=300))
    for outcome in ("seconds.", "existed already and is re-used."):
        run = stages.train(data=data, config=TrainConfig(k=8, epochs=3, model="distmult"))
        artifacts = published("train")
        assert f"MLflow run `{run}`" in artifacts["summary"].data
        assert outcome in artifacts["summary"].data
        assert "| epochs | 3 |" in artifacts["summary"].data
        assert f"| prepare | {data} |" in artifacts["summary"].data
        assert {"loss", "final_loss", "seconds"} == {row["metric"] for row in json.loads(artifacts["results"].data)}
        assert ("train" in artifacts) == (outcome == "seconds.")


EMPTY_SUMMARY = PipelineSummary(
    results=Results(()),
    accuracy_per_relation={},
    ranks={},
    dataset="family",
    model="transe",
    loss="nll",
    seed=0,
    runs={},
    seconds={},
    reused=(),
)


def test_work_continues_without_the_prefect_server(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each request tries to connect three times
    monkeypatch.setattr(httpcore.NetworkBackend, "sleep", lambda backend, seconds: None)
    gone = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}

    def work(context: FlowRunContext) -> int:
        with temporary_settings(updates=gone), context.model_copy():
            with progress_bar("train transe", 3) as bar:
                for epoch in range(1, 4):
                    bar(epoch, "loss 1")
            publish(EMPTY_SUMMARY)
            return epoch

    @flow
    def cut_off() -> int:
        context = FlowRunContext.get()
        assert context is not None
        return contextvars.Context().run(work, context)  # without the flow run's client

    assert cut_off() == 3
    warnings = [record.message for record in caplog.records if record.name == "kgcal"]
    assert len(warnings) == 2
    assert warnings[0].startswith("the progress cannot be shown on the Prefect flow run: ")
    assert warnings[1].startswith("the results cannot be shown in the Prefect UI: ")


def test_a_search_shows_its_best_settings_and_its_trials() -> None:
    config = TuneConfig(trials=2, search=("learning_rate",))
    found = tune(prepare=PrepareConfig(size=300), train=TrainConfig(k=8, epochs=4), config=config)
    artifacts = published("tune")
    assert set(artifacts) == {"summary", "results", "tune"}
    assert found.facts["command"] in artifacts["summary"].data
    assert "2 trials: 2 complete. Best Brier: " in artifacts["summary"].data
    rows = json.loads(artifacts["results"].data)
    assert rows[0]["trial"] == found.facts["trial"]
    assert rows[0]["value"] == pytest.approx(found.facts["value"])
    assert rows[0]["value"] <= rows[1]["value"]
    assert artifacts["tune"].type == "progress"


def test_every_deployment_names_an_existing_flow() -> None:
    deployments = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]
    names = {deployment["name"] for deployment in deployments}
    assert names == {deployment.name for job in all_jobs() for deployment in job.deployments}
    asking = {"predict", "base-rate", "discover", "explain", "audit"}
    brought = {"import-embeddings", "import-pykeen", "import-libkge", "calibrate-scores"}
    whole = {"pipeline", "nightly", "recalibrate", "promote", "watch", "tune", "ensemble", "reproduce"}
    assert names >= whole | asking | brought | {f"stage-{flow.name}" for flow in stages.STAGE_FLOWS}
    for deployment in deployments:
        path, name = deployment["entrypoint"].split(":")
        module = path.removesuffix(".py").replace("/", ".")
        wanted = "pipeline" if deployment["name"] == "nightly" else deployment["name"].removeprefix("stage-")
        flow_object = import_object(f"{module}.{name}")
        assert flow_object.name == wanted
        assert isinstance(flow_object, HeartbeatFlow)


def test_heartbeats_come_twice_within_the_time_that_marks_a_run_as_crashed() -> None:
    pool = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["definitions"]["work_pool"]
    by_a_worker = int(pool["job_variables"]["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])

    @runs.flow("beating")
    def by_hand() -> int:
        return PREFECT_FLOWS_HEARTBEAT_FREQUENCY.value()

    for seconds in (by_a_worker, by_hand()):
        assert 2 * seconds < SILENT_SECONDS


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"config": {"base_rate": 2}}, "'config.base_rate'. Failure reason: 2 is greater than or equal to the maximum"),
        ({"config": {"calibrators": ["plat"]}}, "'plat' is not one of ['bbq', 'beta'"),
        ({"config": {"base_rat": 0.2}}, "'base_rat' was unexpected"),
        ({"scores": "newest"}, "'scores'. Failure reason: 'newest' does not match"),
    ],
)
def test_a_deployment_refuses_wrong_parameters_before_a_run_is_scheduled(parameters: dict, reason: str) -> None:
    deployment = stages.calibrate.to_deployment("form").apply()
    before = len(asyncio.run(recorded())[0])
    with pytest.raises(PrefectHTTPStatusError) as refused, get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(deployment, parameters=parameters)
    assert reason in refused.value.response.json()["detail"]
    assert len(asyncio.run(recorded())[0]) == before


def test_a_direct_call_with_wrong_parameters_raises_our_own_errors() -> None:
    with pytest.raises(InputError, match="unknown table 'result': the known ones are all, results"):
        reproduce.reproduce(tables=["result"])
    with pytest.raises(InputError, match="there is no device 'gpu'"):
        pipeline(device="gpu")


@pytest.mark.long
def test_a_grid_gives_the_same_on_threads_and_dask_and_survives_a_failed_cell(monkeypatch, tmp_path) -> None:
    from prefect_dask.task_runners import DaskTaskRunner

    family, real = small_family(), DATASETS.get("wn11")

    def small(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
        rate = 1e30 if model == "hole" else 0.01
        return TrainConfig(model=model, loss=loss, k=8, epochs=2, batch_size=512, learning_rate=rate)

    monkeypatch.setattr(grid, "training", small)
    in_this_process = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    DATASETS.remove("wn11")
    DATASETS.add("wn11", replace(family, name="wn11"))
    try:
        first = reproduce.reproduce(tables=["results"], datasets=["wn11"], runner="threads:2")
        monkeypatch.setattr(reproduce, "task_runner", lambda text: DaskTaskRunner(cluster_kwargs=in_this_process))
        second = reproduce.reproduce(tables=["results"], datasets=["wn11"], runner="dask")
    finally:
        DATASETS.remove("wn11")
        DATASETS.add("wn11", real)
    artifacts = published("reproduce")
    assert second.sentences[0] in artifacts["summary"].data
    assert "* wn11 hole self_adversarial default failed: the training loss is nan" in artifacts["summary"].data
    figures = json.loads(artifacts["results"].data)
    assert len(figures) == 3 * 5 * 2  # models x (uncalibrated, two calibrators x two kinds of negatives) x metrics
    assert all(row["difference"] == pytest.approx(row["ours"] - row["paper"], abs=2e-4) for row in figures)
    for made in (first, second):
        assert made.failure == "1 of 4 runs failed"
        [reason] = [line for line in made.sentences if " failed: " in line]
        assert reason.startswith("* wn11 hole self_adversarial default failed: the training loss is nan")
    frames = [pd.read_csv(made.files["table"]) for made in (first, second)]
    pd.testing.assert_frame_equal(*frames)  # Dask re-used what threads had computed


@pytest.mark.parametrize("text", ["thread", "threads:0", "threads:two", "dask:localhost", "ray"])
def test_an_unknown_runner_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"--runner.*{text}"):
        reproduce.task_runner(text)


def test_a_runner_may_be_a_dask_cluster_at_an_address() -> None:
    assert reproduce.task_runner("dask://127.0.0.1:8786").address == "tcp://127.0.0.1:8786"


def test_flow_runs_take_turns_on_the_gpu() -> None:
    gpu, order, taken = torch.device("cuda"), [], threading.Event()

    def hold(name: str, seconds: float) -> None:
        with gpu_slot(gpu) as device, get_client(sync_client=True) as client:
            order.append(f"{name} has {device}")
            taken.set()
            time.sleep(seconds)
            assert client.read_global_concurrency_limit_by_name("gpu").active_slots == 1
            order.append(f"{name} is done")

    @flow
    def two() -> None:
        first, second = (
            threading.Thread(target=contextvars.copy_context().run, args=(hold, name, seconds))
            for name, seconds in (("first", 1), ("second", 0))
        )
        first.start()
        assert taken.wait(60)
        second.start()  # while the first one holds the slot
        first.join()
        second.join()

    @flow
    def one() -> None:
        with gpu_slot(torch.device("cpu")) as device:
            assert device.type == "cpu"  # a CPU needs no slot
        hold("one", 0)

    with pytest.raises(InputError, match=r"gave no slot for the GPU, .*'gpu'.*`prefect gcl create gpu --limit 1`"):
        one()
    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name="gpu", limit=1))
        two()
        assert order == ["first has cuda", "first is done", "second has cuda", "second is done"]
        assert client.read_global_concurrency_limit_by_name("gpu").active_slots == 0
    with gpu_slot(gpu) as device:
        assert device == gpu  # outside a flow run no server is asked
