"""What a search may change of the training settings, and within which ranges."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kgcore.config import TrainConfig
from kgcore.errors import InputError
from kgcore.presets import preset
from kgcore.tuning import FEWEST_EPOCHS

if TYPE_CHECKING:
    from optuna import Trial

LEARNING_RATES = (1e-3, 0.3)
LP_POWERS = ("none", "2", "3")
LP_WEIGHTS = (1e-4, 10.0)
ETAS = (5, 50)
SIZES = (50, 200, 50)  # of embeddings: from, to, in steps of
NEGATIVES: dict[str, dict[str, float]] = {
    "uniform": {"uniform": 1.0},
    "typed": {"typed": 1.0},
    "half": {"typed": 0.5, "uniform": 0.5},
}
SIDES: dict[str, dict[str, Any]] = {
    "both": {"object_share": 0.5, "bernoulli": False},
    "object": {"object_share": 0.75, "bernoulli": False},
    "bernoulli": {"object_share": 0.5, "bernoulli": True},
}


@dataclass(frozen=True)
class Space:
    """Ranges of the searched settings around a configuration that gives the others.

    learning_rate  0.001 to 0.3, on a log scale
    regulariser    p of the LP regulariser: none, 2, 3; and its weight, 0.0001 to 10, on a log scale
    epochs         4 to `most_epochs`, on a log scale
    negatives      corruptions in training: uniform, typed, half of each
    sides          both alike, three quarters on the object, by Bernoulli
    k              50 to 200 in steps of 50
    eta            5 to 50, on a log scale

    Numbers on a log scale are rounded to three digits, so that a command line can be copied.
    """

    base: TrainConfig
    searched: Collection[str]
    most_epochs: int

    def suggest(self, trial: "Trial") -> TrainConfig:
        """The settings of a trial."""
        changed: dict[str, Any] = {}
        if "learning_rate" in self.searched:
            changed["learning_rate"] = _rounded(trial.suggest_float("learning_rate", *LEARNING_RATES, log=True))
        if "regulariser" in self.searched:
            power = trial.suggest_categorical("lp_power", LP_POWERS)
            weight = _rounded(trial.suggest_float("lp_weight", *LP_WEIGHTS, log=True))
            changed |= {"lp_weight": 0.0} if power == "none" else {"lp_weight": weight, "lp_power": float(power)}
        if "epochs" in self.searched:
            changed["epochs"] = trial.suggest_int("epochs", FEWEST_EPOCHS, self.most_epochs, log=True)
        if "negatives" in self.searched:
            changed["negatives"] = dict(NEGATIVES[trial.suggest_categorical("negatives", tuple(NEGATIVES))])
        if "sides" in self.searched:
            changed |= SIDES[trial.suggest_categorical("sides", tuple(SIDES))]
        if "k" in self.searched:
            changed["k"] = trial.suggest_int("k", *SIZES[:2], step=SIZES[2])
        if "eta" in self.searched:
            changed["eta"] = trial.suggest_int("eta", *ETAS, log=True)
        return replace(self.base, **changed)

    def values(self, config: TrainConfig) -> dict[str, Any]:
        """What `suggest` would have had to draw for a configuration: the nearest number of each range; what is no
        choice is left out, and drawn."""
        power = f"{config.lp_power:g}" if config.lp_weight else "none"
        sides = {"object_share": config.object_share, "bernoulli": config.bernoulli}
        size = SIZES[0] + round((_within(config.k, SIZES[0], SIZES[1]) - SIZES[0]) / SIZES[2]) * SIZES[2]
        found: dict[str, dict[str, Any]] = {
            "learning_rate": {"learning_rate": _within(config.learning_rate, *LEARNING_RATES)},
            "regulariser": {"lp_power": power if power in LP_POWERS else None}
            | ({"lp_weight": _within(config.lp_weight, *LP_WEIGHTS)} if config.lp_weight else {}),
            "epochs": {"epochs": _within(config.epochs, FEWEST_EPOCHS, self.most_epochs)},
            "negatives": {"negatives": _name_of(config.negatives, NEGATIVES)},
            "sides": {"sides": _name_of(sides, SIDES)},
            "k": {"k": size},
            "eta": {"eta": _within(config.eta, *ETAS)},
        }
        drawn = {name: value for setting in self.searched for name, value in found[setting].items()}
        return {name: value for name, value in drawn.items() if value is not None}

    def starts(self, dataset: str) -> dict[str, dict[str, Any]]:
        """What the first trials are to draw, by the name of whose values they are: those of the default preset for the
        data set, so that what is found is held against it, where there is one; and those of `base`, where they are not
        the defaults, or there is no preset."""
        model, loss, starts = self.base.model, self.base.loss, {}
        with suppress(InputError):
            starts["preset"] = self.values(preset("default", dataset, model, loss))
        given = self.values(self.base)
        if not starts or given not in (self.values(TrainConfig(model=model, loss=loss)), starts["preset"]):
            starts["given"] = given
        return starts


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _within(value: Any, low: Any, high: Any) -> Any:
    return min(max(value, low), high)


def _name_of(value: Mapping[str, Any], choices: Mapping[str, Mapping[str, Any]]) -> str | None:
    return next((name for name, choice in choices.items() if choice == value), None)
