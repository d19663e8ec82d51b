"""The options of models and losses: their checks, their defaults in a command's help, and switches."""

import inspect

import pytest

from kgcore.embed.models.base import CHOSEN_FROM_K, Chosen
from kgcore.errors import InputError
from kgcore.registries import MODELS
from kgcore.registry import build
from tests.core.model_cases import Options
from tests.core.second_formulas import K


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="TransE has no option 'nrom': its options are norm"):
        build(MODELS.get("transe"), {"nrom": 2}, K)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("transe", {"norm": 3}, "norm is 3: it must be 1 or 2"),
        ("rotate", {"norm": 3}, "norm is 3: it must be 1 or 2"),
        ("toruse", {"norm": 0}, "norm is 0: it must be 1 or 2"),
        ("kg2e", {"likelihood": 0.5}, r"the option likelihood of KG2E is 0\.5: it must be true or false"),
        ("tucker", {"predicate_size": 1.5}, r"predicate_size is 1\.5: it must be a whole number of at least 1"),
        ("convkb", {"filters": 0}, "filters is 0: it must be a whole number of at least 1"),
        ("convkb", {"filters": float("nan")}, "filters is nan: it must be a whole number"),
        ("capse", {"capsule": 0}, "capsule is 0: it must be a whole number of at least 1"),
        ("capse", {"routings": 1.5}, r"routings is 1\.5: it must be a whole number of at least 1"),
        ("capse", {"log_odds": 2}, "the option log_odds of CapsE is 2: it must be true or false"),
        ("transe", {"norm": True}, "the option norm of TransE is true: it must be a number"),
        ("kbgat", {"heads": 0}, "heads is 0: it must be a whole number of at least 1"),
        ("conve", {"height": 3}, "height is 3: it must divide k, which is 8"),
        ("conve", {"kernel": 5}, "kernel is 5: it must fit in the image of 4 x 4"),
    ],
)
def test_an_invalid_option_is_refused(name: str, options: Options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(MODELS.get(name), options, K)


@pytest.mark.parametrize("value", [0, 1, 1.0])
def test_a_switch_is_true_or_false(value: float) -> None:
    with pytest.raises(InputError, match=r"the option log_odds of CapsE is .*: it must be true or false"):
        build(MODELS.get("capse"), {"log_odds": value}, K)


def test_help_says_which_options_follow_from_k() -> None:
    assert MODELS.options("conve") == {"filters": "32", "kernel": "CHOSEN_FROM_K", "height": "CHOSEN_FROM_K"}
    assert MODELS.options("tucker") == {"predicate_size": "CHOSEN_FROM_K"}
    assert MODELS.options("capse")["log_odds"] == "True"


@pytest.mark.parametrize("name", MODELS.names())
def test_every_option_is_a_number_a_switch_or_follows_from_k(name: str) -> None:
    parameters = list(inspect.signature(MODELS.get(name)).parameters.values())[1:]
    for parameter in parameters:
        assert isinstance(parameter.default, bool | int | float | Chosen)
    chosen = {p.name for p in parameters if p.default is CHOSEN_FROM_K}
    assert chosen <= {"kernel", "height", "predicate_size"}
