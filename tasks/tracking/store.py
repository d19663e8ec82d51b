"""An MLflow store: it opens and finds runs, and reads and writes their tags, metrics, artifacts and models."""

import hashlib
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from filelock import FileLock

from kgcore.errors import InputError, first_line
from kgcore.storage.folders import write_json
from tasks.tracking.artifacts import BESIDE_MLMODEL, Artifact, ModelFiles, StoredFiles
from tasks.tracking.connection import BRIEF, Patience, connect
from tasks.tracking.record import (
    FAILED,
    FINISHED,
    KILLED,
    RUNNING,
    DatasetId,
    LoggedModel,
    RunRecord,
    RunTags,
    dataset_entry,
    metric_entries,
    model_name,
    param_entries,
    patient,
    run_of,
    tag_entries,
    unreachable,
)
from tasks.workspace.settings import dead_runs, ensure_home, named_experiment, project_run_id, run_lock, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel as MlflowModel
    from mlflow.entities import Metric, Run, RunInfo
    from mlflow.store.entities import PagedList

T = TypeVar("T")
PAGE = 1000  # runs that one request returns
METRICS_PER_CALL = 1000  # the most that MLflow accepts
PER_CALL_WITH_PARAMS = 900  # metrics beside at most 100 parameters


class Store:
    """A tracking store, which a process opens once.

    uri            its address
    place          the address with *** in place of the password, for messages
    home           the folder KGCAL_HOME
    owner          hash of the host name and `home`. It marks the runs that processes with this home have opened
    client         MLflow's client, which waits while the store is away
    experiment_id  the experiment of runs that no other one is for: see `Experiments`
    """

    def __init__(self, uri: str) -> None:
        """Open the store; create it if it does not exist. Raises InputError if that fails."""
        self.uri, self._patience, self.home = uri, Patience(uri), ensure_home()
        self.place = self._patience.place
        self.owner = hashlib.sha256(f"{socket.gethostname()}:{self.home}".encode()).hexdigest()[:16]
        client, self._experiments = connect(uri)
        self.experiment_id = self._experiments.base
        self.client, self._hasty = patient(client, self._patience), patient(client, Patience(uri, BRIEF))
        self._owners = FileLock(self.home / "owners.lock")  # held while a run is created, or dead ones are looked for
        self._outermost_is_open = False  # whether this process has opened a run without a parent
        self._without_params: set[str] = set()  # runs that this process has created, and that have no parameters yet
        self._logged: dict[str, list[str]] = {}  # runs that this process has created -> their LoggedModels
        self._infos: dict[str, RunInfo] = {}  # run id -> what never changes: its experiment, the URI of its artifacts
        self._finished: dict[str, RunRecord] = {}  # the finished runs that were read, as they were then
        self._models: dict[str, MlflowModel] = {}  # id -> LoggedModel, as it was created

    @contextmanager
    def open_run(self, name: str, tags: RunTags, resume: str | None = None) -> Iterator[str]:
        """Open a run for the block, and yield its id.

        resume  id of a run to open again; None: a new run

        The run ends as FINISHED, as FAILED if the block raises an error, or as KILLED if it is interrupted. The first
        new run without a parent is the one that `mlflow run` has opened for this process, if there is one. The process
        holds a lock meanwhile, so that `mark_dead_runs` knows that it lives.
        """
        if tags.parent is None and not self._outermost_is_open:
            self._outermost_is_open = True
            if resume is None:
                resume = project_run_id()
            else:
                self.log_reuse(resume)
        with self._owners:
            try:
                run_id = self._begin(name, replace(tags, owner=self.owner), resume)
                alive = run_lock(self.home, run_id)
                alive.acquire()
            except BaseException as reason:
                if not isinstance(reason, Exception):  # an interruption, perhaps after the store had created the run
                    self.mark_dead_runs()
                raise
        try:
            yield run_id
            self.client.set_terminated(run_id, FINISHED)
        except BaseException as reason:
            with suppress(Exception):  # it would hide the reason; `mark_dead_runs` will mark the run
                self._hasty.set_terminated(run_id, FAILED if isinstance(reason, Exception) else KILLED)
            raise
        finally:
            alive.release()
            Path(alive.lock_file).unlink(missing_ok=True)

    def _begin(self, name: str, tags: RunTags, resume: str | None) -> str:
        """Create a run, or set the run `resume` to RUNNING again. Return its id."""
        if resume is not None:
            self.client.update_run(resume, status=RUNNING, name=name)
            self.log_tags(resume, tags)
            return resume
        began = time.time_ns() // 10**6
        place = self._experiments.of(tags, self.client, lambda run: str(self.info(run).experiment_id))
        made = self.client.create_run(place, tags=tags.of_new_run(), run_name=name, start_time=began)
        run_id = str(made.info.run_id)
        self._infos[run_id] = made.info
        self._without_params.add(run_id)
        self._logged[run_id] = []
        return run_id

    def mark_dead_runs(self) -> None:
        """Mark as KILLED the runs of this home that are RUNNING in the store although their process has ended."""
        with self._owners:
            running = {run.run_id for run in self.find(RunTags(owner=self.owner), newest=1000, status=RUNNING)}
            for run_id in dead_runs(self.home, running):
                if self.get(run_id).status == RUNNING:  # it may have ended after the search
                    self.client.set_terminated(run_id, KILLED)

    def log_files(self, run_id: str, folder: Path) -> None:
        """Log the folder's files as artifacts of the run. Raises InputError if they cannot be written."""
        self._files_of(run_id, f"the artifacts of run {run_id}").add(folder)

    def log_report(self, run_id: str, folder: Path) -> Path:
        """Log the folder's files as `log_files` does, and copy them to reports/RUN_ID in the home. Return the copy."""
        self.log_files(run_id, folder)
        return Path(shutil.copytree(folder, self.home / "reports" / run_id, dirs_exist_ok=True))

    def log_json(self, run_id: str, value: object, path: str) -> None:
        """Log a JSON file as an artifact of the run, at that path."""
        files = self._files_of(run_id, f"the artifact {path} of run {run_id}")
        files.add_written(lambda folder: write_json(folder / path, value))

    def log_params(self, run_id: str, params: Mapping[str, object]) -> None:
        """Log parameters as text, except those that the run already has: `mlflow run`, for example, logged them."""
        there = {} if run_id in self._without_params else self.get(run_id).params
        self._without_params.discard(run_id)
        new = {name: value for name, value in params.items() if name not in there}
        self.client.log_batch(run_id, params=param_entries(new))

    def log_metrics(
        self,
        run_id: str,
        metrics: Mapping[str, float],
        step: int = 0,
        model_id: str | None = None,
        dataset: DatasetId | None = None,
        tags: RunTags = RunTags(),
    ) -> None:
        """Log tags, and metrics at a step, linked to a LoggedModel and to a data set if these are given."""
        rows = [(model_id, name, value, step) for name, value in metrics.items()]
        self.client.log_batch(run_id, metrics=metric_entries(run_id, rows, dataset), tags=tag_entries(tags))

    def log_model_metrics(
        self,
        run_id: str,
        metrics: Mapping[str | None, Mapping[str, float]],
        dataset: DatasetId,
        params: Mapping[str, object] | None = None,
    ) -> None:
        """Log metrics of a run on a data set, each linked to a LoggedModel, in as few requests as MLflow accepts.

        metrics  id of the LoggedModel, or None for none -> its metrics
        params   parameters of the run, for a run that has none yet
        """
        rows = [(model_id, name, value, 0) for model_id, own in metrics.items() for name, value in own.items()]
        entries = metric_entries(run_id, rows, dataset)
        if params:
            self._without_params.discard(run_id)
            self.client.log_batch(run_id, entries[:PER_CALL_WITH_PARAMS], param_entries(params))
            entries = entries[PER_CALL_WITH_PARAMS:]
        self._log_in_parts(run_id, entries, self.client)

    def log_series(
        self, run_id: str, name: str, values: Sequence[float], dataset: DatasetId, first: int = 1, wait: bool = True
    ) -> None:
        """Log the values of a metric at the steps first, first + 1, ...; wait: while the store is away, or raise."""
        rows = [(None, name, value, step) for step, value in enumerate(values, start=first)]
        self._log_in_parts(run_id, metric_entries(run_id, rows, dataset), self.client if wait else self._hasty)

    def _log_in_parts(self, run_id: str, entries: "list[Metric]", client: "MlflowClient") -> None:
        for start in range(0, len(entries), METRICS_PER_CALL):
            client.log_batch(run_id, metrics=entries[start : start + METRICS_PER_CALL])

    def log_tags(self, run_id: str, tags: RunTags) -> None:
        """Set the tags that are not None."""
        self.client.log_batch(run_id, tags=tag_entries(tags))

    def log_reuse(self, run_id: str) -> None:
        """If `mlflow run` has opened a run for this process, note there that `run_id` is re-used, and end that run."""
        if (opened := project_run_id()) is not None:
            self.log_tags(opened, RunTags(note=f"Nothing to do: re-used run `{run_id}`."))
            self.client.set_terminated(opened, FINISHED)

    def log_dataset(self, run_id: str, data: DatasetId, source: str, counts: Mapping[str, int], context: str) -> None:
        """Log a data set as the run's input. The arguments are those of `dataset_entry`."""
        self.client.log_inputs(run_id, [dataset_entry(data, source, counts, context)])

    def log_model(
        self,
        run_id: str,
        number: int,
        name: str,
        params: Mapping[str, object],
        tags: Mapping[str, str],
        write: Callable[[Path], object],
    ) -> str:
        """Log a LoggedModel as an output of the run. Return its id.

        number  position among the models of the run, from 0
        name    its name; hyphens replace the characters that MLflow does not accept
        write   function that writes the files of the model into a folder

        Raises InputError if the files cannot be written to the store.
        """
        from mlflow.entities import LoggedModelOutput

        model = self.client.create_logged_model(
            self.info(run_id).experiment_id,
            name=model_name(name),
            source_run_id=run_id,
            params={key: str(value) for key, value in params.items()},
            tags=dict(tags),
        )
        self._models[model.model_id] = model
        self.add_model_files(model.model_id, write)
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, number)])
        self._logged.get(run_id, []).append(model.model_id)
        return model.model_id

    def add_model_files(self, model_id: str, write: Callable[[Path], object]) -> None:
        """Add files to a LoggedModel.

        write  function that writes the files into an empty folder

        Raises InputError if they cannot be written to the store.
        """
        self._files_of_model(model_id).add_written(write)

    def get(self, run_id: str) -> RunRecord:
        """Return a run. Raises InputError if it does not exist or is deleted."""
        return self._record(run_of(self.client, self.uri, run_id))

    def known(self, run_id: str) -> RunRecord:
        """Return the run as this process has read it last, if it had finished then; otherwise read it as `get` does."""
        return self._finished.get(run_id) or self.get(run_id)  # that it was deleted since is not noticed

    def find(self, tags: RunTags, newest: int = 1, status: str | None = FINISHED) -> list[RunRecord]:
        """Return at most `newest` runs that have these tags, newest first. status: that of the runs; None: any.

        Raises InputError if the store does not answer.
        """
        return [self._record(run) for run in self._page(newest, None, tags.where(status))]

    def find_all(self, tags: RunTags) -> list[RunRecord]:
        """Return every finished run that has these tags, newest first. Raises InputError as `find` does."""
        page = self._page(PAGE, None, tags.where(FINISHED))
        runs = list(page)
        while page.token:
            page = self._page(PAGE, page.token, tags.where(FINISHED))
            runs += page
        return [self._record(run) for run in runs]

    def _record(self, run: "Run") -> RunRecord:
        """Return the record of a run, and note where it is and, if it has finished, what it is."""
        self._infos[run.info.run_id], record = run.info, RunRecord.of(run)
        self._finished.pop(record.run_id, None)
        if record.status == FINISHED:
            self._finished[record.run_id] = record
        return record

    def _page(self, size: int, token: str | None, condition: str) -> "PagedList[Run]":
        from mlflow.entities import ViewType
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        order = ["attributes.start_time DESC"]
        try:
            experiments = [e.experiment_id for e in self.client.search_experiments()]
            return self.client.search_runs(experiments, condition, ViewType.ACTIVE_ONLY, size, order, token)
        except (MlflowException, SQLAlchemyError) as error:
            raise unreachable(self.uri, error) from error

    def finished(self, stage: str, run_id: str) -> RunRecord:
        """Return a run. Raises InputError if it does not exist, is a run of another stage, or is not finished."""
        run = self.get(run_id)
        run.check_finished(stage)
        return run

    def load(self, run_id: str, artifact: Artifact[T]) -> T:
        """Return an artifact of a run. Raises InputError if it is missing or damaged."""
        files = self._files_of(run_id, f"the artifact {artifact.path} of run {run_id}")
        return files.read(artifact.path, lambda folder: artifact.read(folder / artifact.path))

    def load_model(self, model_id: str, files: ModelFiles[T]) -> T:
        """Read the files of a LoggedModel, and return the object. Raises InputError if they are missing or damaged."""
        return self._files_of_model(model_id).read(files.file, files.read)

    def copy(self, target: Path, run_id: str, path: str) -> None:
        """Copy a file or folder of a run's artifacts into a folder. Raises InputError if it is missing."""
        self._files_of(run_id, f"the artifact {path} of run {run_id}").copy(path, target)

    def _files_of(self, run_id: str, what: str = "") -> StoredFiles:
        return StoredFiles(lambda: self.info(run_id).artifact_uri, self._patience, what)

    def _files_of_model(self, model_id: str) -> StoredFiles:
        what = f"the files of the model {model_id}"
        return StoredFiles(lambda: self._model(model_id).artifact_location, self._patience, what)

    def _model(self, model_id: str) -> "MlflowModel":
        """Return a LoggedModel. The store is asked once: that it was deleted since is not noticed."""
        if model_id not in self._models:
            self._models[model_id] = self.client.get_logged_model(model_id)
        return self._models[model_id]

    def info(self, run_id: str) -> "RunInfo":
        """Return where a run is. The store is asked once. Only the experiment and the artifacts' URI are up to date."""
        if run_id not in self._infos:
            self._infos[run_id] = self.client.get_run(run_id).info
        return self._infos[run_id]

    def copy_model(self, target: Path, model_id: str) -> None:
        """Copy the files of a LoggedModel into a folder. Raises InputError if they are missing."""
        self._files_of_model(model_id).copy("", target)

    def model(self, model_id: str) -> LoggedModel:
        """Return the record of a LoggedModel. Raises InputError if it does not exist."""
        from mlflow.exceptions import MlflowException

        try:
            found = self._model(model_id)
        except MlflowException as error:
            raise InputError(f"the model {model_id} does not exist in {self.place}: {first_line(error)}") from error
        labels = {name: found.tags.get(name, "") for name in ("label", "base_model", "fingerprint")}
        return LoggedModel(str(found.model_id), str(found.name), found.source_run_id, dict(found.params), **labels)

    def series(self, run_id: str, metric: str) -> list[float]:
        """Return the values of a run's metric, in the order of its steps."""
        points = self.client.get_metric_history(run_id, metric)
        return [point.value for point in sorted(points, key=lambda point: point.step)]

    def sizes(self, run_id: str) -> dict[str, int]:
        """Return path -> size in bytes of the files of a run, and of its models under models/ID/: no BESIDE_MLMODEL."""
        return self._sizes(run_id, self._logged[run_id] if run_id in self._logged else self.get(run_id).model_ids)

    def _sizes(self, run_id: str, model_ids: Sequence[str]) -> dict[str, int]:
        sizes = self._files_of(run_id).sizes()
        for model_id in model_ids:
            files = self.model_sizes(model_id).items()
            sizes |= {f"models/{model_id}/{path}": size for path, size in files if path not in BESIDE_MLMODEL}
        return sizes

    def model_sizes(self, model_id: str) -> dict[str, int]:
        """Return path -> size in bytes of every file of a LoggedModel."""
        return self._files_of_model(model_id).sizes()

    def complete(self, run: RunRecord) -> bool:
        """Return whether every file that the run logged still exists, with the same size."""
        from mlflow.exceptions import MlflowException

        logged = run.tags.artifacts
        with suppress(MlflowException):
            return logged is not None and logged.items() <= self._sizes(run.run_id, run.model_ids).items()
        return False


@cache
def _store(uri: str, home: Path, experiment: str | None) -> Store:
    """Open a store, and end the runs that dead processes have left there."""
    store = Store(uri)
    store.mark_dead_runs()
    return store


def open_store() -> Store:
    """Return the store that the environment names; open it once per process. Raises InputError if that fails."""
    import mlflow

    mlflow.set_tracking_uri(tracking_uri())  # MLflow looks up `models:/...` there
    return _store(tracking_uri(), ensure_home(), named_experiment())
