"""The allowed values of settings whose choices are fixed here and not in a registry of components."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kgcore.errors import InputError

SIDES = ("subject", "object", "both", "bernoulli")
AUTO = "auto"  # as many corruptions as the base rate needs

TRAINING_ONLY = frozenset({"kbgan"})  # strategies that learn during training, and can draw only there
MODEL_ONLY = frozenset({"near_miss", "nearest"})  # strategies that draw with a trained model

ALL, GAIN = "all", "gain"
OBJECTIVES: dict[str, Literal["minimize", "maximize"]] = {
    "brier": "minimize",
    "log_loss": "minimize",
    "accuracy": "maximize",
    "mrr": "maximize",
    GAIN: "maximize",
}
MISSING_FACTS = "missing_facts"
POPULATIONS = ("negatives", "answers", MISSING_FACTS)  # that a model is judged on: see kgcore/tuning/objective.py
SEARCHED = ("learning_rate", "regulariser", "epochs", "training_strategy", "training_sides", "k", "training_eta")
SEARCHABLE = (*SEARCHED, "dropout", "initial_scale", "inverse_relations", "cohort_weight")
PER = ("all", "subject", "object")  # what the number of best pairs is counted over
EXAM_SHARE = 0.5  # share of labels of new triples that belong to the exam
HELD_OUT = ("valid", "test")  # splits that can be used as candidates, with their labels hidden
FEWEST_EPOCHS = 4  # fewest epochs of a trial, because a search measures a trial three times before its end


@dataclass(frozen=True)
class Spelling:
    """How the value of a setting is spelt.

    text     the allowed values, for people
    pattern  regular expression of the allowed values
    """

    text: str
    pattern: str

    def check(self, name: str, value: str) -> None:
        """Raise InputError if the value of the setting `name` is not allowed."""
        if not re.fullmatch(self.pattern, str(value)):
            raise InputError(f"{name} is {value!r}: it must be {self.text}")


SIDES_SPELLING = Spelling(
    f"one of {', '.join(SIDES)}, or object=SHARE with a share from 0 to 1",
    r"^(subject|object|both|bernoulli|object=(0?\.[0-9]+|0|1))$",
)
COLUMNS_SPELLING = Spelling(
    "auto, or three or four names, or positions from 1, separated by commas", r"^(auto|[^,]+,[^,]+,[^,]+(,[^,]+)?)$"
)
ETA_SPELLING = Spelling("auto or a whole number above 0", r"^(auto|[1-9][0-9]*)$")


def check_draws_without_training(name: str, strategies: Iterable[str]) -> None:
    """Raise InputError if a strategy of the setting `name` must learn during training."""
    for strategy in sorted(TRAINING_ONLY.intersection(strategies)):
        raise InputError(f"{name} is {strategy!r}: this strategy learns during training, and can be used only there")


def check_draws_without_model(name: str, strategies: Iterable[str]) -> None:
    """Raise InputError if a strategy of the setting `name` needs a trained model, or must learn during training."""
    check_draws_without_training(name, strategies)
    for strategy in sorted(MODEL_ONLY.intersection(strategies)):
        raise InputError(
            f"{name} is {strategy!r}: this strategy draws with a trained model, but no model is trained yet"
        )


def object_share(sides: str) -> float | None:
    """Return the share of corruptions that replace the object.

    The result is None for `bernoulli`, because each predicate then has its own share.

    sides  subject (0), object (1), both (1/2), bernoulli, or object=SHARE with a share in [0, 1]

    Raises InputError if `sides` has another value.
    """
    SIDES_SPELLING.check("sides", sides)
    name, _, share = sides.partition("=")
    if share:
        return float(share)
    return {"subject": 0.0, "object": 1.0, "both": 0.5}.get(name)
