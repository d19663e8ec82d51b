"""What Prefect tells of the deployments' parameters: the form in its UI, and what it refuses to schedule."""

import inspect
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from prefect import Flow
from prefect.utilities.callables import parameter_schema
from prefect.utilities.schema_tools.validation import is_valid

from flows.ensemble import ensemble
from flows.pipeline import pipeline, recalibrate
from flows.reproduce import reproduce
from flows.stages import STAGE_FLOWS
from flows.tune import tune
from flows.upkeep import promote, watch
from kgcore.config import LIMITS, Config
from kgcore.config.choices import OBJECTIVES, SEARCHABLE, SIDES
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, LOSSES, MODELS, POOLS, STRATEGIES
from kgcore.registry import Registry

FLOWS = [pipeline, recalibrate, promote, watch, tune, ensemble, reproduce, *STAGE_FLOWS]
SETTINGS = [(config, item) for config in Config.__subclasses__() for item in fields(config)]


def schema(flow: "Flow[..., Any]") -> dict[str, Any]:
    return parameter_schema(flow.fn).model_dump()


@cache
def definitions() -> dict[str, Any]:
    return {name: told for flow in FLOWS for name, told in schema(flow).get("definitions", {}).items()}


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_every_parameter_and_every_setting_is_described(flow: "Flow[..., Any]") -> None:
    made = schema(flow)
    assert list(made["properties"]) == list(inspect.signature(flow.fn).parameters)
    hints = get_type_hints(flow.fn)
    for name, parameter in made["properties"].items():
        assert parameter["description"], name
        if isinstance(hints[name], type) and issubclass(hints[name], Config):
            settings = made["definitions"][hints[name].__name__]["properties"]
            told = {name: setting["description"] for name, setting in settings.items()}
            assert told == {item.name: item.metadata["description"] for item in fields(hints[name])}


def test_choices_are_enumerations() -> None:
    told = definitions()
    stages = ("Train", "Corrupt", "Calibrate", "Ensemble")
    train, corrupt, calibrate, pooled = (told[f"{name}Config"]["properties"] for name in stages)
    assert train["model"]["enum"] == MODELS.names()
    assert train["loss"]["enum"] == LOSSES.names()
    assert train["negatives"]["propertyNames"]["enum"] == STRATEGIES.names()
    assert corrupt["strategy"]["propertyNames"]["enum"] == [name for name in STRATEGIES.names() if name != "kbgan"]
    assert corrupt["sides"]["enum"] == list(SIDES)
    assert calibrate["calibrators"]["items"]["enum"] == CALIBRATORS.names()
    assert told["TuneConfig"]["properties"]["metric"]["enum"] == list(OBJECTIVES)
    assert told["TuneConfig"]["properties"]["search"]["items"]["enum"] == list(SEARCHABLE)
    assert pooled["pools"]["items"]["enum"] == POOLS.names()
    assert pooled["member_calibrator"]["enum"] == pooled["recalibrator"]["enum"] == CALIBRATORS.names()
    assert len([item for _, item in SETTINGS if item.metadata.get("choices")]) == 12


def values(config: type[Config], item: Any) -> SearchStrategy[Any]:
    """Values of a setting as JSON has them, good and bad."""
    kind, choices = get_type_hints(config)[item.name], item.metadata.get("choices")
    names = st.sampled_from([*(choices.names() if isinstance(choices, Registry) else choices or ()), "odd", ""])
    if kind is bool:
        return st.booleans()
    if kind is str:
        return names if choices else st.text()
    if kind in (int, float):
        limits = [item.metadata[name] for name in LIMITS if name in item.metadata]
        near = [limit + step for limit in limits for step in (-1, 0, 1)]
        wide = st.integers(-(10**9), 10**9) if kind is int else st.floats(-3, 3)
        return wide | st.sampled_from([kind(value) for value in near])
    if kind == tuple[str, ...]:
        return st.lists(names, max_size=4)
    assert kind == dict[str, float]
    return st.dictionaries(names if choices else st.text(), st.floats(-1, 2), max_size=3)


@settings(deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("config", "item"), SETTINGS, ids=lambda part: getattr(part, "name", ""))
def test_the_schema_admits_what_the_settings_do(config: type[Config], item: Any, data: DataObject) -> None:
    value = data.draw(values(config, item))
    told = definitions()[config.__name__]
    try:
        config(**{item.name: tuple(value) if isinstance(value, list) else value})
    except InputError:
        assert not is_valid({item.name: value}, told)
    else:
        assert is_valid({item.name: value}, told)


@pytest.mark.parametrize(
    ("flow", "parameters", "good"),
    [
        (reproduce, {"device": "cuda:1"}, True),
        (reproduce, {"device": "gpu"}, False),
        (reproduce, {"runner": "threads:4"}, True),
        (reproduce, {"runner": "ray"}, False),
        (reproduce, {"tables": ["results", "all"], "datasets": ["wn11"], "preset": "paper"}, True),
        (reproduce, {"tables": ["result"]}, False),
        (reproduce, {"datasets": ["family"]}, False),
        (reproduce, {"preset": "fast"}, False),
        (ensemble, {"runs": ["0123456789abcdef0123456789abcdef", "models:/m-1"]}, True),
        (ensemble, {"runs": ["latest"]}, False),
        (ensemble, {"runs": ["latest", "latest"]}, False),
        (ensemble, {"runs": ["latest", "newest"]}, False),
        (ensemble, {}, False),
        (pipeline, {"train": {"k": 10, "model": "distmult"}}, True),
        (pipeline, {"train": {"kk": 10}}, False),
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
