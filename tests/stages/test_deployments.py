"""The flows and deployments that are made from the table of stages: one for each stage."""

import inspect
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint

from flows.cli.flow_command import _described
from flows.deployments import prefect_yaml
from flows.job import Job, all_jobs
from flows.parameters import Device, RunId
from flows.stages import STAGE_FLOWS
from tasks.stages.evidence import EVIDENCE_STAGE
from tasks.stages.match import MATCH
from tasks.stages.running import Stage
from tasks.stages.table import STAGES

CHECKOUT = Path(__file__).resolve().parents[2]
FLOWS = {flow.name: flow for flow in STAGE_FLOWS}
every_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)


def test_each_stage_has_a_flow_in_the_order_of_the_table() -> None:
    assert [flow.name for flow in STAGE_FLOWS] == [stage.name for stage in STAGES]


@every_stage
def test_the_flow_of_a_stage_has_its_inputs_settings_and_places_as_parameters(stage: Stage) -> None:
    flow = FLOWS[stage.name]
    parameters = inspect.signature(flow.fn).parameters
    settings = ["config"] if stage.config.model_fields else []
    places = [*(["device"] if stage.on_device else []), *(["runner"] if stage.name == "train" else [])]
    assert list(parameters) == [*stage.inputs, *stage.further, *settings, "force", *places]
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    assert all(defaults[name] == ("" if name in stage.optional else "latest") for name in stage.inputs)
    assert all(defaults[name] == "" for name in stage.further)
    assert defaults.get("config", stage.config()) == stage.config()
    assert (defaults["force"], defaults.get("device", "auto")) == (False, "auto")
    assert defaults.get("runner", "threads") == "threads"
    hints = get_type_hints(flow.fn, include_extras=True)
    assert all(hints[name] == (str if name in stage.optional else RunId) for name in stage.inputs)
    assert hints.get("config", stage.config) is stage.config
    assert hints.get("device", Device) == Device
    assert hints["return"] is str


@every_stage
def test_the_form_of_a_stage_describes_every_parameter(stage: Stage) -> None:
    flow = FLOWS[stage.name]
    assert flow.description.splitlines()[0] == stage.summary
    assert flow.flow_run_name == stage.title
    shown = flow.parameters.properties
    assert set(shown) == set(inspect.signature(flow.fn).parameters)
    described = {name: entry.get("description", "") for name, entry in shown.items()}
    for name, source in stage.inputs.items():
        is_file = source is MATCH and stage is not EVIDENCE_STAGE
        start = "file of the triples" if is_file else f"run id of the {source.name} run"
        assert described[name].startswith(start)
    assert all(described.values())


@pytest.mark.parametrize("job", all_jobs(), ids=lambda job: job.name)
def test_commands_and_forms_describe_the_parameters_of_a_flow_with_the_same_words(job: Job) -> None:
    flow = load_flow_from_entrypoint(str(CHECKOUT / job.entrypoint))
    assert _described(job.fn) == {name: shown["description"] for name, shown in flow.parameters.properties.items()}


def test_the_repository_has_the_deployments_as_they_are_made() -> None:
    assert (CHECKOUT / "prefect.yaml").read_text(encoding="utf-8") == prefect_yaml()


def test_prefect_yaml_deploys_each_stage_and_schedules_none() -> None:
    made = {entry["name"]: entry for entry in yaml.safe_load(prefect_yaml())["deployments"]}
    assert list(made) == [deployment.name for job in all_jobs() for deployment in job.deployments]
    for stage in STAGES:
        entry = made[f"stage-{stage.name}"]
        assert entry["entrypoint"] == f"flows/stages.py:{stage.name}"
        assert entry["description"] == stage.summary
        assert entry["schedules"] == []
    assert {entry["work_pool"]["name"] for entry in made.values()} == {"local-process"}
    groups = {name: entry["tags"] for name, entry in made.items() if not name.startswith("stage-")}
    assert [groups[name] for name in ("nightly", "watch", "refresh", "discover", "audit", "tune")] == [
        ["pipeline"],
        ["care"],
        ["care"],
        ["question"],
        ["question"],
        ["model"],
    ]
    assert all(entry["tags"] == ["stage"] for name, entry in made.items() if name.startswith("stage-"))


@every_stage
def test_prefect_finds_the_flow_of_a_stage_at_its_entrypoint(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    found = load_flow_from_entrypoint(f"flows/stages.py:{stage.name}")
    assert (found.name, found.flow_run_name) == (stage.name, stage.title)
    assert list(found.parameters.properties) == list(FLOWS[stage.name].parameters.properties)
