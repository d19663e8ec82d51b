"""A new job is three files: its work, its flow and its test. No list names it.

Its command, flow, deployment and entry point of MLproject follow from these. The new job is that of
docs/contributing.md, in a copy of the code.
"""

import json

import pytest
import yaml

from tests.docs.pages import blocks_of
from tests.pipeline.command import CHECKOUT, Kgcal, copy_of_the_code, runs_of
from tests.pipeline.finished import finished

pytestmark = pytest.mark.long

PAGE = CHECKOUT / "docs" / "contributing.md"
FILES = {name: block.text for block in blocks_of(PAGE) if (name := block.runner[1]).endswith("/count_facts.py")}
FLOW = """
import json
from prefect.flows import load_flow_from_entrypoint
flow = load_flow_from_entrypoint("flows/jobs/count_facts.py:count_facts")
print(json.dumps([flow.name, flow.flow_run_name, flow.parameters.model_dump()["properties"]]))
"""


@pytest.fixture(scope="module")
def kgcal(tmp_path_factory: pytest.TempPathFactory) -> Kgcal:
    """Return a `kgcal` that has the new job, whose home has a finished pipeline."""
    folder = tmp_path_factory.mktemp("job")
    finished(folder)
    code = copy_of_the_code(folder)
    for name, text in FILES.items():
        (code / name).write_text(text, encoding="utf-8")
    return Kgcal(folder, code)


def test_the_job_is_two_files_beside_its_test() -> None:
    assert sorted(FILES) == ["flows/jobs/count_facts.py", "tasks/jobs/count_facts.py"]


def test_the_command_prints_the_result_writes_it_as_json_and_logs_a_run(kgcal: Kgcal) -> None:
    target = kgcal.home.parent / "counts.json"
    done = kgcal("count-facts", "--least", "20", "--json", str(target))
    assert done.returncode == 0, done.stderr
    [run] = runs_of(kgcal, "count-facts")
    written = json.loads(target.read_text())
    assert written["run"] == run.info.run_id
    assert run.data.params["least"] == "20"
    assert len(written["rows"]) == run.data.metrics["predicates"] > 1
    for row in written["rows"]:
        assert int(row["facts"]) >= 20
        [line] = [line for line in done.stdout.splitlines() if line.split()[0] == row["predicate"]]
        assert line.split()[1] == row["facts"]
    assert written["sentences"] == [done.stdout.splitlines()[-1]]


def test_the_command_describes_itself_and_refuses_an_unknown_run(kgcal: Kgcal) -> None:
    shown = kgcal("count-facts", "--help").stdout
    assert "Count the training facts of each predicate." in shown
    assert "leave out predicates with fewer facts" in shown
    done = kgcal("count-facts", "0" * 32)
    assert done.returncode == 2
    assert done.stderr.startswith("kgcal: ")


def test_prefect_finds_the_flow_with_its_form(kgcal: Kgcal) -> None:
    name, title, form = json.loads(kgcal.python("-c", FLOW).splitlines()[-1])
    assert (name, title) == ("count-facts", "count facts of {run}")
    assert form["least"]["description"] == "leave out predicates with fewer facts"


def test_the_job_has_a_deployment_with_its_schedule(kgcal: Kgcal) -> None:
    made = yaml.safe_load(kgcal.python("-m", "flows.deployments"))["deployments"]
    [entry] = [entry for entry in made if entry["name"] == "count-facts"]
    assert entry["entrypoint"] == "flows/jobs/count_facts.py:count_facts"
    assert entry["description"] == "Count the training facts of each predicate."
    assert entry["schedules"][0]["cron"] == "0 6 * * *"


def test_the_job_has_an_entry_point_of_mlproject(kgcal: Kgcal) -> None:
    entry = yaml.safe_load(kgcal.python("-m", "flows.cli.mlproject"))["entry_points"]["count-facts"]
    assert list(entry["parameters"]) == ["run", "least"]
    assert entry["command"] == "python -m kgcal project count-facts --run {run} --least {least}"
