"""Recalibration: finds the model and settings of an earlier run, and opens the MLflow run for the new stages.

Only a recalibration uses `add_labels` in stages/prepare.py, `adopt_model` in stages/train.py and `move_calibrators` in
stages/calibrate.py.
"""

import logging
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from kgcore.base_rate import ESTIMATED, STATED, BaseRate
from kgcore.config import (
    EXAM_SHARE,
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    EvidenceConfig,
    MatchConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
)
from kgcore.config.jobs import ImportedModel
from kgcore.errors import InputError
from kgcore.workers import find_device
from tasks.jobs.manifest import resolve
from tasks.jobs.pipeline import at_stated, base_rate_of, open_work, pipeline_settings
from tasks.stages.calibrate import completeness_of
from tasks.stages.evidence import other_models
from tasks.stages.match import check_file
from tasks.stages.running import IMPORTED, StageRef, config_of, loss_of
from tasks.tracking.artifacts import GRAPH_WITHOUT_TEST
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.registry import CHAMPION, aliased
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")


def dataset_of(trained: StageRef) -> str:
    """Return the name of the data set of a train run."""
    store = open_store()
    return store.get(store.get(trained.run_id).tags.inputs["prepare"]).dataset.name


def model_and_settings(
    text: str,
    base_rate: BaseRate | None,
    candidates: str = "",
    exam_share: float = EXAM_SHARE,
) -> tuple[StageRef, PipelineConfigs]:
    """Return the train run that `text` names, and the settings for the stages after it.

    text       a run, a model's URI or `latest`: see `resolve`
    base_rate  base rate to use instead of the earlier one; None: the earlier one
    candidates file of candidates, or held-out split; '': none. An earlier base rate that was estimated is estimated
               again for them
    exam_share share of the candidates' labels that belong to the exam, in [0, 1)

    The settings come from the newest evaluation of the calibrators that `text` names. If `text` names no calibrators,
    or they were never evaluated, the settings come from the newest evaluation of the model. If the model was never
    evaluated, they are the defaults.

    Raises InputError as `resolve` does, or if the base rate is out of range.
    """
    store, trained = open_store(), resolve("train", text)
    wanted = [RunTags(stage="evaluate", inputs={"train": trained.run_id})]
    with suppress(InputError):  # `text` names no calibrators
        wanted.insert(0, RunTags(stage="evaluate", inputs={"calibrate": resolve("calibrate", text).run_id}))
    found = next((runs[0] for tags in wanted if (runs := store.find(tags))), None)
    settings = _settings(store, found) if found else PipelineConfigs()
    if base_rate is not None or (candidates and settings.calibrate.rate.origin == ESTIMATED):
        settings = replace(settings, calibrate=settings.calibrate.at(base_rate))
    if candidates:
        match = settings.match.replace(candidates=candidates, match_exam_share=exam_share)
        settings = replace(settings, match=match)
    return trained, settings.at_base_rate()


def calibrators_of(text: str) -> StageRef | None:
    """Return the calibrate run that `text` names; None if `text` names a model without calibrators."""
    with suppress(InputError):
        return resolve("calibrate", text)
    return None


def other_models_of(text: str) -> list[StageRef]:
    """Return the train runs of the further models whose scores are evidence in the calibrate run that `text` names."""
    fitted = calibrators_of(text)
    inputs = open_store().get(fitted.run_id).tags.inputs if fitted else {}
    return [StageRef("train", run_id) for run_id in other_models(inputs)]


def note_candidates(text: str) -> None:
    """Log that the run that `text` names was calibrated to candidates, and that new fits are not; else do nothing."""
    with suppress(InputError):
        matched = open_store().get(resolve("match", text).run_id)
        log.info(
            "run %s was calibrated to the candidates of %s: to calibrate to them again, add --candidates FILE",
            text,
            matched.tags.candidates,
        )


def _settings(store: Store, evaluation: RunRecord) -> PipelineConfigs:
    """Return the settings of the stages between training and an evaluation, and of the evaluation.

    Those of the candidates are without the file, whose path is not known.
    """
    runs = {stage: store.known(run_id) for stage, run_id in evaluation.lineage.items()}
    match = config_of(MatchConfig, runs["match"]) if "match" in runs else MatchConfig()
    return PipelineConfigs(
        corrupt=config_of(CorruptConfig, runs["corrupt"]),
        calibrate=config_of(CalibrateConfig, runs["calibrate"]).replace(
            completeness=completeness_of(runs["calibrate"])
        ),
        classify=config_of(ClassifyConfig, runs["classify"]),
        evaluate=config_of(EvaluateConfig, evaluation),
        match=match.replace(candidates=None),
        evidence=config_of(EvidenceConfig, runs["evidence"]) if "evidence" in runs else EvidenceConfig(),
    )


def at_rate_of_labels(configs: PipelineConfigs, data: StageRef, run_id: str) -> PipelineConfigs:
    """Return the settings at the base rate that new labels estimate, and log it to the run of the recalibration.

    data  the prepare run with the labels: see `with_labels`

    A base rate that is stated stays, and so does one that candidates estimate.
    """
    if not _labels_say_rate(configs):
        return configs
    store = open_store()
    if (estimate := store.load(data.run_id, GRAPH_WITHOUT_TEST).labelled_base_rate) is not None:
        configs = replace(configs, calibrate=configs.calibrate.at(estimate)).at_base_rate()
    rate = configs.calibrate.rate
    store.log_params(run_id, {"base_rate": rate.value, "base_rate_is": rate.origin})
    return configs


def note_champion(dataset: str) -> None:
    """Log that the champion of a data set still answers, if there is one."""
    if champion := aliased(open_store(), dataset, CHAMPION):
        log.info(
            "the champion %s still answers: `kgcal promote --dataset %s` compares it with the new calibrators",
            champion.uri,
            dataset,
        )


def _labels_say_rate(configs: PipelineConfigs) -> bool:
    return not configs.match.candidates and configs.calibrate.rate.origin != STATED


def recalibration_run(
    model: StageRef,
    configs: PipelineConfigs,
    labels: Path | None,
    instead: bool,
    device: str,
    flow_run: str | None = None,
) -> AbstractContextManager[str]:
    """Open the MLflow run of a pipeline that trains no model, with every setting as a parameter; `with` gives its id.

    model     the train run whose model is recalibrated
    labels    file of newly labelled triples; None: none
    instead   whether the labelled triples replace the validation split
    flow_run  id of the Prefect flow run; a retry of the flow run resumes the same MLflow run

    Raises InputError, before any run is opened, for labels or a device that cannot be used.
    """
    from kgcore.data.datasets.labels import read_labels

    if instead and labels is None:
        raise InputError("--instead needs --labels FILE: the labelled triples that replace the validation split")
    if labels is not None:
        read_labels(labels)
    if configs.match.candidates:
        check_file(configs.match)
    find_device(device)
    store = open_store()
    trained = store.finished("train", model.run_id)
    prepare = config_of(PrepareConfig, store.known(trained.tags.inputs["prepare"]))
    train = config_of(TrainConfig, trained)
    params = pipeline_settings(replace(configs, prepare=prepare, train=train)) | (
        {"labels": labels.name} if labels else {}
    )
    if labels and _labels_say_rate(configs):
        params = {name: value for name, value in params.items() if name not in ("base_rate", "base_rate_is")}
    loss = loss_of(trained)
    if loss == IMPORTED:  # the settings of its training are not known
        unknown = train.parameters().keys() - ImportedModel.model_fields.keys()
        params = {name: value for name, value in params.items() if name not in unknown}
    title = f"recalibrate {prepare.dataset} {train.model} {loss}{at_stated(configs.calibrate.rate)}"
    tags = RunTags(stage="pipeline", model=model.run_id, base_rate=base_rate_of(configs), flow_run=flow_run)
    return open_work(title, tags, params)
