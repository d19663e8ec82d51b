"""The ensemble of the best contenders of a race: the option `--ensemble` of `kgcal run`."""

from dataclasses import replace

from kgcore.config import EnsembleConfig, PipelineConfigs
from kgcore.config.choices import MODEL_ONLY
from kgcore.config.race import RaceConfig
from kgcore.errors import InputError
from kgcore.report.ensemble_summary import EnsembleSummary
from kgcore.report.summary import PipelineSummary
from tasks.jobs.ensemble import ensemble_models, ensemble_summary
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.choose import best_settings
from tasks.stages.corrupt import CORRUPT
from tasks.stages.reference import Context, StageRef
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN

FEWEST = 2


def check_number(number: int, configs: PipelineConfigs) -> None:
    """Raise InputError if the best contenders of this pipeline cannot form an ensemble of `number` models."""
    if number < FEWEST:
        raise InputError(f"--ensemble is {number}: an ensemble has at least {FEWEST} models")
    if not isinstance(configs.choose, RaceConfig):
        raise InputError(
            "--ensemble pools the best contenders of a race, and this pipeline has no race: add --preset auto, or pool "
            "the runs that you name with kgcal ensemble"
        )
    if configs.match.candidates:
        raise InputError(
            "--ensemble and --candidates cannot be used together: each model would have its own mixture of corruptions"
        )
    if found := sorted(MODEL_ONLY.intersection(configs.corrupt.calibration_strategy)):
        raise InputError(
            f"--ensemble cannot be used with the strategy {found[0]}: it draws other corruptions for each model, and "
            "the members of an ensemble must have the same"
        )


def ensemble_of_best(
    number: int, summary: PipelineSummary, configs: PipelineConfigs, context: Context
) -> EnsembleSummary:
    """Train and calibrate the best contenders of a finished pipeline's race, and pool them. Return the results.

    number   number of models, if the race has so many contenders that have not failed. The first one is the model of
             the pipeline
    configs  the settings of the pipeline. The first of its calibrators calibrates the members, and the ensemble

    Raises InputError if the race has only one such contender.
    """
    context = replace(context, parent=summary.pipeline)
    data = StageRef("prepare", summary.runs["prepare"])
    members = [StageRef("calibrate", summary.runs["calibrate"])]
    for settings in best_settings(StageRef("choose", summary.runs["choose"]), number)[1:]:
        model = TRAIN(data, config=settings, context=context)
        corruptions = CORRUPT(data, model, config=configs.corrupt, context=context)
        scores = SCORE(model, corruptions, context=context)
        members.append(CALIBRATE(scores, None, config=configs.calibrate, context=context))
    first = configs.calibrate.calibrators[0]
    pooling = EnsembleConfig(member_calibrator=first, recalibrator=first)
    return ensemble_summary(ensemble_models(members, pooling, context))
