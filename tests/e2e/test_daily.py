"""Daily work with `kgcal up` on PostgreSQL: flow runs from the command line, from deployments and on schedule."""

import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import requests
from mlflow import MlflowClient

from tasks.tracking.record import RunTags
from tests.e2e.local import SIZES, Local, until
from tests.e2e.postgres import Postgres
from tests.folders import write_folder
from tests.pipeline.command import Kgcal
from tests.ports import free_port


def test_up_starts_missing_services_and_nothing_twice(local: Local) -> None:
    assert local.state() == {"mlflow": "up", "prefect": "up", "worker": "up"}
    before = {name: local.process(name) for name in ("mlflow", "prefect", "worker")}
    assert local.kgcal("up").returncode == 0
    assert {name: local.process(name) for name in before} == before
    assert requests.get(f"http://127.0.0.1:{local.mlflow}/health", timeout=5).text == "OK"
    deployments = local.api("deployments/filter")
    assert isinstance(deployments, list)
    assert {"pipeline", "nightly", "reproduce", "stage-calibrate"} <= {deployment["name"] for deployment in deployments}


def test_a_run_appears_in_prefect_and_one_stage_runs_again(local: Local) -> None:
    results = local.kgcal.results("--dataset", "family", *SIZES)
    runs = local.api("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}})
    assert [run["name"] for run in runs] == ["family transe self_adversarial"]
    run = local.trigger("calibrate/stage-calibrate", scores=results["runs"]["score"], config={"base_rate": 0.2})
    until(lambda: local.run_state(run) == "Completed")
    client = MlflowClient(tracking_uri=f"http://127.0.0.1:{local.mlflow}")
    [experiment] = [e for e in client.search_experiments() if e.name == "kgcal/family"]
    newest = client.search_runs([experiment.experiment_id], "tags.`kgcal.stage` = 'calibrate'", max_results=1)[0]
    assert (RunTags.from_mlflow(newest.data.tags).config or {})["base_rate"] == 0.2


@pytest.fixture(scope="module")
def killed(local: Local) -> str:
    """Start a `kgcal run`, kill it, and return the id of its flow run."""
    command = local.kgcal.command("run", "--dataset", "family", "--size", "300", "--k", "8", "--epochs", "100000")
    process = subprocess.Popen(
        command, env=local.kgcal.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: "RUNNING" in local.mlflow_states())
    runs = local.api("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}})
    process.kill()
    process.wait()
    assert isinstance(runs, list)
    [run] = runs
    return str(run["id"])


@pytest.fixture(scope="module")
def scheduled(local: Local) -> tuple[str, str]:
    """Add a second schedule to the deployment `nightly`, every minute. Return the ids of deployment and schedule."""
    found = local.deployment("pipeline/nightly")
    small = {"prepare": {"size": 300}, "train": {"k": 8, "epochs": 3}}
    schedule = {"schedule": {"cron": "* * * * *", "timezone": "UTC"}, "active": True, "parameters": small}
    [made] = local.api(f"deployments/{found}/schedules", [schedule])
    return found, made["id"]


def test_a_schedule_of_a_data_set_is_kept_as_it_is_when_deployments_are_made_again(
    local: Local, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "mine")

    def schedule(*arguments: str) -> str:
        done = local.kgcal("schedule", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stored() -> list[dict[str, Any]]:
        made = local.api("deployments/filter", {"deployments": {"name": {"any_": ["nightly"]}}})
        return [one for one in made[0]["schedules"] if one["slug"]]

    assert "no data set has a schedule" in schedule()
    assert all(not made["schedules"] for made in local.api("deployments/filter") if made["name"] != "nightly")
    shown = schedule(str(folder), "--cron", "0 3 * * *", "--timezone", "Europe/Berlin", "--base-rate", "0.1")
    now = datetime.now(ZoneInfo("Europe/Berlin"))
    following = f"{now + timedelta(days=now.hour >= 3):%Y-%m-%d}", "03:00"
    cells = ["mine", "0", "3", "*", "*", "*", "Europe/Berlin", "0.1", "active", *following, str(folder)]
    assert shown.split("\n")[-2].split() == cells
    [made] = stored()
    assert made["parameters"] == {"prepare": {"dataset": str(folder)}, "calibrate": {"base_rate": 0.1}}
    schedule(str(folder), "--pause")
    [variable] = local.api("variables/filter", {"variables": {"name": {"any_": ["kgcal_deployed"]}}})
    address = f"http://127.0.0.1:{local.prefect}/api/variables/{variable['id']}"
    requests.patch(address, json={"value": "an older version"}, timeout=20).raise_for_status()
    assert local.kgcal("up").returncode == 0
    [kept] = stored()
    assert (kept["id"], kept["active"], kept["parameters"]) == (made["id"], False, made["parameters"])
    schedule(str(folder), "--cron", "5 4 * * *")
    [moved] = stored()
    assert (moved["schedule"]["cron"], moved["active"]) == ("5 4 * * *", False)
    assert moved["schedule"]["timezone"] == "Europe/Berlin"
    assert moved["parameters"]["calibrate"] == {"base_rate": 0.1}
    schedule(str(folder), "--resume")
    assert stored()[0]["active"]
    assert "is removed" in schedule(str(folder), "--remove")
    assert "no data set has a schedule" in schedule()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["family", "--cron", "often"], "cron is 'often': it must be five parts, minute, hour, "),
        (["family", "--cron", "0 3 * * *", "--timezone", "Mars"], "timezone is 'Mars': it must be a name such as UTC"),
        (["family", "--cron", "0 3 * * *", "--base-rate", "2"], "base_rate is 2"),
        (["family", "--base-rate", "0.1"], "--base-rate is that of a new schedule: give --cron"),
        (["family", "--pause"], "family has no schedule: make one by `kgcal schedule family --cron '0 3 * * *'`"),
        (["no-such-graph", "--cron", "0 3 * * *"], "no-such-graph"),
        (["family", "--pause", "--resume"], "give one of --cron, --pause, --resume and --remove"),
        (["--pause"], "name the data set, such as "),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_in_a_sentence(local: Local, arguments: list[str], message: str) -> None:
    done = local.kgcal("schedule", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("killed", "scheduled")  # these fixtures start early, as their effects take up to 90 seconds
def test_both_servers_store_everything_in_postgresql_and_print_no_password(local: Local) -> None:
    kinds = {kind for (kind,) in local.database.ask("mlflow", "SELECT value FROM tags WHERE key = 'kgcal.stage'")}
    assert {"train", "calibrate"} <= kinds
    [(runs,)] = local.database.ask("prefect", "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'")
    assert runs >= 2
    assert not list(local.kgcal.home.rglob("*.db"))
    assert any((local.kgcal.home / "artifacts").rglob("report.html"))  # artifacts stay files

    password = local.database.password
    output = "".join(done.stdout + done.stderr for done in map(local.kgcal, ("status", "up", "compare")))
    logs = "".join(path.read_text() for path in (local.kgcal.home / "services").iterdir())
    started = [local.process(name) for name in ("mlflow", "prefect", "worker")]
    started += [child for process in started for child in process.children(recursive=True)]
    commands = " ".join(part for process in started for part in process.cmdline())
    assert "worker start" in commands
    assert password not in output + logs + commands


def test_errors_about_databases_show_no_password(database: Postgres, tmp_path: Path) -> None:
    right = database.url("mlflow")
    for uri, reason in {
        right.replace("/mlflow", "/mlfow"): 'database "mlfow" does not exist',
        right.replace("kgcal:", "kgcal:not"): "password authentication failed",
        right.replace(f":{database.port}", f":{free_port()}"): "Connection refused",
    }.items():
        check_error(
            Kgcal(tmp_path, MLFLOW_TRACKING_URI=uri)("prepare", "--size", "300"), "MLflow store", reason, database
        )
    elsewhere = database.url("prefct", "postgresql+asyncpg")
    done = Kgcal(tmp_path, PREFECT_API_DATABASE_CONNECTION_URL=elsewhere)("up", "--mlflow-port", str(free_port()))
    check_error(done, "Prefect's database", 'database "prefct" does not exist', database)


def check_error(done: "subprocess.CompletedProcess[str]", what: str, reason: str, database: Postgres) -> None:
    assert done.returncode == 2, done.stderr
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert what in sentence
    assert reason in sentence
    assert "kgcal:***@" in sentence
    assert database.password not in done.stderr
    assert "Traceback" not in done.stderr


def test_two_names_of_the_postgresql_driver_open_the_store(local: Local, tmp_path: Path) -> None:
    local.database.ask("postgres", "CREATE DATABASE other")
    for scheme in ("postgresql", "postgresql+psycopg2"):
        done = Kgcal(tmp_path, MLFLOW_TRACKING_URI=local.database.url("other", scheme))("prepare", "--size", "300")
        assert done.returncode == 0, done.stderr
    assert "re-used" in done.stderr


def test_a_scheduled_run_starts_by_itself(local: Local, scheduled: tuple[str, str]) -> None:
    deployment, schedule = scheduled
    ended = {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}
    wanted = {"deployments": {"id": {"any_": [deployment]}}, "flow_runs": {"state": ended}}
    runs: list[Any] = []

    def one_has_ended() -> bool:
        runs[:] = local.api("flow_runs/filter", wanted)
        return bool(runs)

    until(one_has_ended, 150)
    url = f"http://127.0.0.1:{local.prefect}/api/deployments/{deployment}/schedules/{schedule}"
    requests.delete(url, timeout=20).raise_for_status()
    assert runs[-1]["state_name"] == "Completed"
    assert runs[-1]["auto_scheduled"]
    assert runs[-1]["parameters"]["train"]["epochs"] == 3
    client = MlflowClient(tracking_uri=f"http://127.0.0.1:{local.mlflow}")
    [experiment] = [e for e in client.search_experiments() if e.name == "kgcal/family"]
    flow_run = f"tags.`kgcal.flow_run` = '{runs[-1]['id']}'"
    [run] = client.search_runs([experiment.experiment_id], flow_run)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["gt.smoothed_isotonic.brier"] > 0
    artifacts = local.api("artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [runs[-1]["id"]]}}})
    assert {"summary", "results", "mlflow-run"} <= {artifact["key"] for artifact in artifacts}


def test_a_killed_run_is_marked_as_crashed(local: Local, killed: str) -> None:
    until(lambda: local.run_state(killed) == "Crashed", 120)
