"""Named ways to train and to calibrate: what `paper` and `default` stand for, in one place.

paper    the protocol of the published numbers: every positive draws its own uniform corruptions, Adam at a constant
         step size, 1,000 epochs or more, the batches an epoch of the published code, HolE as (2/k) ComplEx. Days on a
         laptop.
default  what this project recommends: minutes on a laptop, and better proper scores
best     slower, with the best proper scores that we know of on validation, and each relation calibrated by itself
"""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any, TypeVar

from kgcore.config import CalibrateConfig, Config, CorruptConfig, PipelineConfigs, TrainConfig
from kgcore.errors import InputError

PRESETS = ("default", "best", "paper")
NONE = "none"
MODELS = ("transe", "distmult", "complex", "hole")
C = TypeVar("C", bound=Config)

# Training rows and batches an epoch of the published code (docs/decisions/0001-paper-and-code.md).
_PAPER_BATCHES = {"wn11": (110_361, 64), "fb13": (316_232, 32), "yago39k": (354_996, 64)}
_PAPER_LINK_PREDICTION = {
    "fb15k-237": TrainConfig(
        k=350,
        training_eta=30,
        epochs=4000,
        learning_rate=5e-5,
        batch_size=-(-272_115 // 64),
        lp_weight=1e-4,
        lp_power=2,
    ),
    "wn18rr": TrainConfig(
        k=200, training_eta=20, epochs=4000, learning_rate=5e-4, batch_size=-(-86_835 // 10), lp_weight=0.05, lp_power=3
    ),
}

_PAPER_CORRUPTIONS = CorruptConfig(
    calibration_strategy={"uniform": 1.0}, calibration_sides="both", calibration_filtered=False
)

# Corruptions that stay in a predicate's range, as labelled negatives do.
_TRAINING_CORRUPTIONS: dict[str, dict[str, Any]] = {
    "fb13": {"training_strategy": {"typed": 1.0}, "training_sides": "bernoulli"},
    "yago39k": {"training_strategy": {"typed": 0.5, "uniform": 0.5}},
}
# Passes over the training triples: fewer where there are more of them.
_EPOCHS = {"wn11": 12, "fb13": 8, "yago39k": 8, "fb15k-237": 15, "wn18rr": 25}
_EPOCHS_OF_DISTANCES = {"wn11": 100, "fb13": 30, "yago39k": 15}
# The loss where it is left open and another than the usual one is better.
_LOSS = {
    ("wn11", "distmult"): "multiclass_nll",
    ("wn11", "complex"): "multiclass_nll",
    ("wn11", "hole"): "pairwise",
    ("fb13", "distmult"): "multiclass_nll",
    ("fb13", "complex"): "multiclass_nll",
    ("fb13", "hole"): "pairwise",
}
_BEST_CALIBRATORS = (*CalibrateConfig().calibrators, "per_relation")
_BEST: dict[tuple[str, str], dict[str, Any]] = {
    ("wn11", "transe"): {"k": 200, "epochs": 200, "cohort_temperature": 0.25},
    ("fb13", "transe"): {"k": 200, "epochs": 120, "training_eta": 50},
}


def _cohort(temperature: float) -> dict[str, Any]:
    """Scores are normalised by half of the level of a predicate's objects."""
    return {"cohort_weight": 0.5, "cohort_temperature": temperature}


# What searches on validation have found for a data set, model and loss.
_FOUND: dict[tuple[str, str, str], dict[str, Any]] = {
    ("wn11", "transe", "self_adversarial"): {"loss_options": {"margin": 1.5}} | _cohort(0.5),
    ("wn11", "transe", "nll"): _cohort(0.5),
    ("wn11", "distmult", "multiclass_nll"): {
        "epochs": 39,
        "training_eta": 34,
        "learning_rate": 0.0901,
        "lp_weight": 0.115,
    },
    ("wn11", "complex", "multiclass_nll"): {"epochs": 96} | _cohort(1.0),
    ("wn11", "hole", "pairwise"): {"epochs": 24, "training_eta": 12, "learning_rate": 0.131, "lp_weight": 6.87},
    ("fb13", "transe", "self_adversarial"): {"loss_options": {"margin": 4.0}} | _cohort(0.5),
    ("fb13", "distmult", "multiclass_nll"): {"epochs": 16} | _cohort(1.0),
    ("fb13", "complex", "multiclass_nll"): {"epochs": 16} | _cohort(1.0),
    ("fb13", "hole", "pairwise"): {"epochs": 16},
}
# TransE by the losses that compare a positive with its own corruptions alone, which have no other end than to know the
# training triples by heart.
_TRANSE: dict[str, dict[str, Any]] = {
    "pairwise": {"learning_rate": 2e-3, "lp_weight": 5.0, "lp_power": 3},
    "multiclass_nll": {"learning_rate": 2e-3, "lp_weight": 1.0, "lp_power": 3},
}
# Dot products want a large step and a regulariser that draws unused numbers to zero: without it they learn WN11 by
# heart and know nothing of its held-out splits. How strong it is goes with how steep the loss is (docs/decisions/0005).
_LP_WEIGHT = {"self_adversarial": 0.015, "nll": 0.05, "multiclass_nll": 0.1, "pairwise": 1.0}
_LP_WEIGHT_OF_TYPED = _LP_WEIGHT | {"multiclass_nll": 0.05}
_LP_FACTOR = {"hole": 5.0}  # its numbers are sums over frequencies
_CAREFUL = {("hole", "self_adversarial"), ("hole", "nll")}  # a third of the step, two and a half times as many
# For ranks, a step compares its positives with a thousand entities that they share, each side by itself.
_LINK_PREDICTION: dict[str, Any] = {
    "k": 200,
    "training_eta": 1000,
    "batch_size": 512,
    "chunk_size": 512,
    "sides_apart": True,
    "learning_rate": 0.03,
    "lp_weight": 0.1,
    "lp_power": 3,
}


def tuned(name: str, configs: PipelineConfigs, given: Collection[str] | None = None) -> PipelineConfigs:
    """How the preset trains and calibrates on a data set, with the given settings in the place of the preset's.

    name   of a preset, or `none`: the settings as they are
    given  names of the settings that are given; None = those that differ from their defaults

    Raises InputError for an unknown preset, and for a model or loss that `best` and `paper` do not know; `default`
    leaves the settings of such as they are.
    """
    if name == NONE:
        return configs
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}: known are {', '.join((*PRESETS, NONE))}")
    dataset, train = configs.prepare.dataset, configs.train
    if given is None:
        given = [*_changed(train), *_changed(configs.corrupt), *_changed(configs.calibrate)]
    chosen = not {"loss", "loss_options"}.isdisjoint(given)
    losses = {} if name == "paper" else _LOSS
    loss = train.loss if chosen else losses.get((dataset, train.model), train.loss)
    if name != "default" or (train.model in MODELS and loss in _LP_WEIGHT):
        ours = preset(name, dataset, train.model, loss)
        train = replace(_merged(ours, train, given), loss_options=ours.loss_options | train.loss_options)
    corrupt = _PAPER_CORRUPTIONS if name == "paper" else CorruptConfig()
    calibrate = CalibrateConfig(calibrators=_BEST_CALIBRATORS) if name == "best" else CalibrateConfig()
    return replace(
        configs,
        train=train,
        corrupt=_merged(corrupt, configs.corrupt, given),
        calibrate=_merged(calibrate, configs.calibrate, given),
    )


def _changed(settings: Config) -> list[str]:
    """Names of the settings that differ from their defaults."""
    usual = type(settings)()
    return [item.name for item in fields(settings) if getattr(settings, item.name) != getattr(usual, item.name)]


def _merged(ours: C, settings: C, given: Collection[str]) -> C:
    """Ours, with what is given."""
    names = [item.name for item in fields(settings)]
    return replace(ours, **{name: getattr(settings, name) for name in names if name in given})


def preset(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
    """How the preset trains one of the paper's four models with one of its losses on a data set.

    Raises InputError for an unknown preset, and for a model or loss that presets do not know.
    """
    if model not in MODELS or loss not in _LP_WEIGHT:
        raise InputError(
            f"no preset knows {model} with {loss}: they know {', '.join(MODELS)} with {', '.join(_LP_WEIGHT)}"
        )
    if name == "paper":
        return _paper(dataset, model, loss)
    found = replace(_default(dataset, model, loss), **_FOUND.get((dataset, model, loss), {}))
    if name == "default":
        return found
    if name == "best":
        return replace(found, **_BEST.get((dataset, model), {}))
    raise InputError(f"there is no preset {name!r}: known are {', '.join(PRESETS)}")


def _paper(dataset: str, model: str, loss: str) -> TrainConfig:
    rows, batches = _PAPER_BATCHES.get(dataset, (0, 64))
    base = _PAPER_LINK_PREDICTION.get(dataset) or TrainConfig(
        k=100, training_eta=20, epochs=1000, learning_rate=1e-4, batch_size=-(-rows // batches) if rows else 1152
    )
    model = "hole_complex" if model == "hole" else model
    return replace(base, model=model, loss=loss, chunk_size=1, learning_rate_end=1.0)


def _default(dataset: str, model: str, loss: str) -> TrainConfig:
    config = TrainConfig(model=model, loss=loss, **_TRAINING_CORRUPTIONS.get(dataset, {}))
    if model == "transe":
        return replace(config, epochs=_EPOCHS_OF_DISTANCES.get(dataset, config.epochs), **_TRANSE.get(loss, {}))
    config = replace(config, epochs=_EPOCHS.get(dataset, 30))
    if dataset in _PAPER_LINK_PREDICTION:
        return replace(config, **_LINK_PREDICTION)
    weight = (_LP_WEIGHT_OF_TYPED if dataset in _TRAINING_CORRUPTIONS else _LP_WEIGHT)[loss] * _LP_FACTOR.get(
        model, 1.0
    )
    config = replace(config, learning_rate=0.1, lp_weight=weight, lp_power=3)
    careful = (model, loss) in _CAREFUL
    return replace(config, learning_rate=0.03, epochs=config.epochs * 5 // 2) if careful else config
