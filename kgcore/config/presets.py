"""Presets: named values for the settings that are not given.

paper    the protocol of the published numbers: every positive draws its own uniform corruptions, Adam has a constant
         step size, 1,000 epochs or more, the published number of batches per epoch. Days on a laptop
default  what this project recommends: minutes on a laptop, and better proper scores
best     slower, with the best proper scores on validation that we know; also calibrates each relation separately
none     no preset: a setting that is not given has its default

What is given wins, then the preset, then the default.
"""

from dataclasses import dataclass, replace

from kgcore.config import recipes
from kgcore.config.given import CalibrateGiven, CorruptGiven, PipelineGiven, TrainGiven
from kgcore.config.recipes import LOSSES, MODELS
from kgcore.config.stages import PipelineConfigs, TrainConfig
from kgcore.errors import InputError

__all__ = ["MODELS", "NONE", "PRESETS", "Resolved", "preset", "resolve"]

PRESETS = ("default", "best", "paper")
NONE = "none"


@dataclass(frozen=True)
class Resolved:
    """The settings of a pipeline and where they came from.

    configs  every setting
    preset   the preset that was used, or `none`
    filled   the settings that the preset decided, even where its value is the default: those that it has a value for
             and that were not given. `loss_options` is one of them if the preset decided any option
    """

    configs: PipelineConfigs
    preset: str
    filled: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, str]:
        """The MLflow parameters of a run: `preset`, and `preset.filled` with commas between the names, or `none`."""
        return {"preset": self.preset, "preset.filled": ",".join(self.filled) or NONE}


def resolve(preset: str, given: PipelineGiven) -> Resolved:
    """Decide every setting of a pipeline: what is given wins, then the preset, then the default.

    preset  name of a preset, or `none`

    Where the loss is not given, the preset decides it, unless options of a loss are given: these belong to the default
    loss. Raises InputError for an unknown preset, for settings that contradict each other, and for a model or loss that
    `best` and `paper` have no settings for; for such a model or loss `default` decides nothing.
    """
    if preset not in (*PRESETS, NONE):
        raise InputError(f"unknown preset {preset!r}: the known ones are {', '.join((*PRESETS, NONE))}")
    usual = given.over(PipelineConfigs())
    decided = PipelineGiven() if preset == NONE else _decided(preset, usual, given.train)
    configs = given.over(decided.over(PipelineConfigs()))
    return Resolved(configs, preset, decided.added_to(given))


def _decided(name: str, usual: PipelineConfigs, given: TrainGiven) -> PipelineGiven:
    """What a preset decides.

    usual  the settings without a preset: they name the data set and the model
    """
    dataset, model = usual.prepare.dataset, usual.train.model
    loss_is_open = {"loss", "loss_options"}.isdisjoint(given.given())
    chosen = recipes.DEFAULT_LOSSES.get((dataset, model)) if loss_is_open and name != "paper" else None
    loss, train = chosen or usual.train.loss, TrainGiven(loss=chosen)
    if name != "default" or (model in MODELS and loss in LOSSES):
        train = train.over(_training(name, dataset, model, loss))
    return PipelineGiven(
        train=train,
        corrupt=recipes.PAPER_CORRUPTIONS if name == "paper" else CorruptGiven(),
        calibrate=recipes.BEST_CALIBRATORS if name == "best" else CalibrateGiven(),
    )


def preset(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
    """How the preset trains one of the paper's four models with one of its losses on a data set.

    The model `hole` of `paper` is `hole_complex`, (2/k) ComplEx, as in the published code.

    Raises InputError for an unknown preset, and for a model or loss that the preset has no settings for.
    """
    settings = _training(name, dataset, model, loss)
    model = "hole_complex" if (name, model) == ("paper", "hole") else model
    return replace(settings.over(TrainConfig()), model=model, loss=loss)


def _training(name: str, dataset: str, model: str, loss: str) -> TrainGiven:
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}: the known ones are {', '.join(PRESETS)}")
    if model not in MODELS or loss not in LOSSES:
        raise InputError(
            f"the preset {name} has no settings for {model} with {loss}: it has them for {', '.join(MODELS)} with "
            f"{', '.join(LOSSES)}"
        )
    if name == "paper":
        return recipes.paper(dataset)
    return recipes.default(dataset, model, loss) if name == "default" else recipes.best(dataset, model, loss)
