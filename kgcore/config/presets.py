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

from dataclasses import dataclass, replace

from kgcore.base_rate import BaseRate
from kgcore.config import recipes
from kgcore.config.calibrate import ASSUMED_BASE_RATE, CalibrateConfig, EvidenceConfig, MatchConfig
from kgcore.config.choices import BY_PRESET
from kgcore.config.race import ChooseConfig, RaceConfig
from kgcore.config.recipes import LOSSES, MODELS
from kgcore.config.stages import ClassifyConfig, CorruptConfig, EvaluateConfig, PrepareConfig, TrainConfig
from kgcore.errors import InputError

__all__ = ["AUTO", "CHOICES", "MODELS", "NONE", "PRESETS", "WITHOUT_RACE", "Resolved", "preset", "resolve"]

PRESETS = ("default", "best", "paper")
AUTO = "auto"
NONE = "none"
WITHOUT_RACE = (*PRESETS, NONE)
CHOICES = (AUTO, *WITHOUT_RACE)


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage.

    match   no candidates: the pipeline has no stage match
    choose  a RaceConfig: a race chooses the settings `train`. Otherwise the pipeline has no stage choose
    """

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    match: MatchConfig = MatchConfig()
    choose: ChooseConfig = ChooseConfig()
    evidence: EvidenceConfig = EvidenceConfig()

    def at_base_rate(self) -> "PipelineConfigs":
        """Return the settings with corruptions and candidates for the base rate of calibration."""
        rate = self.calibrate.rate
        return replace(self, corrupt=self.corrupt.at(rate), match=self.match.at(rate))

    def over(self, others: "PipelineConfigs") -> "PipelineConfigs":
        """Return a copy of `others` in which the values that are given here replace the old ones, as `Config.over`."""
        return PipelineConfigs(**{stage: own.over(getattr(others, stage)) for stage, own in vars(self).items()})

    def added_to(self, other: "PipelineConfigs") -> tuple[str, ...]:
        """Return the names of the settings given here but not in `other`, stage by stage, as `Config.added_to`."""
        return tuple(name for stage, own in vars(self).items() for name in own.added_to(getattr(other, stage)))


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


def resolve(preset: str | None, given: PipelineConfigs, races: bool = True) -> Resolved:
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
    if (rate := recipes.LEARNING_RATES.get(given.train.optimiser)) is not None:
        given = replace(given, train=given.train.over(TrainConfig(learning_rate=rate)))
    if warm := given.prepare.split_rule.other_side:  # so that corruptions keep the cold entity
        given = replace(given, corrupt=given.corrupt.over(CorruptConfig(calibration_sides=warm)))
    if preset is None:
        preset = AUTO if races and given.prepare.dataset not in recipes.DATASETS else "default"
    known = CHOICES if races else WITHOUT_RACE
    if preset not in known:
        raise InputError(f"unknown preset {preset!r}: the known ones are {', '.join(known)}")
    if preset == AUTO:
        return _with_race(given)
    if given.choose.minutes:
        raise InputError(f"minutes is {given.choose.minutes:g}: only the race of the preset auto has a time limit")
    decided = PipelineConfigs() if preset == NONE else _decided(preset, given)
    return Resolved(given.over(decided).at_base_rate(), preset, decided.added_to(given))


def _with_race(given: PipelineConfigs) -> Resolved:
    """Return the settings of a pipeline in which a race chooses the settings of training."""
    decided = _decided("default", given)
    configs = given.over(decided).at_base_rate()
    race = RaceConfig(
        **configs.choose.given(),
        train=given.train,
        usual=configs.train,
        corrupt=configs.corrupt.at(BaseRate(ASSUMED_BASE_RATE)),
    )
    open_settings = BY_PRESET - given.train.given().keys()
    by_race = (name for name in TrainConfig.model_fields if name in open_settings)
    others = replace(decided, train=TrainConfig()).added_to(given)
    return Resolved(replace(configs, choose=race), AUTO, (*by_race, *others))


def _decided(name: str, given: PipelineConfigs) -> PipelineConfigs:
    """Return the settings that a preset decides, for the given data set, model and loss."""
    dataset, model = given.prepare.dataset, given.train.model
    loss_is_open = {"loss", "loss_options"}.isdisjoint(given.train.given())
    if given.prepare.given_confidence and loss_is_open and name != "paper" and model in recipes.CONFIDENCES:
        return PipelineConfigs(train=recipes.CONFIDENCES[model])
    chosen = recipes.DEFAULT_LOSSES.get((dataset, model)) if loss_is_open and name != "paper" else None
    loss, train = chosen or given.train.loss, TrainConfig(loss=chosen) if chosen else TrainConfig()
    if name != "default" or (model in MODELS and loss in LOSSES):
        train = train.over(_training(name, dataset, model, loss))
    if name == "paper":
        return PipelineConfigs(train=train, corrupt=recipes.PAPER_CORRUPTIONS, calibrate=recipes.PAPER_CALIBRATORS)
    corrupt = recipes.CORRUPTIONS.get(dataset, CorruptConfig())
    calibrate = recipes.BEST_CALIBRATORS if name == "best" else CalibrateConfig()
    return PipelineConfigs(train=train, corrupt=corrupt, calibrate=calibrate)


def preset(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
    """Return the training settings of a preset for a data set, one of the paper's four models and one of its losses.

    The preset `paper` replaces the model `hole` by `hole_complex`, which is (2/k) ComplEx, as in the published code.

    Raises InputError if the preset is unknown, or if it has no settings for the model or loss.
    """
    settings = _training(name, dataset, model, loss)
    model = "hole_complex" if (name, model) == ("paper", "hole") else model
    return settings.replace(model=model, loss=loss)


def _training(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
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
