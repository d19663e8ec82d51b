"""The MLflow run of a pipeline: its stages are nested under it, and it has the manifest, summary and report."""

import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from kgcore.base_rate import ESTIMATED, STATED, BaseRate
from kgcore.config import CalibrateConfig, Config, PipelineConfigs, TrainConfig
from kgcore.config.presets import AUTO, NONE
from kgcore.config.race import RaceConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.errors import InputError
from kgcore.measure.report.results import overview
from kgcore.measure.report.summary import PipelineSummary
from kgcore.storage.folders import FORMAT
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.choose import choices_for, chosen_settings
from tasks.stages.match import check_file, identity
from tasks.stages.running import Context, StageRef, as_task, config_of, loss_of
from tasks.stages.train import check_training
from tasks.tracking.artifacts import MANIFEST, PIPELINE_SUMMARY, RACE, REPORT, SUMMARY, save
from tasks.tracking.keys import digest, whole_code_fingerprint
from tasks.tracking.record import EVALUATION, RunRecord, RunTags, short_label
from tasks.tracking.store import Store, open_store
from tasks.workspace.settings import temporary_folder

FIGURES = "figures"  # the folder of figures in the artifacts of a report run


def pipeline_run(
    configs: PipelineConfigs,
    device: str,
    flow_run: str | None = None,
    parent: str | None = None,
    preset: Mapping[str, str] | None = None,
) -> AbstractContextManager[str]:
    """Open the MLflow run of a pipeline, with every setting as a parameter; `with` gives its id.

    device    auto, cpu, cuda or cuda:N
    flow_run  id of the Prefect flow run; a retry of the flow run resumes the same MLflow run
    parent    MLflow run that it is nested under, for a cell of a grid
    preset    further parameters: the name of the preset, and the settings that it sets

    Raises InputError, before any run is opened, for settings or a device that cannot be used.
    """
    further = dict(preset or {})
    params = pipeline_settings(configs) | further
    params["dataset"] = find_dataset(configs.prepare.dataset).name
    if configs.match.candidates:
        check_file(configs.match)
    check_training(configs.train, device)
    key = _key(configs, further.get("other_models", ""))
    tags = RunTags(stage="pipeline", key=key, parent=parent, base_rate=base_rate_of(configs), flow_run=flow_run)
    return open_work(name_of(configs), tags, params)


def name_of(configs: PipelineConfigs) -> str:
    """Return the name of a pipeline's run: data set, model and loss, or `auto` for a race, and a stated base rate.

    Raises InputError if there is no such data set.
    """
    made = AUTO if isinstance(configs.choose, RaceConfig) else f"{configs.train.model} {configs.train.loss}"
    return f"{find_dataset(configs.prepare.dataset).name} {made}{at_stated(configs.calibrate.rate)}"


def at_stated(rate: BaseRate) -> str:
    """Return the end of the name of a run with a stated base rate, such as ` at base rate 0.1`; '' for others."""
    return f" at base rate {rate.figures}" if rate.origin == STATED else ""


@as_task("note_choice")
def note_choice(run_id: str, train: TrainConfig) -> None:
    """Log the training settings that a race has chosen as parameters of the pipeline's run."""
    open_store().log_params(run_id, train.parameters())


@contextmanager
def open_work(title: str, tags: RunTags, params: Mapping[str, object]) -> Iterator[str]:
    """Open the MLflow run of a job that has runs below it, and yield its id.

    A retry of the flow run `tags.flow_run` opens the run of its first attempt again.
    """
    store, tags = open_store(), tags.of_dataset(params)
    earlier = store.find(RunTags(flow_run=tags.flow_run), status=None) if tags.flow_run else []
    with store.open_run(title, tags, earlier[0].run_id if earlier else None) as run_id:
        store.log_params(run_id, params)
        yield run_id


def all_settings(configs: Mapping[str, Config]) -> dict[str, object]:
    """Return every setting of these configs by its name, without those that are not given."""
    named = (item for config in configs.values() for item in config.parameters().items())
    return {name: value for name, value in named if value is not None}


def pipeline_settings(configs: PipelineConfigs) -> dict[str, object]:
    """Return every setting of a pipeline by its name, without those that are not given.

    Of the file of candidates, only the name is a setting. A base rate that is not estimated yet is left out, and so are
    the settings of training if a race chooses them.
    """
    candidates = configs.match.candidates
    races = isinstance(configs.choose, RaceConfig)
    left_out = {"train" if races else "choose", *(() if candidates else ("match",))}
    settings = all_settings({name: config for name, config in vars(configs).items() if name not in left_out})
    if candidates:
        settings["candidates"] = Path(candidates).name
    if _is_estimated(configs):
        settings.pop("base_rate")
        settings["base_rate_is"] = ESTIMATED
    return settings


def base_rate_of(configs: PipelineConfigs) -> str | None:
    """Return the base rate and where it comes from, as a tag; None if it is not estimated yet."""
    return None if _is_estimated(configs) else str(configs.calibrate.rate)


def _is_estimated(configs: PipelineConfigs) -> bool:
    return bool(configs.match.candidates) and configs.calibrate.base_rate is None


def finish_pipeline(run_id: str, refs: Mapping[str, StageRef]) -> PipelineSummary:
    """Log the manifest, summary, report and main metrics of the stages to the pipeline's run. Return the summary.

    refs  stage -> its run, for every stage of the pipeline

    In the summary, `seconds` has the duration of each stage in the run that computed it, and `reused` names the stages
    that did not run in this pipeline. The artifacts are also copied to reports/RUN_ID in the home.
    """
    store = open_store()
    runs = {stage: store.known(ref.run_id) for stage, ref in refs.items()}
    train, ids = config_of(TrainConfig, runs["train"]), {stage: run.run_id for stage, run in runs.items()}
    summary = PipelineSummary(
        dataset=runs["prepare"].dataset.name,
        model=train.model,
        loss=loss_of(runs["train"]),
        seed=train.seed,
        runs=ids,
        seconds={stage: round(run.metrics["seconds"], 3) for stage, run in runs.items()},
        reused=tuple(stage for stage, run in runs.items() if run.tags.parent != run_id),
        race=store.load(ids["choose"], RACE) if "choose" in ids else None,
        **vars(store.load(ids["evaluate"], SUMMARY)),
    )
    with temporary_folder() as folder:
        save(folder, MANIFEST, ids)
        save(folder, PIPELINE_SUMMARY, summary)
        for path in (REPORT.path, FIGURES):
            store.copy(folder, ids["report"], path)
        place = store.log_report(run_id, folder)
    _log_headlines(store, run_id, runs, summary)
    base_rate = str(config_of(CalibrateConfig, runs["calibrate"]).rate)
    store.log_tags(run_id, RunTags(base_rate=base_rate, note=summary.note(summary.runs)))
    return replace(summary, report=str(place / REPORT.path), pipeline=run_id)


def _log_headlines(store: Store, run_id: str, runs: Mapping[str, RunRecord], summary: PipelineSummary) -> None:
    """Log the metrics of `overview` and the ranks to the pipeline's run. Link each to the model that it describes."""
    dataset = runs["prepare"].dataset
    store.log_dataset(run_id, dataset, dataset.name, {}, EVALUATION)
    models = {store.model(model_id).label: model_id for model_id in runs["calibrate"].model_ids}
    metrics: dict[str | None, dict[str, float]] = {runs["train"].model_ids[0]: dict(summary.ranks)}
    for row in summary.results.rows:
        label = short_label(row.label)
        own = {f"{label}.{name}": row.metrics[name] for name in overview() if name in row.metrics}
        metrics.setdefault(models.get(row.label), {}).update(own)
    store.log_model_metrics(run_id, metrics, dataset)


def finished_pipeline(configs: PipelineConfigs, context: Context) -> PipelineSummary | None:
    """Return the summary of a finished pipeline with these settings and this code, if its evaluation still exists."""
    store = open_store()
    for run in store.find(RunTags(stage="pipeline", key=_key(configs)), newest=10):
        with suppress(InputError):  # its artifacts were deleted
            summary = store.load(run.run_id, PIPELINE_SUMMARY)
            if context.may_reuse(run) and store.complete(store.get(summary.runs["evaluate"])):
                return replace(summary, pipeline=run.run_id)
    return None


def _key(configs: PipelineConfigs, others: str = "") -> str:
    """Return a hash of the settings, the data set's identity, the format of artifacts and all code of kgcore.

    others  the further models

    Two pipelines with the same hash have the same key in every stage.
    """
    settings = {name: config.as_dict() for name, config in vars(configs).items()}
    spec = find_dataset(configs.prepare.dataset)
    candidates = identity(configs.match) if configs.match.candidates else ""
    settings["match"] |= {"candidates": Path(configs.match.candidates).name}
    settings["calibrate"] = configs.calibrate.recorded.as_dict()
    stated = CALIBRATE.identity(configs.calibrate)
    settings |= {"other_models": {"names": others}} if others else {}
    return digest([settings, spec.identity(), candidates, stated, FORMAT, whole_code_fingerprint()])


log = logging.getLogger("kgcal")


def run_command(configs: Iterable[Config]) -> str:
    """Return the `kgcal run` command for these settings.

    It uses no preset, and has an option for each setting that differs from its default.
    """
    words = ["kgcal", "run", "--preset", NONE]
    for config in configs:
        words += _options(config)
    return shlex.join(words)


def log_train_command(choice: StageRef) -> None:
    """Log the `kgcal train` command for the settings that a choose run has chosen."""
    data = open_store().get(choice.run_id).tags.inputs["prepare"]
    words = ["kgcal", "train", "--data", data, *_options(chosen_settings(choice))]
    log.info("to train with these settings: %s", shlex.join(words))


def log_choice(data: StageRef, used: TrainConfig) -> None:
    """If no setting was given, but a race on the graph chose other ones, log the command that trains with them."""
    for choice in choices_for(open_store(), data.run_id)[:1] if used == TrainConfig() else ():
        ref = StageRef("choose", choice)
        if chosen_settings(ref) != used:
            log.info("train     a race on this graph (run %s) chose other settings", choice)
            log_train_command(ref)


def _options(config: Config) -> list[str]:
    """Return an option for each setting that differs from its default."""
    usual = type(config)().as_dict()
    changed = {name: value for name, value in config.as_dict().items() if value != usual[name]}
    return [word for name, value in changed.items() for word in _option(name.replace("_", "-"), value)]


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", ",".join(f"{key}={number!r}" for key, number in value.items())]
    return [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
