"""The wheel in a user's project that has folders `flows` and `tasks` itself, as projects with Prefect often do."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.e2e.local import SIZES, until
from tests.pipeline.forks import CHECKOUT, UNSET
from tests.ports import free_port

LOAD = """
import flows, tasks, mlflow, pandas
[newest, *_] = [m for m in mlflow.search_logged_models(output_format="list", experiment_ids=
                [e.experiment_id for e in mlflow.search_experiments()]) if "calibrator" in m.params]
triples = pandas.DataFrame([["person_2", "spouse_of", "person_76"]], columns=["subject", "predicate", "object"])
print(mlflow.pyfunc.load_model(f"models:/{newest.model_id}").predict(triples)["probability"][0], flows.__file__)
"""


class Project:
    """A user's project beside an environment that has the wheel. The libraries are those of this environment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder / "project", folder / "venv" / "bin"
        _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(CHECKOUT))
        [wheel] = folder.glob("*.whl")
        _run(*pip, "--python", str(self.bin / "python"), "install", "--no-deps", str(wheel))
        [self.site] = (folder / "venv").glob("lib/python3*/site-packages")
        self.installed = {path.name for path in self.site.iterdir()}
        (self.site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
        for package, module in (("flows", "main"), ("tasks", "etl")):
            (self.folder / package).mkdir(parents=True)
            (self.folder / package / f"{module}.py").write_text("OWNER = 'the user'\n")
        kept = {name: value for name, value in os.environ.items() if name not in (*UNSET, "PYTHONPATH")}
        home = folder / "home"
        self.environment = kept | {
            "KGCAL_HOME": str(home),
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *command: str, **environment: str) -> str:
        """Run a command of the environment in the project. It must succeed."""
        return _run(
            str(self.bin / command[0]), *command[1:], cwd=self.folder, env=self.environment | environment
        ).stdout


def _run(*command: str, **options: object) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_adds_kgcal_and_kgcore_alone(project: Project) -> None:
    names = {name for name in project.installed if not name.endswith(".dist-info")}
    assert names == {"kgcal", "kgcore"}


def test_the_modules_of_the_project_are_found(project: Project) -> None:
    code = "import flows.main, tasks.etl, kgcal, kgcore; print(flows.main.OWNER, tasks.etl.OWNER, kgcal.__file__)"
    assert project.run("python", "-c", code).split(str(project.site))[0] == "the user the user "


@pytest.fixture(scope="module")
def packages(project: Project) -> None:
    """Make packages of the project's folders: these come before any folder without __init__.py."""
    for package in ("flows", "tasks"):
        (project.folder / package / "__init__.py").touch()


@pytest.mark.usefixtures("packages")
def test_the_pipeline_runs_in_the_project_and_its_model_loads_there(project: Project) -> None:
    printed = project.run("kgcal", "run", *SIZES, PYTHONPATH=".", KGCAL_PREFECT="off")
    assert "report: " in printed
    probability, module = project.run("python", "-c", LOAD, PYTHONPATH=".").split()[-2:]
    assert 0 <= float(probability) <= 1
    assert Path(module).parent == project.folder / "flows"


@pytest.fixture(scope="module")
def prefect(project: Project, packages: None) -> Iterator[str]:
    """Start the servers and the worker from the wheel. Yield the address of Prefect's API."""
    del project.environment["MLFLOW_TRACKING_URI"]
    ports = {name: str(free_port()) for name in ("mlflow", "prefect")}
    try:
        project.run("kgcal", "up", "--mlflow-port", ports["mlflow"], "--prefect-port", ports["prefect"], PYTHONPATH=".")
        yield f"http://127.0.0.1:{ports['prefect']}/api"
    finally:
        project.run("kgcal", "down")


def test_the_worker_of_kgcal_up_runs_a_stage(prefect: str) -> None:
    found = requests.get(f"{prefect}/deployments/name/prepare/stage-prepare", timeout=20).json()["id"]
    parameters = {"config": {"dataset": "family", "size": 300}}
    made = requests.post(
        f"{prefect}/deployments/{found}/create_flow_run", json={"parameters": parameters}, timeout=20
    ).json()

    def state() -> str:
        return str(requests.get(f"{prefect}/flow_runs/{made['id']}", timeout=20).json()["state_name"])

    until(lambda: state() in ("Completed", "Failed", "Crashed"), 120)
    assert state() == "Completed"
