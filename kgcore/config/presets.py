"""Presets: sets of values, each with a name, for the settings that the user does not give.

paper    the training of the paper: every positive draws its own uniform corruptions, Adam has a constant step size,
         training has 1,000 epochs or more, and an epoch has as many batches as in the published code. It takes days on
         a laptop. It also has the calibrators of the paper
default  the recommendation of this project. It takes minutes on a laptop and gives better proper scores than `paper`
auto     a race on the validation split chooses the model, the loss and the training settings for the graph
best     slower than `default`, with the best known proper scores on validation
none     no preset: a setting that is not given has its default

Without a preset, data sets whose settings were found for them have `default`, and every other graph has `auto`. A given
value has priority over the preset, and the preset has priority over the default.
"""

from dataclasses import dataclass, fields, replace

from kgcore.config import recipes
from kgcore.config.calibrate import ASSUMED_BASE_RATE
from kgcore.config.entries import RaceConfig
from kgcore.config.given import BY_PRESET, CalibrateGiven, CorruptGiven, PipelineGiven, TrainGiven
from kgcore.config.pipeline import PipelineConfigs
from kgcore.config.recipes import LOSSES, MODELS
from kgcore.config.stages import TrainConfig
from kgcore.errors import InputError

__all__ = ["AUTO", "CHOICES", "MODELS", "NONE", "PRESETS", "WITHOUT_RACE", "Resolved", "preset", "resolve"]

PRESETS = ("default", "best", "paper")
AUTO = "auto"
NONE = "none"
WITHOUT_RACE = (*PRESETS, NONE)
CHOICES = (AUTO, *WITHOUT_RACE)


@dataclass(frozen=True)
class Resolved:
    """The settings of a pipeline and their origin.

    configs  every setting
    preset   the preset that was used, or `none`
    filled   names of the settings that the preset decided, because the user did not give them. The preset's value may
             equal the default. `loss_options` is included if the preset decided at least one option of the loss
    """

    configs: PipelineConfigs
    preset: str
    filled: tuple[str, ...]

    @property
    def parameters(self) -> dict[str, str]:
        """Return the MLflow parameters `preset` and `preset.filled`: the names in `filled` with commas, or `none`."""
        return {"preset": self.preset, "preset.filled": ",".join(self.filled) or NONE}


def resolve(preset: str | None, given: PipelineGiven, races: bool = True) -> Resolved:
    """Decide every setting of a pipeline: a given value has priority, then the preset, then the default.

    preset  name of a preset, or `none`; None: not given
    races   whether the caller can run a race. If not, `default` is the preset that is not given

    With `auto`, the settings of training are those of `default` until the race has chosen others, and `choose` is a
    RaceConfig.

    With a split by cold entities, calibration corrupts only the other side, unless the user says which. So all
    corruptions have a cold entity, as the positives have: otherwise the entity alone would tell them apart.

    All presets have learning rates for Adam. With another optimiser, a learning rate that is not given is that of the
    optimiser: see `recipes.LEARNING_RATES`.

    The preset can decide the loss only if neither the loss nor its options are given. If options are given without a
    loss, they are options of the default loss. If the preset `default` has no settings for the model or loss, it
    decides no setting of the training.

    Raises InputError if the preset is unknown, if it is `auto` and the caller cannot run a race, if a time limit is
    given without a race, if settings contradict each other, or if `best` or `paper` has no settings for the model or
    loss.
    """
    rate = recipes.LEARNING_RATES.get(given.over(PipelineConfigs()).train.optimiser)
    if rate is not None:
        given = replace(given, train=given.train.over(TrainGiven(learning_rate=rate)))
    if warm := given.over(PipelineConfigs()).prepare.split_rule.other_side:  # so that corruptions keep the cold entity
        given = replace(given, corrupt=given.corrupt.over(CorruptGiven(calibration_sides=warm)))
    usual = given.over(PipelineConfigs())
    if preset is None:
        preset = AUTO if races and usual.prepare.dataset not in recipes.DATASETS else "default"
    known = CHOICES if races else WITHOUT_RACE
    if preset not in known:
        raise InputError(f"unknown preset {preset!r}: the known ones are {', '.join(known)}")
    if preset == AUTO:
        return _with_race(given, usual)
    if usual.choose.minutes:
        raise InputError(f"minutes is {usual.choose.minutes:g}: only the race of the preset auto has a time limit")
    decided = PipelineGiven() if preset == NONE else _decided(preset, usual, given.train)
    configs = given.over(decided.over(PipelineConfigs()))
    return Resolved(configs, preset, decided.added_to(given))


def _with_race(given: PipelineGiven, usual: PipelineConfigs) -> Resolved:
    """Return the settings of a pipeline in which a race chooses the settings of training."""
    decided = _decided("default", usual, given.train)
    configs = given.over(decided.over(PipelineConfigs()))
    race = RaceConfig(
        **vars(configs.choose),
        given=given.train,
        usual=configs.train,
        corrupt=replace(configs.corrupt, for_base_rate=ASSUMED_BASE_RATE),
    )
    open_settings = BY_PRESET - given.train.given().keys()
    by_race = (item.name for item in fields(TrainGiven) if item.name in open_settings)
    others = replace(decided, train=TrainGiven()).added_to(given)
    return Resolved(replace(configs, choose=race), AUTO, (*by_race, *others))


def _decided(name: str, usual: PipelineConfigs, given: TrainGiven) -> PipelineGiven:
    """Return the settings that a preset decides.

    usual  the settings without a preset, from which the data set, the model and the loss are known
    given  the training settings that the user gives
    """
    dataset, model = usual.prepare.dataset, usual.train.model
    loss_is_open = {"loss", "loss_options"}.isdisjoint(given.given())
    if usual.prepare.given_confidence and loss_is_open and name != "paper" and model in recipes.CONFIDENCES:
        return PipelineGiven(train=recipes.CONFIDENCES[model])
    chosen = recipes.DEFAULT_LOSSES.get((dataset, model)) if loss_is_open and name != "paper" else None
    loss, train = chosen or usual.train.loss, TrainGiven(loss=chosen)
    if name != "default" or (model in MODELS and loss in LOSSES):
        train = train.over(_training(name, dataset, model, loss))
    if name == "paper":
        return PipelineGiven(train=train, corrupt=recipes.PAPER_CORRUPTIONS, calibrate=recipes.PAPER_CALIBRATORS)
    corrupt = recipes.CORRUPTIONS.get(dataset, CorruptGiven())
    calibrate = recipes.BEST_CALIBRATORS if name == "best" else CalibrateGiven()
    return PipelineGiven(train=train, corrupt=corrupt, calibrate=calibrate)


def preset(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
    """Return the training settings of a preset for a data set, one of the paper's four models and one of its losses.

    The preset `paper` replaces the model `hole` by `hole_complex`, which is (2/k) ComplEx, as in the published code.

    Raises InputError if the preset is unknown, or if it has no settings for the model or loss.
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
