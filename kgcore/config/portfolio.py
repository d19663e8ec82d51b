"""The portfolio: the training settings that take part in the race of the preset `auto`.

docs/scripts/portfolio_choice.py chose them from trials on the graphs at hand, by the Brier score. On data sets
that are left out, a choice by the mean gain is no better: docs/explanation/portfolio.md.
"""

from collections.abc import Mapping
from typing import Any

from kgcore.config.given import TrainGiven
from kgcore.config.stages import TrainConfig

FEWEST_EPOCHS = 9  # so that a ninth of them is an epoch
SMALL, LONGEST = 10_000, 2.0  # graphs with fewer rows than SMALL have more epochs, at most LONGEST times as many

_HALF = {"typed": 0.5, "uniform": 0.5}
_TYPED: Mapping[str, Any] = {"training_strategy": {"typed": 1.0}, "training_sides": "bernoulli"}


def _dot(model: str, lp_weight: float, **others: Any) -> TrainGiven:
    """Return the settings of a dot product, which needs a large step size and the cubic regulariser."""
    return TrainGiven(model=model, lp_weight=lp_weight, lp_power=3.0, learning_rate=0.1, **others)


def _cohort(temperature: float, **others: Any) -> Mapping[str, Any]:
    """Return settings with which half of the cohort level is subtracted from a score."""
    return {"cohort_weight": 0.5, "cohort_temperature": temperature, **others}


# name -> CPU time of an epoch, relative to one of TransE with the default settings; and the settings
PORTFOLIO = {
    "distmult sa half cohort": (1.0, _dot("distmult", 0.01, training_strategy=_HALF, **_cohort(1.0))),
    "transe half cohort": (1.35, TrainGiven(training_strategy=_HALF, **_cohort(0.5))),
    "complex sa middle cohort": (1.85, _dot("complex", 0.005, **_cohort(1.0))),
    "transe near cohort": (1.0, TrainGiven(loss_options={"margin": 1.5}, **_cohort(0.5))),
    "kg2e typed cohort": (
        3.5,
        TrainGiven(model="kg2e", k=50, learning_rate=0.02, batch_size=512, **_TYPED, **_cohort(0.5)),
    ),
    "complex sa cohort": (1.95, _dot("complex", 0.015, **_cohort(1.0))),
    "distmult sa weak cohort": (1.0, _dot("distmult", 0.003, **_cohort(1.0))),
    "transe cohort": (1.0, TrainGiven(**_cohort(0.5))),
    "complex sa weak": (1.85, _dot("complex", 0.0015)),
    "transe typed cohort": (1.85, TrainGiven(**_TYPED, **_cohort(0.5))),
}


def contenders(rows: int, entities: int, predicates: int) -> dict[str, TrainGiven]:
    """Return name -> training settings of each configuration of the portfolio.

    rows, entities, predicates  numbers of training triples, entities and predicates of the graph

    The numbers of epochs are such that each training takes about as long as one with the default settings. On a graph
    with fewer than SMALL rows, it takes up to LONGEST times as long: there are few steps in an epoch.
    """
    longer = min(max(SMALL / max(rows, 1), 1.0), LONGEST)
    return {
        name: TrainGiven(epochs=max(round(TrainConfig().epochs * longer / cost), FEWEST_EPOCHS)).over(settings)
        for name, (cost, settings) in PORTFOLIO.items()
    }


def of_confidences(rows: int) -> dict[str, TrainGiven]:
    """Return name -> training settings of further contenders on a graph with confidences.

    docs/explanation/confidences.md compares their loss with others.

    rows  number of training triples. With more of them, there are fewer epochs: 20 to 200
    """
    epochs = min(max(4_000_000 // max(rows, 1), 20), 200)
    models = ("distmult", "complex")
    return {
        f"{name} confidence": TrainGiven(model=name, loss="confidence", learning_rate=0.01, epochs=epochs)
        for name in models
    }
