"""What every stage has in common: its reference, its key, its lock, its MLflow run, its re-use."""

import functools
import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from filelock import FileLock
from mlflow.entities import Run
from prefect import task
from prefect.cache_policies import NO_CACHE

from kgcore.config import Config
from kgcore.errors import InputError, KgcalError, MismatchError
from kgcore.storage import FORMAT
from tasks.tracking.fingerprint import code_fingerprint
from tasks.tracking.store import FINISHED, Store, open_store
from tasks.workspace.flow_run import current_flow_run, in_task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Config)
STAGES = ("prepare", "train", "corrupt", "score", "calibrate", "classify", "rank", "evaluate", "report")
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class StageRef:
    """A finished stage: its name and its MLflow run, which is all that one stage hands to the next."""

    stage: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.stage}:{self.run_id}"


@dataclass(frozen=True)
class Context:
    """How, not what: none of this is part of a key.

    parent  MLflow run that the stages are nested under
    force   run even where a finished run could be re-used
    since   with force: runs that started at this time (seconds) or later may be re-used all the same, so that what many
            cells of a grid share is run once
    device  auto, cpu, cuda or cuda:N
    """

    parent: str | None = None
    force: bool = False
    device: str = "auto"
    since: float | None = None

    def may_reuse(self, run: Run) -> bool:
        """Whether a finished run of the same key may serve."""
        return not self.force or (self.since is not None and run.info.start_time >= self.since * 1000)


class _WithoutTraceback(logging.Filter):
    """Leaves a user's mistake its sentence and takes away the traceback, in Prefect's logs too."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], KgcalError):
            record.exc_info = None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_WithoutTraceback())


def stage_task(function: Callable[P, T]) -> Callable[P, T]:
    """The function as a Prefect task inside a flow run, and as itself outside, where no Prefect server is started for
    it, and inside another task, such as a cell of a grid.

    Prefect's result cache is off: MLflow is the cache.
    """
    prefect_task = task(name=function.__name__, cache_policy=NO_CACHE)(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        own = current_flow_run() and not in_task()
        return (prefect_task if own else function)(*args, **kwargs)

    return call


def run_stage(
    stage: str,
    config: Config,
    upstream: Sequence[StageRef],
    code: Sequence[str],
    body: Callable[["StageRun"], None],
    context: Context,
    identity: str = "",
    members: Sequence[StageRef] = (),
) -> StageRef:
    """Re-use the finished run of the same key and the same upstream runs, or run the stage under the key's lock.

    key = sha256(stage, settings, upstream keys, fingerprint of the modules in `code`, identity of outside data).
    `members` are upstream, too, but stand side by side, STAGE.1, STAGE.2, ... among the inputs: what each came from is
    its own. Raises MismatchError when the other upstream stages do not belong together.
    """
    store = open_store()
    runs, beside = ([checked(store, ref) for ref in refs] for refs in (upstream, members))
    ancestors = _ancestors(runs) | {f"{ref.stage}.{n}": ref.run_id for n, ref in enumerate(members, start=1)}
    key = digest(
        [
            stage,
            FORMAT,
            asdict(config),
            sorted(run.data.tags["kgcal.key"] for run in [*runs, *beside]),
            code_fingerprint(code),
            identity,
        ]
    )
    with FileLock(_folder(store.home / "locks") / f"{key}.lock"):
        for found in store.search(newest=10, stage=stage, key=key):
            if context.may_reuse(found) and inputs(found) == ancestors and store.complete(found):
                log.info("%-9s re-used   run %s", stage, found.info.run_id)
                if context.parent is None:
                    store.log_reuse(found.info.run_id)
                return StageRef(stage, found.info.run_id)
        store.reap()
        return _run(store, stage, key, config, ancestors, body, context)


def _run(
    store: Store,
    stage: str,
    key: str,
    config: Config,
    ancestors: dict[str, str],
    body: Callable[["StageRun"], None],
    context: Context,
) -> StageRef:
    tags = {"stage": stage, "key": key, "config": json.dumps(asdict(config))}
    tags |= {f"input.{name}": run_id for name, run_id in ancestors.items()}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, store.open_run(stage, tags, context.parent) as run_id:
        store.log_params(run_id, asdict(config))
        run = StageRun(store, run_id, key, Path(folder), ancestors)
        body(run)
        store.log_artifacts(run_id, Path(folder))
        seconds = time.monotonic() - started
        run.log_metrics({"seconds": seconds})
        store.log_tags(run_id, {"kgcal.artifacts": json.dumps(store.artifacts(run_id))})
    log.info("%-9s %6.1f s  run %s", stage, seconds, run_id)
    return StageRef(stage, run_id)


class StageRun:
    """What a stage's body works with: what came before it, and its own MLflow run.

    folder  files put here become the run's artifacts when the body is done
    """

    def __init__(self, store: Store, run_id: str, key: str, folder: Path, ancestors: dict[str, str]) -> None:
        self.store, self.run_id, self.key, self.folder, self._ancestors = store, run_id, key, folder, ancestors

    def load(self, stage: str, path: str, read: Callable[[Path], T]) -> T:
        """What `read` makes of an artifact of an earlier stage."""
        return self.store.load(self._ancestors[stage], path, read)

    def model_ids(self, stage: str) -> list[str]:
        """The LoggedModels of an earlier stage, in the order they were logged."""
        return self.store.model_ids(self._ancestors[stage])

    def load_models(self, stage: str, read: Callable[[Path], T]) -> list[T]:
        """What `read` makes of each LoggedModel of an earlier stage."""
        return [self.store.load_model(model_id, read) for model_id in self.model_ids(stage)]

    def config(self, stage: str) -> dict[str, Any]:
        """The settings of an earlier stage."""
        return load_config(StageRef(stage, self._ancestors[stage]))

    @property
    def inputs(self) -> dict[str, str]:
        """Stage -> run id of all that came before, in the order of the pipeline."""
        return {stage: self._ancestors[stage] for stage in STAGES if stage in self._ancestors}

    @functools.cached_property
    def dataset(self) -> tuple[str, str]:
        """Name and digest of the data set everything here is about."""
        tags = self.store.run(self._ancestors["prepare"]).data.tags
        return tags["kgcal.dataset"], tags["kgcal.digest"]

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0, model_id: str | None = None) -> None:
        """Metrics of this stage about the data set, and about a LoggedModel where one is given."""
        dataset = self.dataset if "prepare" in self._ancestors else None
        self.store.log_metrics(self.run_id, metrics, step, model_id, dataset)

    def log_measurement(
        self, name: str, params: Mapping[str, Any], metrics: Mapping[str, float], model_id: str
    ) -> None:
        """A run of its own under this one for what was measured of one LoggedModel: rows that the UI can sort."""
        with self.store.open_run(name, {"stage": "measurement"}, self.run_id) as run_id:
            self.store.log_params(run_id, params)
            self.store.log_dataset(run_id, self.dataset, self.dataset[0], {})
            self.store.log_metrics(run_id, metrics, model_id=model_id, dataset=self.dataset)

    def log_model(
        self, number: int, name: str, write: Callable[[Path], None], params: Mapping[str, Any], tags: Mapping[str, str]
    ) -> str:
        """A LoggedModel of the files that `write` puts into a folder; its id."""
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            return self.store.log_model(self.run_id, number, name, params, tags, Path(folder))

    def log_figure(self, name: str, figure: "Figure") -> None:
        """A figure as PNG, which the MLflow UI shows."""
        figure.savefig(_folder(self.folder / "figures") / f"{name}.png", dpi=150)


def checked(store: Store, ref: StageRef) -> Run:
    """The finished run that a reference names. Raises InputError when it is another stage's or is not finished."""
    run = store.run(ref.run_id)
    stage = run.data.tags.get("kgcal.stage")
    if stage != ref.stage:
        raise InputError(f"run {ref.run_id} is of stage {stage or 'none'}: a run of stage {ref.stage} is needed")
    if run.info.status != FINISHED:
        raise InputError(f"run {ref.run_id} of stage {stage} is {run.info.status}: a FINISHED one is needed")
    return run


def load_config(ref: StageRef) -> dict[str, Any]:
    """The settings of a stage's run."""
    settings: dict[str, Any] = json.loads(open_store().run(ref.run_id).data.tags["kgcal.config"])
    return settings


def config_of(kind: type[C], ref: StageRef) -> C:
    """The settings of a stage's run as its config. Raises InputError for settings that are no longer possible."""
    settings = load_config(ref)
    if unknown := settings.keys() - {item.name for item in fields(kind)}:
        raise InputError(f"run {ref.run_id} has settings that this version does not know: {', '.join(sorted(unknown))}")
    # JSON has no tuples
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})


def inputs(run: Run) -> dict[str, str]:
    """Stage -> run id of everything a run came from; of what stands side by side, STAGE.NUMBER -> run id."""
    prefix = "kgcal.input."
    found = {name.removeprefix(prefix): run_id for name, run_id in run.data.tags.items() if name.startswith(prefix)}
    return {name: found[name] for name in sorted(found, key=_place)}


def _place(name: str) -> tuple[int, int]:
    stage, _, number = name.partition(".")
    return STAGES.index(stage), int(number or 0)


def _ancestors(runs: Sequence[Run]) -> dict[str, str]:
    """Stage -> run id of the runs and of everything they came from. Raises MismatchError where two differ."""
    found: dict[str, str] = {}
    for run in runs:
        line = inputs(run) | {run.data.tags["kgcal.stage"]: run.info.run_id}
        for name, run_id in line.items():
            if found.setdefault(name, run_id) != run_id:
                raise MismatchError(
                    f"run {run.info.run_id} comes from {name} run {run_id}, the other input from {name} run "
                    f"{found[name]}: they do not belong together"
                )
    return found


def digest(value: Any) -> str:
    """sha256 of a JSON-able value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
