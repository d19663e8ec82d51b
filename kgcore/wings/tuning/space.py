"""The training settings that a search may change, and their ranges."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgcore.config import TrainConfig
from kgcore.config.base import FEWEST_EPOCHS
from kgcore.registries import MODELS

if TYPE_CHECKING:
    from optuna import Trial

Settings = dict[str, bool | float | str | dict[str, float]]  # training settings by name
Drawn = dict[str, bool | float | str]  # the values that a trial draws, by name: numbers, or names of choices

RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (1e-3, 0.3),
    "lp_weight": (1e-4, 10.0),
    "initial_scale": (0.1, 10.0),
    "training_eta": (5, 50),
}
STEPS: dict[str, tuple[float, ...]] = {
    "dropout": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    "inverse_relations": (False, True),
    "cohort_weight": (0.0, 0.25, 0.5, 0.75, 1.0),
    "k": (50, 100, 150, 200),
}
CHOICES: dict[str, dict[str, Settings]] = {
    "lp_power": {"none": {}, "2": {"lp_power": 2.0}, "3": {"lp_power": 3.0}},
    "training_strategy": {
        "uniform": {"training_strategy": {"uniform": 1.0}},
        "typed": {"training_strategy": {"typed": 1.0}},
        "half": {"training_strategy": {"typed": 0.5, "uniform": 0.5}},
    },
    "training_sides": {name: {"training_sides": name} for name in ("both", "object=0.75", "bernoulli")},
}
GIVEN = "given"  # name of the choice for the value in `base`, if that value is not in CHOICES


@dataclass(frozen=True)
class Space:
    """The ranges of the searched settings. A search starts at the settings `base`, and changes only `searched`.

    learning_rate      0.001 to 0.3, log scale
    regulariser        p of the LP regulariser: none, 2, 3; and its weight, 0.0001 to 10, log scale
    epochs             4 to `most_epochs`, log scale
    training_strategy  corruptions in training: uniform, typed, half of each
    training_sides     both, object=0.75, bernoulli
    k                  50, 100, 150, 200
    training_eta       5 to 50, log scale
    dropout            0 to 0.5, in steps of 0.1; 0 for models that do not support it
    initial_scale      0.1 to 10 times the model's own, log scale
    inverse_relations  false, true
    cohort_weight      0 to 1, in steps of 0.25

    If the value in `base` is outside the range or the choices of its setting, they are extended to include it. The
    limit `most_epochs` is never extended. Numbers on a log scale are rounded to three digits, so that a user can copy
    them to a command line.
    """

    base: TrainConfig
    searched: Collection[str]
    most_epochs: int

    def suggest(self, trial: "Trial") -> TrainConfig:
        """Draw the settings of a trial."""
        base, changed = self.base, Settings()
        for name in ("learning_rate", "initial_scale"):
            if name in self.searched:
                number = trial.suggest_float(name, *self._range(name), log=True)
                changed[name] = _rounded(number, getattr(base, name))
        if "regulariser" in self.searched:
            power = self._suggest_choice(trial, "lp_power")
            weight = trial.suggest_float("lp_weight", *self._range("lp_weight"), log=True)
            changed |= power | {"lp_weight": _rounded(weight, base.lp_weight) if power else 0.0}
        for name in ("epochs", "training_eta"):
            if name in self.searched:
                changed[name] = trial.suggest_int(name, *map(int, self._range(name)), log=True)
        for name in ("training_strategy", "training_sides"):
            if name in self.searched:
                changed |= self._suggest_choice(trial, name)
        for name in STEPS:
            if name in self.searched:
                changed[name] = trial.suggest_categorical(name, self._steps(name))
        return base.replace(**changed)

    def start(self) -> Drawn:
        """Return the values for which `suggest` returns the settings `base`, but with at most `most_epochs` epochs."""
        base, drawn = self.base, Drawn()
        for name in self.searched:
            if name == "regulariser":
                drawn |= {"lp_power": self._choice("lp_power"), "lp_weight": base.lp_weight or RANGES["lp_weight"][0]}
            elif name == "epochs":
                drawn[name] = min(base.epochs, self.most_epochs)
            else:
                drawn[name] = self._choice(name) if name in CHOICES else getattr(base, name)
        return drawn

    def starts(self) -> list[Drawn]:
        """Return the values of the first trials: the settings `base`, and then each of its neighbours.

        Most settings in the ranges train no useful model, but `base` usually does. Therefore the search tries it and
        its neighbours first. A neighbour differs from `base` in one setting. A number is halved or doubled, within its
        range. A setting with steps moves by one step. A choice changes to another choice.
        """
        first, neighbours, middle = self.start(), list[Drawn](), math.sqrt(math.prod(RANGES["lp_weight"]))
        for name, value in first.items():
            more: Drawn = {"lp_weight": middle} if name == "lp_power" and not self.base.lp_weight else {}
            neighbours += [first | {name: near} | more for near in self._neighbours(name, value)]
        return [first, *neighbours]

    def _neighbours(self, name: str, value: bool | float | str) -> list[bool | float | str]:
        """Return the neighbours of one value of the setting `name`."""
        if isinstance(value, str):
            return [choice for choice in self._choices(name) if choice not in (value, "none")]
        if name in STEPS:
            steps = self._steps(name)
            at = steps.index(value)
            return [*steps[max(at - 1, 0) : at], *steps[at + 1 : at + 2]]
        if name == "lp_weight" and not self.base.lp_weight:
            return []  # without a power p the weight has no effect
        low, high = self._range(name)
        return [near for near in (type(value)(value * 2), type(value)(value / 2)) if low <= near <= high]

    def _suggest_choice(self, trial: "Trial", name: str) -> Settings:
        choices = self._choices(name)
        return choices[str(trial.suggest_categorical(name, [*choices]))]

    def _range(self, name: str) -> tuple[float, float]:
        """Return the range (lowest, highest) of a setting on a log scale. It holds a value in `base` above 0."""
        if name == "epochs":
            return min(FEWEST_EPOCHS, self.base.epochs, self.most_epochs), self.most_epochs
        (low, high), value = RANGES[name], getattr(self.base, name)
        return min(low, value or low), max(high, value)

    def _steps(self, name: str) -> list[float]:
        """Return the values of a setting with steps, including its value in `base`."""
        if name == "dropout" and not MODELS.get(self.base.model).can_drop:
            return [0.0]
        return sorted({*STEPS[name], getattr(self.base, name)})

    def _choices(self, name: str) -> dict[str, Settings]:
        """Return choice -> its settings, for all choices of the setting `name`, including the choice in `base`."""
        given = self._values(name)
        return CHOICES[name] if given in CHOICES[name].values() else CHOICES[name] | {GIVEN: given}

    def _choice(self, name: str) -> str:
        """Return the name of the choice in `base` for the setting `name`."""
        return next(choice for choice, values in self._choices(name).items() if values == self._values(name))

    def _values(self, name: str) -> Settings:
        """Return the values in `base` of the settings that a choice sets.

        The result is empty for the LP power if the LP weight in `base` is 0.
        """
        if name == "lp_power" and not self.base.lp_weight:
            return {}
        return {setting: getattr(self.base, setting) for setting in next(reversed(CHOICES[name].values()))}


def _rounded(value: float, given: float) -> float:
    """Round the value to three digits. If it equals `given`, return it unchanged."""
    return value if value == given else float(f"{value:.3g}")
