"""A stage: its definition, and how it runs: its key, its lock, the re-use of a finished run, its record in MLflow."""

import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from filelock import FileLock

from kgcore.config import Config
from kgcore.errors import InputError, KgcalError, MismatchError
from kgcore.storage.folders import FORMAT
from tasks.tracking.artifacts import Artifact, ModelFiles, save
from tasks.tracking.keys import code_fingerprint, digest
from tasks.tracking.record import EVALUATION, DatasetId, RunRecord, RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import current_flow_run, in_task
from tasks.workspace.resources import full_disk
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Config)
IMPORTED = "imported"  # stands for the loss of a model that kgcal has not trained
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class StageRef:
    """A reference to a finished stage: its name and the id of its MLflow run. Stages pass references, not data."""

    stage: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.stage}:{self.run_id}"


@dataclass(frozen=True)
class Context:
    """Options for how stages run. They do not change results, so they are not part of a key.

    parent  id of the MLflow run that the stages are nested under; None: the stages are not nested
    force   run the stage even if a finished run could be re-used
    since   only with `force`: time in seconds since 1970. Runs that started at this time or later are still re-used, so
            that cells of a grid run a stage only once if they share it
    device  auto, cpu, cuda or cuda:N
    runner  threads, dask or dask://HOST:PORT: where a training in partitions runs
    """

    parent: str | None = None
    force: bool = False
    device: str = "auto"
    since: float | None = None
    runner: str = "threads"

    def may_reuse(self, run: RunRecord) -> bool:
        """Return whether these options allow the re-use of a finished run with the same key."""
        return not self.force or (self.since is not None and run.started >= self.since)


@dataclass(frozen=True, eq=False)
class Stage(Generic[C]):
    """A stage of the pipeline. Its flow, deployment, entry point in MLproject and tests are generated from it.

    name       a verb, for example `train`
    summary    one sentence for the help text
    title      template for the names of its flow runs; parameters of the flow are in braces
    config     the class of its settings
    body       function that loads the inputs, calls kgcore and logs the result
    code       function of the settings that returns kgcore modules. The key contains the source code of these modules
               and of all modules that they import
    inputs     parameter -> upstream stage, in the order of the arguments
    optional   inputs that may be None: the stage then does without them
    further    parameter -> stage: any number of its runs are further inputs, at most one parameter. They may come from
               other upstream runs
    needs      input -> function of the settings that returns whether the stage uses this input. An input without such a
               function is always used
    on_device  whether the user may choose the device (CPU or GPU) on which the stage computes
    normalise  function that returns the settings to record. They are part of the key, so they contain no path
    identity   function of the settings that returns a text. It identifies the data that the stage reads from outside
               the MLflow store, and is part of the key
    settle     function that completes the settings from the upstream runs
    """

    name: str
    summary: str
    title: str
    config: type[C]
    body: Callable[["StageRun", C], None]
    code: Callable[[C], Sequence[str]]
    inputs: Mapping[str, "Stage[Any]"] = field(default_factory=dict)
    needs: Mapping[str, Callable[[C], bool]] = field(default_factory=dict)
    optional: Sequence[str] = ()
    further: Mapping[str, "Stage[Any]"] = field(default_factory=dict)
    on_device: bool = False
    normalise: Callable[[C], C] = lambda config: config
    identity: Callable[[C], str] = lambda config: ""
    settle: Callable[[C, Sequence[StageRef]], C] = lambda config, upstream: config

    def __call__(
        self,
        *upstream: StageRef | None,
        config: C | None = None,
        context: Context = Context(),
        further: Sequence[StageRef] = (),
    ) -> StageRef:
        """Run the stage as `run_stage` does, in a flow run as a Prefect task. Return a reference to the run.

        upstream  a reference for each of `inputs`, in their order; None for an input that the settings do not use, or
                  that is optional. The last ones may be left out if they are None
        config    the settings; None: the defaults
        further   references for the parameter `further`, in an order that has an effect

        Raises ValueError if the references are not to the stages that these settings use as inputs, and InputError and
        MismatchError as `run_stage` does.
        """
        config = config or self.config()
        refs = self._used(upstream, config)
        config = self.settle(config, refs)
        body = functools.partial(self.body, config=config)  # type: ignore[call-arg]  # no frame, as a lambda has
        run, identity = task_or_call(self.name, run_stage), self.identity(config)
        return run(self.name, self.normalise(config), refs, self.code(config), body, context, identity, further)

    def lineage(self) -> list[str]:
        """Return the names of all upstream stages, then the name of this stage."""
        names = [name for stage in self.inputs.values() for name in stage.lineage()]
        return list(dict.fromkeys([*names, self.name]))

    def needed(self, config: C) -> list[str]:
        """Return the names of the inputs that these settings use."""
        return [name for name in self.inputs if name not in self.needs or self.needs[name](config)]

    def _used(self, upstream: Sequence[StageRef | None], config: C) -> list[StageRef]:
        """Return the references of the inputs that are used. Raises ValueError if one is to another stage."""
        left_out = [None] * (len(self.inputs) - len(upstream))
        given = dict(zip(self.inputs, (*upstream, *left_out), strict=True))
        used = [name for name in self.needed(config) if name not in self.optional or given[name] is not None]
        refs = [ref for name in used if (ref := given[name]) is not None]
        expected = [self.inputs[name].name for name in used]
        if [ref.stage for ref in refs] != expected:
            runs = ", ".join(map(str, refs)) or "none"
            raise ValueError(f"the upstream runs of {self.name} are {runs}: they must be runs of {', '.join(expected)}")
        return refs


def _without_traceback(record: logging.LogRecord) -> bool:
    """Filter a log: remove the traceback of an error that the user can correct, and keep the message."""
    if record.exc_info and (isinstance(record.exc_info[1], KgcalError) or full_disk(record.exc_info[1])):
        record.exc_info = None
    return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_without_traceback)


def task_or_call(name: str, function: Callable[P, T]) -> Callable[P, T]:
    """Return the function as a Prefect task with this name directly in a flow run, and elsewhere the function itself.

    So a call outside a flow run needs no Prefect server, and a cell of a grid, which is a task, runs no tasks.
    Prefect's result cache is off, because kgcal re-uses the finished runs in MLflow.
    """
    if current_flow_run() is None or in_task():
        return function
    from prefect import task  # a flow run has loaded Prefect
    from prefect.cache_policies import NO_CACHE

    return task(name=name, cache_policy=NO_CACHE)(function)


def as_task(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: directly in a flow run, a call of the function is a Prefect task, as in `task_or_call`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return task_or_call(name, function)(*args, **kwargs)

        return call

    return decorate


def run_stage(
    stage: str,
    config: Config,
    upstream: Sequence[StageRef],
    code: Sequence[str],
    body: Callable[["StageRun"], None],
    context: Context,
    identity: str = "",
    further: Sequence[StageRef] = (),
) -> StageRef:
    """Find a finished run with the same key and upstream runs, or run the stage. Return a reference to the run.

    The function holds a file lock on the key, so that two processes do not compute the same result at the same time.

    key = sha256(stage, format of artifacts, settings, upstream keys, code fingerprint, identity)

    stage     name of the stage
    upstream  the runs that the stage reads. They must come from the same run of each earlier stage
    code      kgcore modules. The key contains the source code of these modules and of all modules that they import
    body      function that computes and logs the results
    identity  text that identifies the data that the stage reads from outside the MLflow store
    further   runs, all of one stage. The inputs name them STAGE.1, STAGE.2, ... They may come from different
              runs of an earlier stage

    Raises InputError if an upstream run does not exist or is not finished, and MismatchError if runs in `upstream` come
    from different runs of one stage.
    """
    store = open_store()
    runs, further_runs = ([store.finished(ref.stage, ref.run_id) for ref in refs] for refs in (upstream, further))
    inputs = _inputs(runs) | {f"{ref.stage}.{n}": ref.run_id for n, ref in enumerate(further, start=1)}
    upstream_keys = sorted(run.tags.key or "" for run in [*runs, *further_runs])
    key = digest([stage, FORMAT, config.as_dict(), upstream_keys, code_fingerprint(code), identity])
    with FileLock(_folder(store.home / "locks") / f"{key}.lock"):
        for earlier in store.find(RunTags(stage=stage, key=key), newest=10):
            if context.may_reuse(earlier) and earlier.tags.inputs == inputs and store.complete(earlier):
                log.info("%-9s re-used   run %s", stage, earlier.run_id)
                if context.parent is None:
                    store.log_reuse(earlier.run_id)
                return StageRef(stage, earlier.run_id)
        tags = RunTags(stage=stage, key=key, config=config.as_dict(), inputs=inputs, parent=context.parent)
        with _recorded(store, stage, tags, config.parameters(), context) as run:
            body(run)
        return StageRef(stage, run.run_id)


@contextmanager
def _recorded(
    store: Store, stage: str, tags: RunTags, params: Mapping[str, object], context: Context
) -> Iterator["StageRun"]:
    """Open the MLflow run of a stage. After the block, log the files of its folder, their sizes and its duration."""
    started = time.monotonic()
    with temporary_folder() as folder, store.open_run(stage, tags.of_dataset(params)) as run_id:
        store.log_params(run_id, params)
        run = StageRun(store, run_id, tags, folder, context)
        yield run
        store.log_files(run_id, folder)
        seconds = time.monotonic() - started
        run.log_metrics({"seconds": seconds}, tags=RunTags(artifacts=store.sizes(run_id)))
    log.info("%-9s %6.1f s  run %s", stage, seconds, run_id)


class StageRun:
    """The MLflow run of a stage. With it, the body of the stage loads its inputs and logs its results.

    key      the key of the run
    inputs   upstream stage -> run id
    folder   temporary folder; its files become the run's artifacts when the body ends
    context  options for how the stage runs, such as the device
    """

    def __init__(self, store: Store, run_id: str, tags: RunTags, folder: Path, context: Context) -> None:
        self.store, self.run_id, self.folder, self.context = store, run_id, folder, context
        self.key, self.inputs = tags.key or "", tags.inputs

    @cached_property
    def record(self) -> RunRecord:
        """The record of this run, as it was when it was first asked for."""
        return self.store.get(self.run_id)

    def upstream(self, stage: str) -> RunRecord:
        """Return the run of an upstream stage."""
        return self.store.known(self.inputs[stage])

    def load(self, artifact: Artifact[T]) -> T:
        """Return an artifact of an upstream stage. Raises InputError if it is missing or damaged."""
        return self.store.load(self.inputs[artifact.stage], artifact)

    def has(self, artifact: Artifact[T]) -> bool:
        """Return whether an upstream stage has run and has saved the artifact."""
        return artifact.stage in self.inputs and artifact.path in (self.upstream(artifact.stage).tags.artifacts or {})

    def save(self, artifact: Artifact[T], value: T) -> None:
        """Write an artifact of this stage to `folder`."""
        save(self.folder, artifact, value)

    def model_ids(self, stage: str) -> tuple[str, ...]:
        """Return the ids of the LoggedModels of an upstream stage, in the order in which they were logged."""
        return self.upstream(stage).model_ids

    def load_models(self, files: ModelFiles[T]) -> list[T]:
        """Return every LoggedModel of an upstream stage. Raises InputError if one is missing or damaged."""
        return [self.store.load_model(model_id, files) for model_id in self.model_ids(files.stage)]

    def load_model(self, files: ModelFiles[T]) -> T:
        """Return the only LoggedModel of an upstream stage. Raises InputError if it is missing or damaged."""
        [model] = self.load_models(files)
        return model

    def config(self, kind: type[C]) -> C:
        """Return the settings of an upstream stage. Raises InputError as `config_of` does."""
        return config_of(kind, self.upstream(kind.stage))

    @property
    def dataset(self) -> DatasetId:
        """The data set of this run."""
        return self.upstream("prepare").dataset

    def tag(self, tags: RunTags) -> None:
        """Add tags to this run."""
        self.store.log_tags(self.run_id, tags)

    def log_metrics(
        self, metrics: Mapping[str, float], step: int = 0, model_id: str | None = None, tags: RunTags = RunTags()
    ) -> None:
        """Log tags, and metrics, linked to the run's data set, and to a LoggedModel if `model_id` names one."""
        dataset = self.dataset if "prepare" in self.inputs else None
        self.store.log_metrics(self.run_id, metrics, step, model_id, dataset, tags)

    def log_model_metrics(self, metrics: Mapping[str | None, Mapping[str, float]]) -> None:
        """Log metrics on test of this run and its data set: those of each LoggedModel, by its id."""
        self.store.log_dataset(self.run_id, self.dataset, self.dataset.name, {}, EVALUATION)
        self.store.log_model_metrics(self.run_id, metrics, self.dataset)

    def log_measurement(
        self, params: Mapping[str, object], metrics: Mapping[str, float], model_id: str, base_rate: str, rows: str
    ) -> None:
        """Log the metrics of one LoggedModel as a separate run that is nested under this run.

        params     parameters by which users compare models. The name of the run begins with what differs most
        base_rate  the base rate of the probabilities and where it comes from, such as `0.5, assumed`
        rows       fingerprint of the measured rows: the UI compares runs with the same rows

        Each model is then a row in the MLflow UI, and the UI can sort the rows.
        """
        words = [str(params[name]) for name in ("calibrator", "negatives", "model")]
        name = " · ".join(word.replace("_", " ") for word in words if word != "none")
        tags = RunTags(stage="measurement", parent=self.run_id, base_rate=base_rate, test=rows)
        with self.store.open_run(name, tags) as run_id:
            self.store.log_dataset(run_id, self.dataset, self.dataset.name, {}, EVALUATION)
            self.store.log_model_metrics(run_id, {model_id: metrics}, self.dataset, params)

    def log_model(
        self,
        files: ModelFiles[T],
        value: T,
        name: str,
        params: Mapping[str, object],
        number: int = 0,
        **tags: str,
    ) -> str:
        """Log a LoggedModel as output `number` (from 0) of this run. Return its id."""
        return self.store.log_model(self.run_id, number, name, params, tags, lambda folder: files.write(folder, value))

    def log_figure(self, name: str, figure: "Figure") -> None:
        """Write a figure to the artifacts as figures/NAME.png. The MLflow UI can show PNG files."""
        figure.savefig(_folder(self.folder / "figures") / f"{name}.png", dpi=150)


def loss_of(trained: RunRecord) -> str:
    """Return the loss of a train run; `imported` if another library trained its model, with an unknown loss."""
    return str((trained.tags.config or {}).get("loss", IMPORTED))


def config_of(kind: type[C], run: RunRecord) -> C:
    """Return the settings of a run as an object of the class `kind`.

    Raises InputError if a value is out of range, or if this version of kgcal does not have a setting of the run,
    because another version logged it.
    """
    settings = run.tags.config or {}
    if unknown := settings.keys() - kind.model_fields.keys():
        raise InputError(
            f"run {run.run_id} has settings that this version of kgcal does not have: {', '.join(sorted(unknown))}; "
            "use the version that made the run, or run the stage again"
        )
    return kind(**settings)


def _inputs(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return stage -> run id, for these runs and all their upstream runs.

    Raises MismatchError if two of the runs come from different runs of one stage.
    """
    found: dict[str, str] = {}
    for run in runs:
        for name, run_id in run.lineage.items():
            if found.setdefault(name, run_id) != run_id:
                raise MismatchError(
                    f"run {run.run_id} comes from {name} run {run_id}, but another input comes from {name} run "
                    f"{found[name]}: all inputs must come from the same {name} run"
                )
    return found


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
