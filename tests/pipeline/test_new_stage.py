"""A new stage is a file in tasks/stages and an entry in the table.

Its command, flow, deployment and entry point of MLproject follow from these. The new stage is
tests/pipeline/extensions/stages/histogram.py, in a copy of the code.
"""

import json
import shutil
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.pipeline.command import ALL_STAGES, CHECKOUT, STAGE_NAMES, Kgcal, copy_of_the_code, runs_of, tags_of
from tests.pipeline.finished import finished

pytestmark = pytest.mark.long

FILE = CHECKOUT / "tests" / "pipeline" / "extensions" / "stages" / "histogram.py"
ENTRY = "\nfrom tasks.stages.histogram import HISTOGRAM\n\nSTAGES = (*STAGES, HISTOGRAM)\n"
FLOW = """
import inspect, json
from prefect.flows import load_flow_from_entrypoint
flow = load_flow_from_entrypoint("flows/stages.py:histogram")
print(json.dumps([flow.name, flow.flow_run_name, list(inspect.signature(flow.fn).parameters)]))
"""


@dataclass(frozen=True)
class Extended:
    """A home with a finished pipeline, and a `kgcal` that has the new stage."""

    kgcal: Kgcal
    results: dict[str, Any]


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    folder = tmp_path_factory.mktemp("stage")
    _, results = finished(folder)
    code = copy_of_the_code(folder)
    shutil.copy(FILE, code / "tasks" / "stages")
    with (code / "tasks" / "stages" / "table.py").open("a") as table:
        table.write(ENTRY)
    return Extended(Kgcal(folder, code), results)


def test_the_command_runs_the_stage_and_re_uses_it(extended: Extended) -> None:
    done = extended.kgcal("histogram", "--predictions", extended.results["runs"]["classify"], "--buckets", "5")
    assert done.returncode == 0, done.stderr
    [run] = runs_of(extended.kgcal, "histogram")
    assert done.stdout.strip() == run.info.run_id
    tags = tags_of(run)
    assert tags.config == {"buckets": 5}
    assert tags.inputs == {stage: extended.results["runs"][stage] for stage in STAGE_NAMES[:6]}
    [path] = (extended.kgcal.home / "artifacts").rglob(f"{run.info.run_id}/artifacts/counts.json")
    counts = json.loads(path.read_text())
    assert set(counts) >= {"uncalibrated", "ground_truth.beta", "synthetic.smoothed_isotonic"}
    assert {len(row) for row in counts.values()} == {5}
    assert {sum(row) for row in counts.values()} == {run.data.metrics["triples"]}

    again = extended.kgcal("histogram", "--buckets", "5")  # of `latest`, the pipeline that ran before
    assert again.stdout == done.stdout, again.stderr
    assert "re-used" in again.stderr


def test_the_command_reports_a_mistake(extended: Extended) -> None:
    done = extended.kgcal("histogram", "--buckets", "0")
    assert done.returncode == 2
    assert "buckets is 0: it must be at least 1" in done.stderr


def test_prefect_finds_the_flow_of_the_stage(extended: Extended) -> None:
    name, title, parameters = json.loads(extended.kgcal.python("-c", FLOW))
    assert (name, title) == ("histogram", "histogram of {predictions}")
    assert parameters == ["predictions", "config", "force"]


def test_the_stage_has_a_deployment(extended: Extended) -> None:
    made = yaml.safe_load(extended.kgcal.python("-m", "flows.deployments"))["deployments"]
    [entry] = [entry for entry in made if entry["name"] == "stage-histogram"]
    assert entry["entrypoint"] == "flows/stages.py:histogram"
    assert entry["description"] == "Count the test probabilities by intervals."
    assert [entry["name"] for entry in made if entry["name"].startswith("stage-")] == [
        *(f"stage-{name}" for name in ALL_STAGES),
        "stage-histogram",
    ]


def test_the_stage_has_an_entry_point_of_mlproject(extended: Extended) -> None:
    entry = yaml.safe_load(extended.kgcal.python("-m", "flows.cli.mlproject"))["entry_points"]["histogram"]
    assert {"predictions", "buckets", "force"} <= set(entry["parameters"])
    assert entry["command"].startswith("python -m kgcal project histogram ")
    assert "--buckets {buckets}" in entry["command"]
