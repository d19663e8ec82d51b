"""The search for training settings: its MLflow run, and a study in a file that is gone on with."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from kgcore import storage
from kgcore.config import PipelineConfigs, TuneConfig
from kgcore.datasets.base import find_dataset
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.registries import LOSSES, MODELS, STRATEGIES
from kgcore.tuning.space import Space
from tasks.jobs.pipeline import all_settings
from tasks.jobs.trials import TrialRecords
from tasks.stages.base import Context, StageRef, digest, log, stage_task
from tasks.stages.corrupt import by_model
from tasks.stages.train import check_training
from tasks.tracking.fingerprint import code_fingerprint
from tasks.tracking.names import run_command
from tasks.tracking.store import RUNNING, Store, open_store
from tasks.workspace.progress import progress_bar
from tasks.workspace.resources import find_device, gpu_slot
from tasks.workspace.settings import ensure_home

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

BEST, TABLE = "best.json", "trials.csv"


@contextmanager
def tuning_run(
    configs: PipelineConfigs, config: TuneConfig, device: str, preset: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The MLflow run of a search, with the settings that it is given; yields its id.

    preset  further parameters: which preset was used, and which settings it decided

    Raises InputError for settings that cannot work, before any run is opened.
    """
    check_training(configs.train, device)
    if by_model(configs.corrupt):
        drawn = ", ".join(configs.corrupt.calibration_strategy)
        raise InputError(f"a search needs corruptions that no model draws, the same in every trial: {drawn} are not")
    dataset = find_dataset(configs.prepare.dataset).name
    store = open_store()
    store.reap()
    with store.open_run(f"tune {dataset} {configs.train.model} {configs.train.loss}", {"stage": "tune"}) as run_id:
        store.log_params(
            run_id, all_settings(vars(configs) | {"tune": config}) | dict(preset or {}) | {"dataset": dataset}
        )
        yield run_id


@stage_task
def search_settings(data: StageRef, configs: PipelineConfigs, config: TuneConfig, context: Context) -> dict[str, Any]:
    """Search the training settings on the train and valid splits of a prepare run, under the run `context.parent`. The
    study of these settings and triples is gone on with, and shared with other processes; anew with `context.force`.

    Artifacts of the run: best.json, a TrainConfig; trials.csv. Its parameters `best.NAME` are the best settings.

    {dataset, model, loss, metric, searched, value, trial, settings, command, trials, interrupted, run}: the best value
    and its trial, its settings, the command that trains with them, every trial as a row of `trials_table`, and whether
    Ctrl-C ended the search.

    Raises FitError where no trial was trained to its end, InputError as `Objective` does, and where the search is to
    begin anew that another process is at.
    """
    from kgcore.tuning.objective import Objective  # this and the next load torch and Optuna
    from kgcore.tuning.search import Plan, search
    from kgcore.tuning.study import begun, open_study, running

    store, parent = open_store(), context.parent
    assert parent is not None
    graph = store.load(data.run_id, "graph", lambda folder: storage.read_graph(folder, test=False))
    rng = np.random.default_rng(config.tune_seed)
    objective = Objective(graph, config.metric, configs.corrupt, configs.calibrate.base_rate, rng)
    space = Space(configs.train, config.search, config.most_epochs)
    key, starts = _key(graph, configs, config), space.starts()
    path = ensure_home() / "tuning" / f"{graph.name}-{configs.train.model}-{configs.train.loss}-{key[:12]}.db"
    path.parent.mkdir(exist_ok=True)
    store.log_tags(parent, {"kgcal.key": key, "kgcal.input.prepare": data.run_id, "kgcal.study": path.name})
    lock = FileLock(path.with_suffix(".lock"))

    def lives(trial: "FrozenTrial") -> bool:
        run_id = trial.user_attrs.get("run")
        return run_id is not None and store.run(run_id).info.status == RUNNING

    with lock:
        study = open_study(path, config.metric, starts)
        if context.force:
            if any(map(lives, running(study))):
                raise InputError("another process is at this search: it cannot begin anew before that has ended")
            study = open_study(path, config.metric, starts, anew=True)
    if before := len(begun(study)):
        log.info("%d of %d trials were run before", before, config.trials)
    title = f"tune {configs.train.model} {configs.train.loss}"
    with gpu_slot(find_device(context.device)) as device, progress_bar(title, config.trials) as bar:
        records = TrialRecords(
            store,
            parent,
            config.metric,
            _dataset(store, data),
            lambda number, word: bar(number, f"trial {number}, {word}"),
        )
        plan = Plan(config.trials, 60 * config.minutes, config.tune_seed)
        interrupted = search(study, graph, objective, space, plan, device, records, lock, lives)
    return _finish(store, parent, study, graph.name, configs, config) | {"interrupted": interrupted}


def _key(graph: KnowledgeGraph, configs: PipelineConfigs, config: TuneConfig) -> str:
    """What the values of a study's trials depend on: neither how many there are to be, nor the test split."""
    strategies = {"uniform", "typed", *configs.train.training_strategy, *configs.corrupt.calibration_strategy}
    code = (
        "kgcore.tuning.search",
        MODELS.module(configs.train.model),
        LOSSES.module(configs.train.loss),
        *sorted(map(STRATEGIES.module, strategies)),
    )
    plan = replace(config, trials=TuneConfig.trials, minutes=TuneConfig.minutes)
    settings = [asdict(part) for part in (configs.train, configs.corrupt, configs.calibrate, plan)]
    return digest(["tune", settings, graph.fingerprint(), code_fingerprint(code)])


def _dataset(store: Store, data: StageRef) -> tuple[str, str]:
    tags = store.run(data.run_id).data.tags
    return tags["kgcal.dataset"], tags["kgcal.digest"]


def _finish(
    store: Store, parent: str, study: "Study", dataset: str, configs: PipelineConfigs, config: TuneConfig
) -> dict[str, Any]:
    """Log what was found, and return it."""
    from kgcore.tuning.study import best, config_of, trials_table

    table, found = trials_table(study), best(study)
    settings = config_of(found)
    command = run_command(vars(replace(configs, train=settings)).values())
    with tempfile.TemporaryDirectory() as folder:
        storage.write_json(Path(folder) / BEST, asdict(settings))
        table.to_csv(Path(folder) / TABLE, index=False)
        store.log_artifacts(parent, Path(folder))
    store.log_params(parent, {f"best.{name}": value for name, value in asdict(settings).items()})
    store.log_metrics(parent, found.user_attrs["figures"] | {"trials": len(table)})
    states = {f"kgcal.{state}": str(count) for state, count in table["state"].value_counts().items()}
    note = f"Trial {found.number}, run `{found.user_attrs['run']}`, is the best by {config.metric}:\n\n    {command}"
    store.log_tags(parent, states | {"kgcal.best": found.user_attrs["run"], "mlflow.note.content": note})
    return {
        "dataset": dataset,
        "model": settings.model,
        "loss": settings.loss,
        "metric": config.metric,
        "searched": list(config.search),
        "value": found.value,
        "trial": found.number,
        "settings": asdict(settings),
        "command": command,
        "trials": json.loads(table.to_json(orient="records", double_precision=15)),
        "run": parent,
    }
