"""The search for training settings: its run, its study, from which a later call resumes, and its result."""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from filelock import FileLock

from kgcore.config import PipelineConfigs, TrainConfig, TuneConfig
from kgcore.config.base import OBJECTIVES
from kgcore.data.datasets.base import find_dataset
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import FitError, InputError
from kgcore.measure.report.result import Result, ResultTable
from kgcore.registries import BACKENDS, LOSSES, MODELS, STRATEGIES
from kgcore.wings.tuning.record import Record
from kgcore.wings.tuning.space import Space
from kgcore.workers import find_device
from tasks.jobs.pipeline import all_settings, open_work, run_command
from tasks.stages.corrupt import by_model
from tasks.stages.running import Context, StageRef, as_task
from tasks.stages.train import check_training
from tasks.tracking.artifacts import BEST_SETTINGS, GRAPH_WITHOUT_TEST, TRIALS, save
from tasks.tracking.keys import code_fingerprint, digest
from tasks.tracking.record import RUNNING, TRAINING, DatasetId, RunTags, shares_text
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import SeriesLog, progress_bar
from tasks.workspace.resources import gpu_slot
from tasks.workspace.settings import ensure_home, temporary_folder

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

log = logging.getLogger("kgcal")
MOST_ROWS = 10  # trials that the terminal and the Prefect UI show
# searched setting -> its columns: header -> function that returns the text of a cell
COLUMNS: Mapping[str, Mapping[str, Callable[[TrainConfig], str]]] = {
    "learning_rate": {"learning\nrate": lambda config: f"{config.learning_rate:g}"},
    "regulariser": {
        "LP\nweight": lambda config: f"{config.lp_weight:g}" if config.lp_weight else "-",
        "LP\npower": lambda config: f"{config.lp_power:g}" if config.lp_weight else "-",
    },
    "dropout": {"dropout": lambda config: f"{config.dropout:g}"},
    "initial_scale": {"initial\nscale": lambda config: f"{config.initial_scale:g}"},
    "training_strategy": {"training\nstrategy": lambda config: shares_text(config.training_strategy)},
    "training_sides": {"training\nsides": lambda config: config.training_sides},
    "inverse_relations": {"inverse\nrelations": lambda config: "yes" if config.inverse_relations else "-"},
    "cohort_weight": {"cohort\nweight": lambda config: f"{config.cohort_weight:g}"},
    "k": {"k": lambda config: str(config.k)},
    "training_eta": {"eta": lambda config: str(config.training_eta)},
}
TEXTS = ("training\nstrategy", "training\nsides")  # all other columns hold numbers
LEGEND = {"k": "k: embedding size", "eta": "eta: corruptions per positive in training"}
OBJECTIVE_TITLES = {"brier": "Brier", "log_loss": "log loss", "accuracy": "accuracy", "mrr": "MRR"}


def check_search(configs: PipelineConfigs, device: str) -> None:
    """Raise InputError for settings or a device that a search cannot use."""
    check_training(configs.train, device)
    if by_model(configs.corrupt):
        drawn = ", ".join(configs.corrupt.calibration_strategy)
        raise InputError(f"calibration_strategy is {drawn}: a search needs strategies that draw without a model")


def tuning_run(configs: PipelineConfigs, config: TuneConfig, preset: Mapping[str, str]) -> AbstractContextManager[str]:
    """Open the MLflow run of a search, with every setting as a parameter; `with` gives its id.

    configs  the settings of a pipeline; the search changes some of `configs.train`
    preset   further parameters: the name of the preset, and the settings that it sets
    """
    dataset = find_dataset(configs.prepare.dataset).name
    title = f"tune {dataset} {configs.train.model} {configs.train.loss}"
    params = all_settings(vars(configs) | {"tune": config}) | dict(preset) | {"dataset": dataset}
    return open_work(title, RunTags(stage="tune"), params)


@as_task("search_settings")
def search_settings(data: StageRef, configs: PipelineConfigs, config: TuneConfig, context: Context) -> Result:
    """Search for the best training settings on the train and valid splits of a prepare run.

    data     the prepare run; its test split is not read
    context  `parent` is the id of the search's run; `force` starts a new study

    A study with the same settings and triples is resumed, and several processes can share it. The best settings are
    logged as the artifact best.json, a TrainConfig, and as the parameters `best.NAME`; the trials as trials.csv.

    Raises FitError if no trial was trained to its end. Raises InputError as `SearchObjective` does, or if `force`
    is set while another process runs the search.
    """
    from kgcore.wings.tuning.objective import SearchObjective  # these imports load torch and Optuna
    from kgcore.wings.tuning.search import Plan, search

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
    return _result(study, graph.name, configs, config, parent, interrupted)


def _open(
    path: Path, config: TuneConfig, space: Space, force: bool, is_alive: Callable[["FrozenTrial"], bool]
) -> "Study":
    """Open the study in the file `path`. If `force` is set, replace it with a new study."""
    from kgcore.wings.tuning.study import begun, open_study, running

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
        "kgcore.wings.tuning.search",
        MODELS.module(configs.train.model),
        LOSSES.module(configs.train.loss),
        *map(BACKENDS.module, BACKENDS.names()),
        *sorted(map(STRATEGIES.module, strategies)),
    )
    plan = config.replace(trials=TuneConfig().trials, minutes=TuneConfig().minutes)
    settings = [part.as_dict() for part in (configs.train, configs.corrupt, configs.calibrate, plan)]
    return digest(["tune", settings, graph.fingerprint(), code_fingerprint(code)])


def _result(
    study: "Study", dataset: str, configs: PipelineConfigs, config: TuneConfig, run: str, interrupted: bool
) -> Result:
    """Log the best settings. Return the best trials, their number in each state, and the command to train with them."""
    from kgcore.wings.tuning.study import begun, best, completed, config_of, trials_table

    chosen, table = best(study), trials_table(study)
    settings = config_of(chosen)
    command = run_command(vars(replace(configs, train=settings)).values())
    counts = _log_best(chosen, table, run, settings, f"is the best by {config.metric}:\n\n    {command}")
    maximized, metric = OBJECTIVES[config.metric] == "maximize", OBJECTIVE_TITLES[config.metric]
    ranked = sorted(completed(study), key=lambda trial: trial.value or 0.0, reverse=maximized)
    columns = {name: cell for searched in config.search for name, cell in COLUMNS.get(searched, {}).items()}
    data = [
        {"trial": trial.number, "value": trial.value, "epochs": trial.user_attrs["epochs"], "seconds": _seconds(trial)}
        | config_of(trial).as_dict()
        for trial in ranked
    ]
    rows = [
        {
            "trial": f"{trial.number}",
            metric: f"{trial.value:.4f}",
            "epochs": f"{config_of(trial).epochs}",
            "seconds": f"{_seconds(trial):.0f}",
            **{name: cell(config_of(trial)) for name, cell in columns.items()},
        }
        for trial in ranked[:MOST_ROWS]
    ]
    legend = "; ".join(text for name, text in LEGEND.items() if name in columns)
    heading = f"{dataset}, {settings.model} {settings.loss}: best {metric} on validation first"
    states = ("complete", "pruned", "failed", "running")
    ends = ", ".join(f"{counts[state]} {state}" for state in states if state in counts)
    first = begun(study)[0]
    initial = f", {first.value:.4f} with the initial settings" if first in ranked else ""
    outcome = f"{len(table)} trial{'s' * (len(table) > 1)}: {ends}. "
    outcome += f"Best {metric}: {chosen.value:.4f} in trial {chosen.number}{initial}."
    outcome += " Interrupted: the same command resumes the search." if interrupted else ""
    facts: dict[str, object] = {
        "dataset": dataset,
        "metric": config.metric,
        "searched": config.search,
        "value": chosen.value,
    }
    facts |= {"trial": chosen.number, "settings": settings.as_dict(), "command": command, "trials": data}
    return Result(
        title=f"{settings.model} {settings.loss} on {dataset}: settings",
        tables=[ResultTable(heading, rows, TEXTS, [legend] if legend else [])],
        sentences=[outcome, "train with the best settings:", command],
        run=run,
        linked=True,
        rows=data[:MOST_ROWS],
        facts=facts | {"interrupted": interrupted, "run": run},
        exit_code=128 + signal.SIGINT if interrupted else 0,
    )


def _log_best(
    chosen: "FrozenTrial", table: pd.DataFrame, run: str, settings: TrainConfig, words: str
) -> dict[str, int]:
    """Log the best settings, the table of trials and a note for the UI. Return state -> number of trials."""
    store, trial_run = open_store(), chosen.user_attrs["run"]
    with temporary_folder() as folder:
        save(folder, BEST_SETTINGS, settings.as_dict())
        save(folder, TRIALS, table)
        store.log_files(run, folder)
    store.log_params(run, {f"best.{name}": value for name, value in settings.as_dict().items()})
    store.log_metrics(run, chosen.user_attrs["figures"] | {"trials": len(table)})
    counts = {str(state): int(count) for state, count in table["state"].value_counts().items()}
    note = f"Trial {chosen.number}, run `{trial_run}`, {words}"
    store.log_tags(run, RunTags(counts=counts, best=trial_run, note=note))
    return counts


def _seconds(trial: "FrozenTrial") -> float:
    return round(trial.duration.total_seconds(), 1) if trial.duration else 0.0


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
            self.store.log_dataset(run_id, self.dataset, self.dataset.name, {}, TRAINING)
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
        self._losses = SeriesLog(
            partial(search.store.log_series, run_id, "loss", dataset=search.dataset), self.FLUSH_SECONDS
        )
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
