"""The further models whose scores are evidence: the option `--other-models` of `kgcal run`."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from kgcore.config import ChooseConfig, PipelineConfigs, TrainConfig, presets
from kgcore.errors import InputError
from tasks.jobs.manifest import is_run, resolve
from tasks.stages.evidence import check_others, wants_evidence
from tasks.stages.reference import Context, StageRef
from tasks.stages.train import TRAIN

log = logging.getLogger("kgcal")
Other = TrainConfig | StageRef  # a model to train, or one that was trained


def read_other_models(text: str, resolved: presets.Resolved, given: PipelineConfigs) -> tuple[Other, ...]:
    """Return the further models that a user names.

    text      names of models, and runs as in `resolve`, with commas; empty: none
    resolved  the settings of the pipeline. A model that is named has those of the preset, or of `default` if a race
              chooses the settings of the pipeline's model
    given     the given settings of the pipeline. The further models take over its training seed, and no other setting
              of training

    Raises InputError for an unknown model or run, if the preset has no settings for a model, and for a model with the
    settings of the pipeline's model.
    """
    races = resolved.preset == presets.AUTO
    found: list[Other] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        if is_run(name):
            found.append(resolve("train", name))
            continue
        try:
            own = TrainConfig(model=name, **{key: value for key, value in given.train.given().items() if key == "seed"})
        except InputError as error:
            raise InputError(f"other_models has {name!r}, which is no run and no model: {error}") from error
        others = replace(given, train=own, choose=ChooseConfig())
        settings = presets.resolve("default" if races else resolved.preset, others, races=False).configs.train
        if settings == resolved.configs.train and not races:
            raise InputError(f"other_models has {name}, which is the model itself: name another model")
        found.append(settings)
    return tuple(found)


def check_other_models(others: Sequence[Other], data: StageRef, configs: PipelineConfigs) -> None:
    """Raise InputError if further models would not be used, MismatchError if one has other training triples."""
    if others and not configs.match.candidates and not wants_evidence(data, configs.calibrate, None):
        raise InputError(
            "--other-models needs a calibrator that sees evidence: name boosted_trees among the calibrators, and use "
            "data with at least 1,000 true validation triples and 1,000 that are labelled false, or none, or "
            "--candidates FILE"
        )
    check_others(data, [other for other in others if isinstance(other, StageRef)])


def trained_others(others: Sequence[Other], chosen: TrainConfig, data: StageRef, context: Context) -> list[StageRef]:
    """Train the further models that are not trained yet, on the graph of a prepare run. Return their train runs.

    chosen  settings of the pipeline's model. If a race has chosen those of a further model, that one is left out
    """
    if chosen in others:
        log.warning("the race chose the settings of the further model %s: it is no evidence", chosen.model)
    wanted = [other for other in others if other != chosen]
    return [other if isinstance(other, StageRef) else TRAIN(data, config=other, context=context) for other in wanted]
