"""The forms of the deployments in the Prefect UI: descriptions, choices, ranges, and values that Prefect rejects."""

import inspect
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from prefect import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import is_valid
from pydantic.fields import FieldInfo

from flows.job import all_jobs
from flows.jobs.ensemble import ensemble
from flows.jobs.reproduce import reproduce
from flows.pipeline import pipeline
from flows.stages import STAGE_FLOWS
from kgcore.config import Config
from kgcore.config.base import (
    ADVANCED,
    ETA_SPELLING,
    LIMITS,
    OBJECTIVES,
    SEARCHABLE,
    SIDES,
    SIDES_SPELLING,
    Spelling,
    choices_of,
)
from kgcore.config.jobs import IMPORTABLE, ImportedModel, SurveyConfig
from kgcore.errors import InputError
from kgcore.registries import ALL_CALIBRATORS, BASELINES, CALIBRATORS, LOSSES, MODELS, POOLS, STRATEGIES
from tests.forms import shown

FLOWS = [job.flow for job in all_jobs()]
RECORDED = {ImportedModel, SurveyConfig}  # settings that a run records and nobody gives
KINDS = [kind for kind in Config.__subclasses__() if kind not in RECORDED]
SETTINGS = [(kind, name) for kind in KINDS for name in kind.model_fields]
# the first two need each other, the last is a number in (0, 1) or a file: a schema does not say this
UNSAID = {"base_rate_low", "base_rate_high", "completeness"}


def schema(flow: "Flow[..., Any]") -> dict[str, Any]:
    return parameter_schema(flow.fn).model_dump()


@cache
def definitions() -> dict[str, Any]:
    return {name: found for flow in FLOWS for name, found in schema(flow).get("definitions", {}).items()}


def property_of(kind: str, name: str) -> dict[str, Any]:
    """Return the JSON schema of a setting, without the alternative null."""
    found = shown(definitions()[kind])[name]
    [value] = [branch for branch in found.get("anyOf", [found]) if branch["type"] != "null"]
    return value


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_parameter_and_every_setting_is_described(flow: "Flow[..., Any]") -> None:
    made = schema(flow)
    assert list(made["properties"]) == list(inspect.signature(flow.fn).parameters)
    hints = get_type_hints(flow.fn)
    for name, parameter in made["properties"].items():
        assert parameter["description"], name
        if isinstance(hints[name], type) and issubclass(hints[name], Config):
            settings = shown(made["definitions"][hints[name].__name__])
            for key, item in hints[name].model_fields.items():
                assert settings[key]["description"].startswith(item.description), key


def test_choices_of_stages_are_enumerations() -> None:
    assert property_of("TrainConfig", "model")["enum"] == MODELS.names()
    assert property_of("TrainConfig", "loss")["enum"] == LOSSES.names()
    assert property_of("TrainConfig", "training_strategy")["propertyNames"]["enum"] == STRATEGIES.names()
    drawn = [name for name in STRATEGIES.names() if name != "kbgan"]
    assert property_of("CorruptConfig", "calibration_strategy")["propertyNames"]["enum"] == drawn
    assert property_of("CorruptConfig", "calibration_sides")["pattern"] == SIDES_SPELLING.pattern
    assert property_of("CorruptConfig", "calibration_eta")["pattern"] == ETA_SPELLING.pattern
    assert property_of("CalibrateConfig", "calibrators")["items"]["enum"] == ALL_CALIBRATORS.names()


def test_choices_of_jobs_are_enumerations() -> None:
    assert property_of("TuneConfig", "metric")["enum"] == list(OBJECTIVES)
    assert property_of("TuneConfig", "search")["items"]["enum"] == list(SEARCHABLE)
    assert property_of("EnsembleConfig", "pools")["items"]["enum"] == POOLS.names()
    for name in ("member_calibrator", "recalibrator"):
        assert property_of("EnsembleConfig", name)["enum"] == CALIBRATORS.names()
    assert len([name for kind, name in SETTINGS if choices_of(kind.model_fields[name])]) == 28
    assert property_of("ImportConfig", "model")["enum"] == list(IMPORTABLE)


@pytest.mark.parametrize(("kind", "name"), SETTINGS, ids=lambda part: getattr(part, "__name__", part))
def test_a_form_sends_nothing_that_nobody_has_chosen(kind: type[Config], name: str) -> None:
    """Prefect's page sends the default of a field, and the position of a switch, which a boolean would be."""
    found = shown(definitions()[kind.__name__])[name]
    assert "default" not in found
    assert found.get("type") != "boolean"


def test_the_form_of_the_pipeline_begins_with_what_people_change() -> None:
    properties = schema(pipeline)["properties"]
    assert list(properties)[:5] == ["preset", "prepare", "calibrate", "match", "train"]
    first = ("PrepareConfig", "CalibrateConfig", "MatchConfig", "TrainConfig")
    names = [next(iter(definitions()[kind]["properties"])) for kind in first]
    assert names == ["dataset", "calibrators", "candidates", "model"]
    assert properties["preset"]["enum"] == ["auto", "default", "best", "paper", "none", None]
    assert "anyOf" not in properties["preset"]  # a page would hide the choices behind a switch


def test_the_form_of_the_pipeline_shows_a_dozen_settings_and_puts_the_others_in_groups() -> None:
    kinds = [kind for kind in KINDS if kind.first is not None]
    for kind in kinds:
        first = [*kind.first, ADVANCED] if kind.first is not None else []
        assert list(definitions()[kind.__name__]["properties"]) == first
        assert set(shown(definitions()[kind.__name__])) == set(kind.model_fields)
    assert sum(len(kind.first or ()) for kind in kinds) == 11  # and the preset


@pytest.mark.parametrize(
    ("train", "good"),
    [
        ({"model": "complex", "advanced": {"loss": "pairwise", "batch_size": 64}}, True),
        ({"advanced": None, "batch_size": 64}, True),
        ({"advanced": {"batch_size": 0}}, False),
        ({"batch_size": 0}, False),
        ({"advanced": {"batchsize": 64}}, False),
        ({"advanced": {"model": "complex"}}, False),
    ],
)
def test_an_advanced_setting_is_taken_inside_its_group_and_outside(train: dict[str, Any], good: bool) -> None:
    assert is_valid({"train": train}, schema(pipeline)) == good
    if good:
        given = {**train, **(train.get(ADVANCED) or {})}
        del given[ADVANCED]
        assert pipeline.validate_parameters({"train": train})["train"].given() == given


def test_baselines_are_not_offered_as_calibrators() -> None:
    assert BASELINES.names()
    assert not set(BASELINES.names()) & set(property_of("CalibrateConfig", "calibrators")["items"]["enum"])


@cache
def kind_of(settings: type[Config], name: str) -> Any:
    """Return the type of a setting, without None."""
    hint = settings.model_fields[name].annotation
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if NoneType in get_args(hint) else hint


def names_of(item: FieldInfo) -> list[str]:
    """Return the names from which a setting may choose, and two that it must reject."""
    choices = choices_of(item)
    return [*(choices.names if choices else ()), "odd", ""]


def edges(settings: type[Config], name: str) -> list[Any]:
    """Return the JSON values at the limits of a setting and beside them, or each of its names."""
    kind, item = kind_of(settings, name), settings.model_fields[name]
    if kind in (int, float):
        limits = [getattr(rule, name) for rule in item.metadata for name in LIMITS if hasattr(rule, name)]
        return [kind(limit + step) for limit in limits for step in (-1, 0, 1)]
    if kind is bool:
        return [False, True]
    if kind is str and any(isinstance(rule, Spelling) for rule in item.metadata):
        return [*SIDES, "object=0.75", "object=1", "object=2", "subject=1", "auto", "0", "1", "20", "-3", "1.5"]
    if kind is str:
        return names_of(item) if choices_of(item) else [""]
    if kind == tuple[str, ...]:
        return [[], *([name] for name in names_of(item))]
    return [{}, *({name: 1.0} for name in names_of(item))]


@cache
def values(settings: type[Config], name: str) -> SearchStrategy[Any]:
    """Generate valid and invalid JSON values of a setting. Null means "not given"; the list of a name has no null."""
    kind, item = kind_of(settings, name), settings.model_fields[name]
    return values_of(kind, item) if kind is str and choices_of(item) else values_of(kind, item) | st.none()


def values_of(kind: Any, item: FieldInfo) -> SearchStrategy[Any]:
    names = st.sampled_from(names_of(item))
    if kind is bool:
        return st.booleans()
    if kind is str:
        return names if choices_of(item) else st.text()
    if kind in (int, float):
        return st.integers(-(10**9), 10**9) if kind is int else st.floats(-3, 3)
    if kind == tuple[str, ...]:
        return st.lists(names, max_size=4)
    if kind == dict[str, float | bool]:
        return st.dictionaries(st.text(), st.floats(-1, 2) | st.booleans(), max_size=3)
    assert kind == dict[str, float]
    return st.dictionaries(names, st.floats(-1, 2), max_size=3)


def check(kind: type[Config], name: str, value: Any) -> None:
    """Check that the schema allows the value if the settings allow it, and only then."""
    try:
        kind(**{name: value})
        allowed = True
    except InputError:
        allowed = False
    assert is_valid({name: value}, definitions()[kind.__name__]) == allowed, value


@settings(max_examples=25)  # the values in `edges` are checked in any case
@given(data=st.data())
@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, name in SETTINGS if name not in UNSAID],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_the_schema_allows_what_the_settings_allow(kind: type[Config], name: str, data: DataObject) -> None:
    check(kind, name, data.draw(values(kind, name)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_has_the_limits_and_the_choices_of_the_settings(kind: type[Config]) -> None:
    for name in kind.model_fields:
        if name not in UNSAID:
            for value in edges(kind, name):
                check(kind, name, value)


@pytest.mark.parametrize("text", ["", "0.8", "0.7:0.9", "shares.tsv"])
def test_a_form_takes_a_completeness(text: str) -> None:
    for name in ("CalibrateConfig", "DiscoverConfig", "PairsConfig"):
        assert is_valid({"completeness": text}, definitions()[name])


@pytest.mark.parametrize(
    ("train", "given"),
    [
        ({}, {}),
        ({"k": None, "loss": None}, {}),
        ({"loss": "self_adversarial", "k": 100}, {"loss": "self_adversarial", "k": 100}),
        ({"model_options": {"norm": 2, "log_odds": False}}, {"model_options": {"norm": 2.0, "log_odds": False}}),
    ],
)
def test_null_is_not_given_and_a_default_is(train: dict[str, Any], given: dict[str, Any]) -> None:
    validated = pipeline.validate_parameters({"train": train})["train"].given()
    assert validated == given
    assert repr(validated) == repr(given)  # 2.0 is a number and False is not 0


@pytest.mark.parametrize(
    ("flow", "parameters", "good"),
    [
        (reproduce, {"device": "cuda:1"}, True),
        (reproduce, {"device": "gpu"}, False),
        (reproduce, {"runner": "threads:4"}, True),
        (reproduce, {"runner": "ray"}, False),
        (reproduce, {"tables": ["results", "all"], "datasets": ["wn11"], "presets": ["paper"], "seeds": [0, 1]}, True),
        (reproduce, {"tables": ["result"]}, False),
        (reproduce, {"datasets": ["family"]}, False),
        (reproduce, {"presets": ["fast"]}, False),
        (reproduce, {"seeds": [-1]}, False),
        (ensemble, {"runs": ["0123456789abcdef0123456789abcdef", "models:/m-1"]}, True),
        (ensemble, {"runs": ["latest"]}, False),
        (ensemble, {"runs": ["latest", "latest"]}, False),
        (ensemble, {"runs": ["latest", "newest"]}, False),
        (ensemble, {}, False),
        (pipeline, {"train": {"k": 10, "model": "distmult"}}, True),
        (pipeline, {"train": {"k": None, "loss": "self_adversarial"}, "preset": "none"}, True),
        (pipeline, {"train": {"k": "many"}}, False),
        (pipeline, {"train": {"kk": 10}}, False),
        (pipeline, {"preset": "fast"}, False),
    ],
)
def test_plain_parameters_and_misspelt_settings(flow: "Flow[..., Any]", parameters: dict[str, Any], good: bool) -> None:
    assert is_valid(parameters, schema(flow)) == good


@pytest.mark.parametrize(
    ("run", "good"),
    [
        ("latest", True),
        ("0123456789abcdef0123456789abcdef", True),
        ("score:0123456789abcdef0123456789abcdef", True),
        ("models:/kgcal-wn11@champion", True),
        ("newest", False),
        ("0123456789abcdef", False),
        ("", False),
    ],
)
def test_an_upstream_run_is_named_by_an_id_or_a_uri(run: str, good: bool) -> None:
    [calibrate] = [flow for flow in STAGE_FLOWS if flow.name == "calibrate"]
    assert is_valid({"scores": run}, schema(calibrate)) == good
