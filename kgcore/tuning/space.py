"""What a search may change of the training settings, and within which ranges."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kgcore.config import TrainConfig
from kgcore.config.choices import FEWEST_EPOCHS
from kgcore.registries import MODELS

if TYPE_CHECKING:
    from optuna import Trial

LEARNING_RATES = (1e-3, 0.3)
LP_WEIGHTS = (1e-4, 10.0)
INITIAL_SCALES = (0.1, 10.0)
ETAS = (5, 50)
STEPS: dict[str, tuple[Any, ...]] = {
    "dropout": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
    "inverse_relations": (False, True),
    "cohort_weight": (0.0, 0.25, 0.5, 0.75, 1.0),
    "k": (50, 100, 150, 200),
}
CHOICES: dict[str, dict[str, dict[str, Any]]] = {
    "lp_power": {"none": {}, "2": {"lp_power": 2.0}, "3": {"lp_power": 3.0}},
    "training_strategy": {
        "uniform": {"training_strategy": {"uniform": 1.0}},
        "typed": {"training_strategy": {"typed": 1.0}},
        "half": {"training_strategy": {"typed": 0.5, "uniform": 0.5}},
    },
    "training_sides": {name: {"training_sides": name} for name in ("both", "object=0.75", "bernoulli")},
}
GIVEN = "given"


@dataclass(frozen=True)
class Space:
    """Ranges of the searched settings; the others are those of `base`, with which a search starts.

    learning_rate      0.001 to 0.3, on a log scale
    regulariser        p of the LP regulariser: none, 2, 3; and its weight, 0.0001 to 10, on a log scale
    epochs             4 to `most_epochs`, on a log scale
    training_strategy  corruptions in training: uniform, typed, half of each
    training_sides     both alike, three quarters on the object, by Bernoulli
    k                  50, 100, 150, 200
    training_eta       5 to 50, on a log scale
    dropout            0 to 0.5, in steps of 0.1; 0 for models that have no use for it
    initial_scale      0.1 to 10 times the model's own, on a log scale
    inverse_relations  without, with
    cohort_weight      0 to 1, in steps of 0.25

    A range or a choice that does not have the value of `base` is widened to it, but for the most epochs. Numbers on a
    log scale are rounded to three digits, so that a command line can be copied.
    """

    base: TrainConfig
    searched: Collection[str]
    most_epochs: int

    def suggest(self, trial: "Trial") -> TrainConfig:
        """The settings of a trial."""
        base, changed = self.base, dict[str, Any]()
        for name in ("learning_rate", "initial_scale"):
            if name in self.searched:
                number = trial.suggest_float(name, *self._range(name), log=True)
                changed[name] = _rounded(number, getattr(base, name))
        if "regulariser" in self.searched:
            power = self._choices("lp_power")[trial.suggest_categorical("lp_power", [*self._choices("lp_power")])]
            weight = trial.suggest_float("lp_weight", *self._range("lp_weight"), log=True)
            changed |= power | {"lp_weight": _rounded(weight, base.lp_weight) if power else 0.0}
        for name in ("epochs", "training_eta"):
            if name in self.searched:
                changed[name] = trial.suggest_int(name, *self._range(name), log=True)
        for name in ("training_strategy", "training_sides"):
            if name in self.searched:
                changed |= self._choices(name)[trial.suggest_categorical(name, [*self._choices(name)])]
        for name in STEPS:
            if name in self.searched:
                changed[name] = trial.suggest_categorical(name, self._steps(name))
        return replace(base, **changed)

    def start(self) -> dict[str, Any]:
        """What `suggest` has to draw for the settings of `base`, with the most epochs where it has more."""
        base = self.base
        drawn: dict[str, dict[str, Any]] = {
            "learning_rate": {"learning_rate": base.learning_rate},
            "initial_scale": {"initial_scale": base.initial_scale},
            "regulariser": {"lp_power": self._own("lp_power"), "lp_weight": base.lp_weight or LP_WEIGHTS[0]},
            "epochs": {"epochs": min(base.epochs, self.most_epochs)},
            "training_strategy": {"training_strategy": self._own("training_strategy")},
            "training_sides": {"training_sides": self._own("training_sides")},
            "dropout": {"dropout": base.dropout},
            "inverse_relations": {"inverse_relations": base.inverse_relations},
            "cohort_weight": {"cohort_weight": base.cohort_weight},
            "k": {"k": base.k},
            "training_eta": {"training_eta": base.training_eta},
        }
        return {name: value for setting in self.searched for name, value in drawn[setting].items()}

    def starts(self) -> list[dict[str, Any]]:
        """What the first trials draw: the settings of `base`, and then its neighbours, which have one of them changed:
        a number halved or doubled, where that is in its range, a step further, or another choice.

        A model that is known to learn is a better beginning than the ranges, most of which is nothing."""
        first, found = self.start(), list[dict[str, Any]]()
        for name, value in first.items():
            if name in CHOICES:
                others: list[Any] = [choice for choice in self._choices(name) if choice not in (value, "none")]
            elif name in STEPS:
                steps = self._steps(name)
                at = steps.index(value)
                others = [*steps[max(at - 1, 0) : at], *steps[at + 1 : at + 2]]
            elif name == "lp_weight" and not self.base.lp_weight:
                others = []  # without a power it is nothing
            else:
                low, high = self._range(name)
                others = [near for near in (type(value)(value * 2), type(value)(value / 2)) if low <= near <= high]
            changed = {"lp_weight": _middle(LP_WEIGHTS)} if name == "lp_power" and not self.base.lp_weight else {}
            found += [first | {name: other} | changed for other in others]
        return [first, *found]

    def _range(self, name: str) -> tuple[Any, Any]:
        """The range of a setting that is a number on a log scale."""
        base = self.base
        return {
            "learning_rate": _around(LEARNING_RATES, base.learning_rate),
            "initial_scale": _around(INITIAL_SCALES, base.initial_scale),
            "lp_weight": _around(LP_WEIGHTS, base.lp_weight or None),
            "epochs": _around((FEWEST_EPOCHS, self.most_epochs), min(base.epochs, self.most_epochs)),
            "training_eta": _around(ETAS, base.training_eta),
        }[name]

    def _steps(self, name: str) -> list[Any]:
        """The values of a setting that goes in steps, that of `base` among them."""
        if name == "dropout" and not MODELS.get(self.base.model).can_drop:
            return [0.0]
        return sorted({*STEPS[name], getattr(self.base, name)})

    def _choices(self, name: str) -> dict[str, dict[str, Any]]:
        """Name -> settings, those of `base` among them."""
        own = self._values(name)
        return CHOICES[name] if own in CHOICES[name].values() else CHOICES[name] | {GIVEN: own}

    def _own(self, name: str) -> str:
        """The name of the choice that `base` has made."""
        own = self._values(name)
        return next(choice for choice, values in self._choices(name).items() if values == own)

    def _values(self, name: str) -> dict[str, Any]:
        """The settings of `base` that a choice is about; none for a power without a weight."""
        if name == "lp_power" and not self.base.lp_weight:
            return {}
        return {setting: getattr(self.base, setting) for setting in next(reversed(CHOICES[name].values()))}


def _around(limits: tuple[Any, Any], value: Any | None) -> tuple[Any, Any]:
    """The range, widened to the value if there is one."""
    return limits if value is None else (min(limits[0], value), max(limits[1], value))


def _middle(limits: tuple[float, float]) -> float:
    return math.sqrt(limits[0] * limits[1])


def _rounded(value: float, given: float) -> float:
    """To three digits, but for what is given."""
    return value if value == given else float(f"{value:.3g}")
