"""The search for training settings: its MLflow run, and its study, the file from which a later call resumes."""

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock

from kgcore.config import PipelineConfigs, TrainConfig, TuneConfig
from kgcore.datasets.base import find_dataset
from kgcore.errors import FitError, InputError
from kgcore.graph import KnowledgeGraph
from kgcore.registries import LOSSES, MODELS, STRATEGIES
from kgcore.tuning.record import Record
from kgcore.tuning.space import Space
from tasks.jobs.command import run_command
from tasks.jobs.pipeline import all_settings
from tasks.jobs.tuning_result import Trial, TuningResult
from tasks.stages.corrupt import by_model
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import as_task
from tasks.stages.train import check_training
from tasks.tracking.artifacts import BEST_SETTINGS, GRAPH_WITHOUT_TEST, TRIALS, save
from tasks.tracking.keys import code_fingerprint, digest
from tasks.tracking.record import RUNNING, DatasetId, RunTags
from tasks.tracking.series import SeriesLog
from tasks.tracking.store import Store, open_store
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device, gpu_slot
from tasks.workspace.settings import ensure_home

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

log = logging.getLogger("kgcal")


@contextmanager
def tuning_run(
    configs: PipelineConfigs, config: TuneConfig, device: str, preset: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Open the MLflow run of a search, with every setting as a parameter, and yield its id.

    configs  the settings of a pipeline; the search changes some of `configs.train`
    device   auto, cpu, cuda or cuda:N
    preset   further parameters: the name of the preset, and the settings that it sets

    Raises InputError, before any run is opened, for settings or a device that cannot be used.
    """
    check_training(configs.train, device)
    if by_model(configs.corrupt):
        drawn = ", ".join(configs.corrupt.calibration_strategy)
        raise InputError(f"calibration_strategy is {drawn}: a search needs strategies that draw without a model")
    dataset = find_dataset(configs.prepare.dataset).name
    store = open_store()
    store.mark_dead_runs()
    title = f"tune {dataset} {configs.train.model} {configs.train.loss}"
    params = all_settings(vars(configs) | {"tune": config}) | dict(preset or {})
    with store.open_run(title, RunTags(stage="tune")) as run_id:
        store.log_params(run_id, params | {"dataset": dataset})
        yield run_id


@as_task("search_settings")
def search_settings(data: StageRef, configs: PipelineConfigs, config: TuneConfig, context: Context) -> TuningResult:
    """Search for the best training settings on the train and valid splits of a prepare run.

    data     the prepare run; its test split is not read
    context  `parent` is the id of the search's run; `force` starts a new study

    A study with the same settings and triples is resumed, and several processes can share it. The best settings are
    logged as the artifact best.json, a TrainConfig, and as the parameters `best.NAME`; the trials as trials.csv.

    Raises FitError if no trial was trained to its end. Raises InputError as `SearchObjective` does, or if `force`
    is set while another process runs the search.
    """
    from kgcore.tuning.objective import SearchObjective  # these imports load torch and Optuna
    from kgcore.tuning.search import Plan, search

    store, parent = open_store(), context.parent
    assert parent is not None
    prepared = store.get(data.run_id)
    graph = store.load(data.run_id, GRAPH_WITHOUT_TEST)
    rng = np.random.default_rng(config.tune_seed)
    objective = SearchObjective(graph, config.metric, configs.corrupt, configs.calibrate.rate.value, rng)
    space, key = Space(configs.train, config.search, config.most_epochs), _key(graph, configs, config)
    path = ensure_home() / "tuning" / f"{graph.name}-{configs.train.model}-{configs.train.loss}-{key[:12]}.db"
    path.parent.mkdir(exist_ok=True)
    store.log_tags(parent, RunTags(key=key, inputs={"prepare": data.run_id}, study=path.name))
    lock = FileLock(path.with_suffix(".lock"))

    def is_alive(trial: "FrozenTrial") -> bool:
        run_id = trial.user_attrs.get("run")
        return run_id is not None and store.get(run_id).status == RUNNING

    with lock:
        study = _open(path, config, space, context.force, is_alive)
    title = f"tune {configs.train.model} {configs.train.loss}"
    with gpu_slot(find_device(context.device)) as device, progress_bar(title, config.trials) as bar:

        def show_epoch(number: int, word: str) -> None:
            bar(number, f"trial {number}, {word}")

        records = TrialRecords(store, parent, config.metric, prepared.dataset, show_epoch)
        plan = Plan(config.trials, 60 * config.minutes, config.tune_seed)
        interrupted = search(study, graph, objective, space, plan, device, records, lock, is_alive)
    result = _result(study, graph.name, configs, config, parent, interrupted)
    _log(store, study, result)
    return result


def _open(
    path: Path, config: TuneConfig, space: Space, force: bool, is_alive: Callable[["FrozenTrial"], bool]
) -> "Study":
    """Open the study in the file `path`. If `force` is set, replace it with a new study."""
    from kgcore.tuning.study import begun, open_study, running

    starts = space.starts()
    study = open_study(path, config.metric, starts)
    if force:
        if any(map(is_alive, running(study))):
            raise InputError("another process is running this search: wait until it ends")
        study = open_study(path, config.metric, starts, anew=True)
    if before := len(begun(study)):
        log.info("%d of %d trials were run before", before, config.trials)
    return study


def _key(graph: KnowledgeGraph, configs: PipelineConfigs, config: TuneConfig) -> str:
    """Return a hash of everything that a trial's value depends on.

    The number of trials, the time limit and the test split are not part of it.
    """
    strategies = {"uniform", "typed", *configs.train.training_strategy, *configs.corrupt.calibration_strategy}
    code = (
        "kgcore.tuning.search",
        MODELS.module(configs.train.model),
        LOSSES.module(configs.train.loss),
        *sorted(map(STRATEGIES.module, strategies)),
    )
    plan = config.replace(trials=TuneConfig().trials, minutes=TuneConfig().minutes)
    settings = [part.as_dict() for part in (configs.train, configs.corrupt, configs.calibrate, plan)]
    return digest(["tune", settings, graph.fingerprint(), code_fingerprint(code)])


def _result(
    study: "Study", dataset: str, configs: PipelineConfigs, config: TuneConfig, run: str, interrupted: bool
) -> TuningResult:
    from kgcore.tuning.study import begun, best, config_of

    best_trial = best(study)
    settings = config_of(best_trial)
    trials = tuple(_trial(trial) for trial in begun(study))
    return TuningResult(
        dataset=dataset,
        metric=config.metric,
        searched=config.search,
        value=float(best_trial.value or 0.0),
        trial=best_trial.number,
        settings=settings,
        command=run_command(vars(replace(configs, train=settings)).values()),
        trials=trials,
        interrupted=interrupted,
        run=run,
    )


def _trial(trial: "FrozenTrial") -> Trial:
    from kgcore.tuning.study import config_of

    attrs, duration, state = trial.user_attrs, trial.duration, trial.state.name.lower()
    return Trial(
        number=trial.number,
        state="failed" if state == "fail" else state,
        value=trial.value,
        epochs_done=attrs.get("epochs", 0),
        seconds=round(duration.total_seconds(), 1) if duration else None,
        config=config_of(trial) if "config" in attrs else None,
    )


def _log(store: Store, study: "Study", result: TuningResult) -> None:
    """Log the best settings, the table of trials, and a note for the UI."""
    from kgcore.tuning.study import best, trials_table

    table, trial = trials_table(study), best(study)
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder), BEST_SETTINGS, result.settings.as_dict())
        save(Path(folder), TRIALS, table)
        store.log_files(result.run, Path(folder))
    store.log_params(result.run, {f"best.{name}": value for name, value in result.settings.as_dict().items()})
    store.log_metrics(result.run, trial.user_attrs["figures"] | {"trials": len(table)})
    counts = {str(state): int(count) for state, count in table["state"].value_counts().items()}
    run_id = trial.user_attrs["run"]
    note = f"Trial {result.trial}, run `{run_id}`, is the best by {result.metric}:\n\n    {result.command}"
    store.log_tags(result.run, RunTags(counts=counts, best=run_id, note=note))


@dataclass(frozen=True)
class TrialRecords:
    """A factory that opens the MLflow run of each trial of a search.

    parent    id of the MLflow run of the search
    metric    the objective of the search
    dataset   the data set that trials are measured on
    on_epoch  function that is called after every epoch with the number of the trial and a short text on its progress
    """

    store: Store
    parent: str
    metric: str
    dataset: DatasetId
    on_epoch: Callable[[int, str], None]

    @contextmanager
    def __call__(self, number: int, config: TrainConfig) -> Iterator["TrialRecord"]:
        """Open the run of a trial, and yield its record. The run ends as FINISHED if the trial is complete or pruned.

        It ends as FAILED, with the reason as its note, if the block raises FitError; as KILLED if it is interrupted.
        """
        with self.store.open_run(f"trial {number}", RunTags(stage="trial", parent=self.parent)) as run_id:
            self.store.log_params(run_id, config.as_dict() | {"trial": number})
            self.store.log_dataset(run_id, self.dataset, self.dataset.name, {})
            record = TrialRecord(self, run_id, number, config.epochs)
            try:
                yield record
            except FitError as error:
                self.store.log_tags(run_id, RunTags(state="failed", note=str(error)))
                log.info("trial %-3d failed: %s", number, error)
                raise
            finally:
                record.flush()


class TrialRecord(Record):
    """The record of a trial. It logs losses and metrics to MLflow, and reports the progress of the trial."""

    FLUSH_SECONDS = 5.0

    def __init__(self, search: TrialRecords, run_id: str, number: int, epochs: int) -> None:
        self._search, self._run_id, self._number, self._epochs = search, run_id, number, epochs
        self._losses = SeriesLog(search.store, run_id, "loss", search.dataset, self.FLUSH_SECONDS)
        self._figures, self._epoch = dict[str, float](), 0
        self.attributes = {"run": run_id}

    def epoch(self, epoch: int, loss: float) -> None:
        self._epoch = epoch
        self._search.on_epoch(self._number, f"epoch {epoch} of {self._epochs}")
        self._losses.add(epoch, loss)

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        self._figures = dict(figures)
        self._search.store.log_metrics(self._run_id, figures, epoch, dataset=self._search.dataset)

    def ended(self, state: str) -> None:
        search, value = self._search, self._figures[self._search.metric]
        search.store.log_tags(self._run_id, RunTags(state=state))
        if state == "complete":
            metrics = {f"trial.{search.metric}": value}
            search.store.log_metrics(search.parent, metrics, self._number, dataset=search.dataset)
        word = "" if state == "complete" else f", {state}"
        log.info("trial %-3d %s %.4f after %d epochs%s", self._number, search.metric, value, self._epoch, word)

    def flush(self) -> None:
        """Write the losses to MLflow that are not written yet."""
        self._losses.flush()
