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

docs/decisions/0001-paper-and-code.md and 0005-presets.md give the sources of the values, and the reasons.
"""

from dataclasses import dataclass, replace
from typing import Any

from kgcore.base_rate import BaseRate
from kgcore.config.base import BY_PRESET
from kgcore.config.calibrate import ASSUMED_BASE_RATE, CalibrateConfig, EvidenceConfig, MatchConfig
from kgcore.config.race import RaceConfig
from kgcore.config.stages import (
    ChooseConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PrepareConfig,
    RankConfig,
    TrainConfig,
)
from kgcore.errors import InputError

PRESETS = ("default", "best", "paper")
AUTO = "auto"
NONE = "none"
WITHOUT_RACE = (*PRESETS, NONE)
CHOICES = (AUTO, *WITHOUT_RACE)


# data sets whose settings were found for them; the others have the race of the preset `auto`
DATASETS = ("wn11", "fb13", "yago39k", "wn18rr", "fb15k-237", "family")
MODELS = ("transe", "distmult", "complex", "hole")

# paper: training rows and batches per epoch of the published code
_PAPER_BATCHES = {"wn11": (110_361, 64), "fb13": (316_232, 32), "yago39k": (354_996, 64)}
_PAPER_PROTOCOL = TrainConfig(
    training_strategy={"uniform": 1.0},
    training_sides="both",
    chunk_size=1,
    learning_rate_end=1.0,
    initialiser="glorot",
)
_PAPER_LINK_PREDICTION = {
    "fb15k-237": TrainConfig(
        k=350,
        training_eta=30,
        epochs=4000,
        learning_rate=5e-5,
        batch_size=-(-272_115 // 64),
        lp_weight=1e-4,
        lp_power=2.0,
    ),
    "wn18rr": TrainConfig(
        k=200,
        training_eta=20,
        epochs=4000,
        learning_rate=5e-4,
        batch_size=-(-86_835 // 10),
        lp_weight=0.05,
        lp_power=3.0,
    ),
}
PAPER_CORRUPTIONS = CorruptConfig(
    calibration_strategy={"uniform": 1.0}, calibration_sides="both", calibration_filtered=False, calibration_eta="20"
)
# default and best: the rule with which the results on the paper's labelled data sets were published
# (docs/decisions/0012-defaults.md)
_USUAL_MISTAKES = CorruptConfig(calibration_strategy={"typed": 0.9, "uniform": 0.1})
CORRUPTIONS = dict.fromkeys(("wn11", "fb13", "yago39k"), _USUAL_MISTAKES)
PAPER_CALIBRATORS = CalibrateConfig(calibrators=("platt", "isotonic"))

# default: the loss for a data set and model, if it is better than the usual loss
DEFAULT_LOSSES = {
    ("wn11", "distmult"): "multiclass_nll",
    ("wn11", "complex"): "multiclass_nll",
    ("wn11", "hole"): "pairwise",
    ("fb13", "distmult"): "multiclass_nll",
    ("fb13", "complex"): "multiclass_nll",
    ("fb13", "hole"): "pairwise",
}
# The labelled negatives of these data sets have entities that fit the predicate, so typed corruptions resemble them
_CORRUPTIONS_LIKE_NEGATIVES = {
    "fb13": TrainConfig(training_strategy={"typed": 1.0}, training_sides="bernoulli"),
    "yago39k": TrainConfig(training_strategy={"typed": 0.5, "uniform": 0.5}),
}
# Data sets with more training triples need fewer epochs
_EPOCHS = {"wn11": 12, "fb13": 8, "yago39k": 8, "fb15k-237": 15, "wn18rr": 25}
_EPOCHS_OF_TRANSE = {"wn11": 100, "fb13": 30, "yago39k": 15}
# These losses compare a positive only with its own corruptions. With them, TransE needs a strong regulariser, or it
# overfits
_TRANSE_BY_LOSS = {
    "pairwise": TrainConfig(learning_rate=2e-3, lp_weight=5.0, lp_power=3.0),
    "multiclass_nll": TrainConfig(learning_rate=2e-3, lp_weight=1.0, lp_power=3.0),
}
# DistMult, ComplEx and HolE need a large step size and a regulariser. Without the regulariser they overfit WN11. A
# steeper loss needs a stronger regulariser (docs/decisions/0005-presets.md)
_LP_WEIGHTS = {"self_adversarial": 0.015, "nll": 0.05, "multiclass_nll": 0.1, "pairwise": 1.0}
_LP_WEIGHTS_LIKE_NEGATIVES = _LP_WEIGHTS | {"multiclass_nll": 0.05}
_LP_FACTORS = {"hole": 5.0}  # the embeddings of HolE are sums over frequencies
_SLOW = {("hole", "self_adversarial"), ("hole", "nll")}  # a third of the step size, two and a half times the epochs
# For good ranks, each step compares its positives with a thousand shared entities, for each side separately
_LINK_PREDICTION = TrainConfig(
    k=200,
    training_eta=1000,
    batch_size=512,
    chunk_size=512,
    sides_apart=True,
    learning_rate=0.03,
    lp_weight=0.1,
    lp_power=3.0,
)


def _cohort(temperature: float, **settings: Any) -> TrainConfig:
    """Return settings with a cohort weight of 0.5, which subtracts half of the cohort level from a score."""
    return TrainConfig(cohort_weight=0.5, cohort_temperature=temperature, **settings)


# The learning rates of the presets are Adam's. TransE with row-wise Adagrad and this one has at most the Brier score of
# Adam on family and on WN11. With DistMult and ComplEx, no rate was found that comes near Adam's
LEARNING_RATES = {"adagrad": 0.2}
# default and best, for triples with confidences: settings of models whose score can be any number, unless the loss is
# given (docs/explanation/confidences.md). Other models keep the usual loss, which also fits confidences
CONFIDENCES = dict.fromkeys(
    ("distmult", "complex", "hole"), TrainConfig(loss="confidence", epochs=10, learning_rate=0.01)
)

# default: results of searches on the validation split, for a data set, model and loss; with fb15k-237 and
# wn18rr, of the race
_FOUND = {
    ("wn11", "transe", "self_adversarial"): _cohort(0.5, loss_options={"margin": 1.5}),
    ("wn11", "transe", "nll"): _cohort(0.5),
    ("wn11", "distmult", "multiclass_nll"): TrainConfig(
        epochs=39, training_eta=34, learning_rate=0.0901, lp_weight=0.115
    ),
    ("wn11", "complex", "multiclass_nll"): _cohort(1.0, epochs=96),
    ("wn11", "hole", "pairwise"): TrainConfig(epochs=24, training_eta=12, learning_rate=0.131, lp_weight=6.87),
    ("fb13", "transe", "self_adversarial"): _cohort(0.5, loss_options={"margin": 4.0}),
    ("fb13", "distmult", "multiclass_nll"): _cohort(1.0, epochs=16),
    ("fb13", "complex", "multiclass_nll"): _cohort(1.0, epochs=16),
    ("fb13", "hole", "pairwise"): TrainConfig(epochs=16),
    ("fb15k-237", "transe", "self_adversarial"): _cohort(
        0.5, epochs=74, training_strategy={"typed": 0.5, "uniform": 0.5}
    ),
    ("wn18rr", "transe", "self_adversarial"): _cohort(0.5),
}

# best: settings in addition to default, of training and of calibrators that see evidence
_BEST = {
    ("wn11", "transe"): TrainConfig(k=200, epochs=200, cohort_temperature=0.25),
    ("fb13", "transe"): TrainConfig(k=200, epochs=120, training_eta=50),
}
BEST_CALIBRATORS = CalibrateConfig(combine_rounds=3)
LOSSES = tuple(_LP_WEIGHTS)


def paper(dataset: str) -> TrainConfig:
    """Return the training settings of the preset `paper` for a data set."""
    rows, batches = _PAPER_BATCHES.get(dataset, (0, 64))
    usual = TrainConfig(
        k=100, training_eta=20, epochs=1000, learning_rate=1e-4, batch_size=-(-rows // batches) if rows else 1152
    )
    return _PAPER_PROTOCOL.over(_PAPER_LINK_PREDICTION.get(dataset, usual))


def default(dataset: str, model: str, loss: str) -> TrainConfig:
    """Return the training settings of the preset `default` for a data set, one of MODELS and one of LOSSES."""
    found = _FOUND.get((dataset, model, loss), TrainConfig())
    return found.over(_transe(dataset, loss) if model == "transe" else _dot_product(dataset, model, loss))


def best(dataset: str, model: str, loss: str) -> TrainConfig:
    """Return the training settings of the preset `best` for a data set, one of MODELS and one of LOSSES."""
    return _BEST.get((dataset, model), TrainConfig()).over(default(dataset, model, loss))


def _transe(dataset: str, loss: str) -> TrainConfig:
    corruptions = _CORRUPTIONS_LIKE_NEGATIVES.get(dataset, TrainConfig())
    epochs = TrainConfig(epochs=_EPOCHS_OF_TRANSE[dataset]) if dataset in _EPOCHS_OF_TRANSE else TrainConfig()
    return _TRANSE_BY_LOSS.get(loss, TrainConfig()).over(epochs.over(corruptions))


def _dot_product(dataset: str, model: str, loss: str) -> TrainConfig:
    corruptions = _CORRUPTIONS_LIKE_NEGATIVES.get(dataset, TrainConfig())
    epochs = _EPOCHS.get(dataset, 30)
    if dataset in _PAPER_LINK_PREDICTION:
        return _LINK_PREDICTION.over(TrainConfig(epochs=epochs).over(corruptions))
    weights = _LP_WEIGHTS_LIKE_NEGATIVES if dataset in _CORRUPTIONS_LIKE_NEGATIVES else _LP_WEIGHTS
    weight = weights[loss] * _LP_FACTORS.get(model, 1.0)
    rate, epochs = (0.03, epochs * 5 // 2) if (model, loss) in _SLOW else (0.1, epochs)
    return TrainConfig(epochs=epochs, learning_rate=rate, lp_weight=weight, lp_power=3.0).over(corruptions)


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
    rank: RankConfig = RankConfig()

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
    optimiser: see `LEARNING_RATES`.

    The preset can decide the loss only if neither the loss nor its options are given. If options are given without a
    loss, they are options of the default loss. If the preset `default` has no settings for the model or loss, it
    decides no setting of the training.

    Raises InputError if the preset is unknown, if it is `auto` and the caller cannot run a race, if a time limit is
    given without a race, if settings contradict each other, or if `best` or `paper` has no settings for the model or
    loss.
    """
    if (rate := LEARNING_RATES.get(given.train.optimiser)) is not None:
        given = replace(given, train=given.train.over(TrainConfig(learning_rate=rate)))
    if warm := given.prepare.split_rule.other_side:  # so that corruptions keep the cold entity
        given = replace(given, corrupt=given.corrupt.over(CorruptConfig(calibration_sides=warm)))
    if preset is None:
        preset = AUTO if races and given.prepare.dataset not in DATASETS else "default"
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
    if given.prepare.given_confidence and loss_is_open and name != "paper" and model in CONFIDENCES:
        return PipelineConfigs(train=CONFIDENCES[model])
    chosen = DEFAULT_LOSSES.get((dataset, model)) if loss_is_open and name != "paper" else None
    loss, train = chosen or given.train.loss, TrainConfig(loss=chosen) if chosen else TrainConfig()
    if name != "default" or (model in MODELS and loss in LOSSES):
        train = train.over(_training(name, dataset, model, loss))
    if name == "paper":
        return PipelineConfigs(train=train, corrupt=PAPER_CORRUPTIONS, calibrate=PAPER_CALIBRATORS)
    corrupt = CORRUPTIONS.get(dataset, CorruptConfig())
    calibrate = BEST_CALIBRATORS if name == "best" else CalibrateConfig()
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
        return paper(dataset)
    return default(dataset, model, loss) if name == "default" else best(dataset, model, loss)
