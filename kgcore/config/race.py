"""The race of the preset `auto`: its settings, the portfolio, and the contenders of a graph.

docs/scripts/portfolio_choice.py chose the portfolio from trials on the graphs at hand, by the Brier score. On data sets
that are left out, a choice by the mean gain is no better: docs/explanation/portfolio.md.
"""

from collections.abc import Mapping
from typing import Any

from kgcore.config.base import MODEL_ONLY
from kgcore.config.stages import ChooseConfig, CorruptConfig, TrainConfig
from kgcore.errors import InputError

FEWEST_EPOCHS = 9  # so that a ninth of them is an epoch
SMALL, LONGEST = 10_000, 2.0  # graphs with fewer rows than SMALL have more epochs, at most LONGEST times as many
MANY, FEWEST_OF_MANY = 400_000, 10  # graphs with more than MANY training triples have fewer epochs, but at least 10
USUAL = "default"  # name of the contender with the settings of the preset `default`
DECIDES = ("model", "loss")  # if the user gives one of these, only the portfolio's settings for it take part

_HALF: Mapping[str, Any] = {"training_strategy": {"typed": 0.5, "uniform": 0.5}}
_TYPED: Mapping[str, Any] = {"training_strategy": {"typed": 1.0}, "training_sides": "bernoulli"}
# a dot product needs a large step size and the cubic regulariser
_DOT: Mapping[str, Any] = {"lp_power": 3.0, "learning_rate": 0.1}
# half of the cohort level is subtracted from a score, at two temperatures
_COOL: Mapping[str, Any] = {"cohort_weight": 0.5, "cohort_temperature": 0.5}
_WARM: Mapping[str, Any] = {"cohort_weight": 0.5, "cohort_temperature": 1.0}
# name -> CPU time of an epoch, relative to one of TransE with the default settings; and the settings
PORTFOLIO = {
    "distmult sa half cohort": (1.0, TrainConfig(model="distmult", lp_weight=0.01, **_HALF, **_DOT, **_WARM)),
    "transe half cohort": (1.35, TrainConfig(**_HALF, **_COOL)),
    "complex sa middle cohort": (1.85, TrainConfig(model="complex", lp_weight=0.005, **_DOT, **_WARM)),
    "transe near cohort": (1.0, TrainConfig(loss_options={"margin": 1.5}, **_COOL)),
    "kg2e typed cohort": (
        3.5,
        TrainConfig(model="kg2e", k=50, learning_rate=0.02, **_TYPED, **_COOL, batch_size=512),
    ),
    "complex sa cohort": (1.95, TrainConfig(model="complex", lp_weight=0.015, **_DOT, **_WARM)),
    "distmult sa weak cohort": (1.0, TrainConfig(model="distmult", lp_weight=0.003, **_DOT, **_WARM)),
    "transe cohort": (1.0, TrainConfig(**_COOL)),
    "complex sa weak": (1.85, TrainConfig(model="complex", lp_weight=0.0015, **_DOT)),
    "transe typed cohort": (1.85, TrainConfig(**_TYPED, **_COOL)),
}


def contenders(rows: int, entities: int, predicates: int) -> dict[str, TrainConfig]:
    """Return name -> training settings of each configuration of the portfolio.

    rows, entities, predicates  numbers of training triples, entities and predicates of the graph

    The numbers of epochs are such that each training takes about as long as one with the default settings. On a graph
    with fewer than SMALL rows, it takes up to LONGEST times as long: there are few steps in an epoch.
    """
    longer = min(max(SMALL / max(rows, 1), 1.0), LONGEST)
    return {
        name: TrainConfig(epochs=max(round(TrainConfig().epochs * longer / cost), FEWEST_EPOCHS)).over(settings)
        for name, (cost, settings) in PORTFOLIO.items()
    }


def epochs_of_all(epochs: int, rows: int) -> int:
    """Return the number of epochs on all training triples, of a contender of a race on a part of them.

    epochs  those of the race
    rows    number of training triples. With more than MANY, an epoch has so many steps that fewer of them are enough:
            then all epochs together have as many as `epochs` on MANY. docs/explanation/portfolio.md has what it costs
    """
    return max(round(epochs * min(MANY / rows, 1)), min(epochs, FEWEST_OF_MANY))


def of_confidences(rows: int) -> dict[str, TrainConfig]:
    """Return name -> training settings of further contenders on a graph with confidences.

    docs/explanation/confidences.md compares their loss with others.

    rows  number of training triples. With more of them, there are fewer epochs: 20 to 200
    """
    epochs = min(max(4_000_000 // max(rows, 1), 20), 200)
    models = ("distmult", "complex")
    return {
        f"{name} confidence": TrainConfig(model=name, loss="confidence", learning_rate=0.01, epochs=epochs)
        for name in models
    }


class RaceConfig(ChooseConfig):
    """The settings of a race, and the settings of the pipeline on which it depends.

    train    training settings that the user gives: every contender has them
    usual    training settings of the preset `default`, with the given ones
    corrupt  the corruptions that are the negatives of the race if none are labelled

    The race does not depend on the base rate of the candidates, so that runs at other base rates re-use its model.
    """

    train: TrainConfig = TrainConfig()
    usual: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()

    def as_dict(self) -> dict[str, Any]:
        """Return name -> value of every setting, and of the training settings the given ones: the race keeps these."""
        return super().as_dict() | {"train": self.train.given()}

    def parameters(self) -> dict[str, object]:
        """Return the settings of the race as MLflow parameters, and each given training setting as `given.NAME`."""
        settings = {name: getattr(self, name) for name in ChooseConfig.model_fields}
        return settings | {f"given.{name}": value for name, value in self.train.given().items()}

    @property
    def negatives(self) -> CorruptConfig:
        """The corruptions, with the default strategies in place of those that draw with a trained model."""
        usable = MODEL_ONLY.isdisjoint(self.corrupt.calibration_strategy)
        return self.corrupt if usable else CorruptConfig()


def entries(
    config: RaceConfig, rows: int, entities: int, predicates: int, confidences: bool = False
) -> dict[str, TrainConfig]:
    """Return name -> training settings of each contender of a race on a graph, each settings once.

    rows, entities, predicates  numbers of training triples, entities and predicates of the graph
    confidences                 whether its training triples have confidences. Then there are further contenders

    The first one is `config.usual`, with the name USUAL. The others are the portfolio's settings, in which the given
    settings replace the portfolio's. If the user gives the model or the loss, only the portfolio's settings for it take
    part. Settings that contradict the given ones are left out.
    """
    further = of_confidences(rows) if confidences else {}
    portfolio = _with_given(further | contenders(rows, entities, predicates), config.train)
    contenders_of_graph = {USUAL: config.usual}
    for name, settings in portfolio.items():
        try:
            whole = config.train.over(settings)
        except InputError:  # the given settings contradict these
            continue
        if whole not in contenders_of_graph.values():
            contenders_of_graph[name] = whole
    return contenders_of_graph


def _with_given(portfolio: Mapping[str, TrainConfig], given: TrainConfig) -> dict[str, TrainConfig]:
    """Return the portfolio's settings for the given model and loss.

    If the portfolio has no settings for the given loss, those for the model remain. Given options of a loss belong to
    one loss, so they count as giving it.
    """
    left = dict(portfolio)
    for name in DECIDES:
        wanted = given.given().get(name)
        if wanted is None and given.given().get(f"{name}_options"):
            wanted = getattr(TrainConfig(), name)  # as without a race: options without a name are the default's
        if wanted is None:
            continue
        having = {key: settings for key, settings in left.items() if getattr(settings, name) == wanted}
        left = having if having or name == "model" else left
    return left
