"""How a stage runs: its key, its lock, the re-use of a finished run, and StageRun, the object for the stage's body."""

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

from kgcore.config import Config
from kgcore.errors import InputError, MismatchError
from kgcore.storage.json_file import FORMAT
from tasks.stages.reference import Context, StageRef
from tasks.tracking.artifacts import Artifact, ModelFiles, save
from tasks.tracking.keys import code_fingerprint, digest
from tasks.tracking.record import DatasetId, RunRecord, RunTags
from tasks.tracking.store import Store, open_store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
IMPORTED = "imported"  # stands for the loss of a model that kgcal has not trained
C = TypeVar("C", bound=Config)
log = logging.getLogger("kgcal")


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
    """Find a finished run with the same key and upstream runs, or run the stage. Return a reference to the run.

    The function holds a file lock on the key, so that two processes do not compute the same result at the same time.

    key = sha256(stage, format of artifacts, settings, upstream keys, code fingerprint, identity)

    stage     name of the stage
    upstream  the runs that the stage reads. They must come from the same run of each earlier stage
    code      kgcore modules. The key contains the source code of these modules and of all modules that they import
    body      function that computes and logs the results
    identity  text that identifies the data that the stage reads from outside the MLflow store
    members   runs of the members of an ensemble, all of one stage. The inputs name them STAGE.1, STAGE.2, ... They may
              come from different runs of an earlier stage

    Raises InputError if an upstream run does not exist or is not finished, and MismatchError if runs in `upstream` come
    from different runs of one stage.
    """
    store = open_store()
    runs, member_runs = ([store.finished(ref.stage, ref.run_id) for ref in refs] for refs in (upstream, members))
    inputs = _inputs(runs) | {f"{ref.stage}.{n}": ref.run_id for n, ref in enumerate(members, start=1)}
    upstream_keys = sorted(run.tags.key or "" for run in [*runs, *member_runs])
    key = digest([stage, FORMAT, config.as_dict(), upstream_keys, code_fingerprint(code), identity])
    with FileLock(_folder(store.home / "locks") / f"{key}.lock"):
        for found in store.find(RunTags(stage=stage, key=key), newest=10):
            if context.may_reuse(found) and found.tags.inputs == inputs and store.complete(found):
                log.info("%-9s re-used   run %s", stage, found.run_id)
                if context.parent is None:
                    store.log_reuse(found.run_id)
                return StageRef(stage, found.run_id)
        if context.parent is None:  # otherwise the job of the outermost run has marked them
            store.mark_dead_runs()
        tags = RunTags(stage=stage, key=key, config=config.as_dict(), inputs=inputs, parent=context.parent)
        return _run(store, tags, config.parameters(), body, context)


def _run(
    store: Store, tags: RunTags, params: Mapping[str, object], body: Callable[["StageRun"], None], context: Context
) -> StageRef:
    stage, started = tags.stage or "", time.monotonic()
    with tempfile.TemporaryDirectory() as folder, store.open_run(stage, tags) as run_id:
        store.log_params(run_id, params)
        run = StageRun(store, run_id, tags, Path(folder), context)
        body(run)
        store.log_files(run_id, Path(folder))
        seconds = time.monotonic() - started
        run.log_metrics({"seconds": seconds})
        run.tag(RunTags(artifacts=store.sizes(run_id)))
    log.info("%-9s %6.1f s  run %s", stage, seconds, run_id)
    return StageRef(stage, run_id)


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

    def log_metrics(self, metrics: Mapping[str, float], step: int = 0, model_id: str | None = None) -> None:
        """Log metrics of this run. They are linked to its data set, and to a LoggedModel if `model_id` names one."""
        dataset = self.dataset if "prepare" in self.inputs else None
        self.store.log_metrics(self.run_id, metrics, step, model_id, dataset)

    def log_model_metrics(self, metrics: Mapping[str | None, Mapping[str, float]]) -> None:
        """Log metrics of this run and its data set: those of each LoggedModel, by its id."""
        self.store.log_model_metrics(self.run_id, metrics, self.dataset)

    def log_measurement(
        self, name: str, params: Mapping[str, object], metrics: Mapping[str, float], model_id: str, base_rate: str
    ) -> None:
        """Log the metrics of one LoggedModel as a separate run that is nested under this run.

        base_rate  the base rate of the probabilities and where it comes from, such as `0.5, assumed`

        Each model is then a row in the MLflow UI, and the UI can sort the rows.
        """
        with self.store.open_run(name, RunTags(stage="measurement", parent=self.run_id, base_rate=base_rate)) as run_id:
            self.store.log_dataset(run_id, self.dataset, self.dataset.name, {})
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
