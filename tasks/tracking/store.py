"""MLflow as the artifact store: what this project needs of it, and nothing else of the project talks to MLflow."""

import hashlib
import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # seconds, not minutes, until a dead server is told

import mlflow
import mlflow.artifacts
from filelock import FileLock, Timeout
from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    FileInfo,
    InputTag,
    LoggedModelOutput,
    Metric,
    Param,
    Run,
    RunTag,
    ViewType,
)
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList
from safetensors import SafetensorError
from sqlalchemy.exc import SQLAlchemyError

from kgcore.errors import InputError, KgcalError, first_line
from tasks.tracking.creation import create_database
from tasks.tracking.places import check_artifacts, check_place, check_store, hint, input_error, is_database
from tasks.workspace.settings import (
    artifact_place,
    ensure_home,
    experiment_name,
    masked,
    project_run_id,
    tracking_uri,
)

T = TypeVar("T")
logging.getLogger("mlflow").setLevel(logging.WARNING)
FINISHED, RUNNING = "FINISHED", "RUNNING"


class Store:
    """The runs, artifacts and models of one tracking store."""

    def __init__(self, uri: str) -> None:
        """Open the store, made if need be. Raises InputError when that cannot be."""
        self.uri, self.place, self.home = uri, masked(uri), ensure_home()
        self._outermost_is_open = False  # whether this process has opened a run that is nested under none
        self.owner = hashlib.sha256(f"{socket.gethostname()}:{self.home}".encode()).hexdigest()[:16]
        self.database = is_database(uri)
        check_store(uri)
        try:
            with FileLock(self.home / "store.lock"):  # two first runs must not both create the tables
                create_database(uri)
                self.client = MlflowClient(tracking_uri=uri)
                self.experiment_id = self._experiment()
        except (MlflowException, SQLAlchemyError, OSError) as error:
            raise InputError(f"the MLflow store {self.place} cannot be opened: {masked(first_line(error))}") from error

    def _experiment(self) -> str:
        if (run_id := project_run_id()) is not None:
            return str(self.run(run_id).info.experiment_id)
        found = self.client.get_experiment_by_name(experiment_name())
        if found is not None:
            if found.lifecycle_stage != "active":
                raise InputError(
                    f"the MLflow experiment {found.name} is deleted: restore it, or name another in "
                    "MLFLOW_EXPERIMENT_NAME"
                )
            if self.database:
                check_place(str(found.artifact_location))
            return str(found.experiment_id)
        place = artifact_place() if self.database else None  # a server has its own
        if place:
            check_artifacts(place)
        kind = {"mlflow.experimentKind": "custom_model_development"}  # the UI then opens on runs and models
        return str(self.client.create_experiment(experiment_name(), artifact_location=place, tags=kind))

    def run(self, run_id: str) -> Run:
        """The run of that id. Raises InputError where there is none, or it is deleted."""
        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise self._silent(error) from error
            raise InputError(f"there is no MLflow run {run_id!r} in {self.place}{hint(self.uri)}") from None
        if run.info.lifecycle_stage != "active":
            raise InputError(f"the MLflow run {run_id} is deleted: restore it, or name another")
        return run

    def search(self, newest: int = 1, status: str | None = FINISHED, **tags: str) -> list[Run]:
        """The newest runs of that status (None = any) with these `kgcal.` tags, newest first."""
        return list(self._page(newest, None, status, tags))

    def search_all(self, page: int = 1000, **tags: str) -> list[Run]:
        """Every finished run with these `kgcal.` tags, newest first, asked for in pages of that many."""
        found = self._page(page, None, FINISHED, tags)
        runs = list(found)
        while found.token:
            found = self._page(page, found.token, FINISHED, tags)
            runs += found
        return runs

    def _page(self, size: int, token: str | None, status: str | None, tags: Mapping[str, str]) -> PagedList[Run]:
        wanted = [f"tags.`kgcal.{name}` = '{value}'" for name, value in tags.items()]
        wanted += [f"attributes.status = '{status}'"] if status else []
        found, order = " and ".join(wanted), ["attributes.start_time DESC"]
        try:
            experiments = [e.experiment_id for e in self.client.search_experiments()]
            return self.client.search_runs(experiments, found, ViewType.ACTIVE_ONLY, size, order, token)
        except (MlflowException, SQLAlchemyError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> InputError:
        return InputError(f"the MLflow store {self.place} does not answer: {masked(first_line(error))}")

    @contextmanager
    def open_run(
        self, name: str, tags: Mapping[str, str], parent: str | None = None, resume: str | None = None
    ) -> Iterator[str]:
        """A new MLflow run, or the one to `resume`; FINISHED when the block ends well, FAILED when it raises, KILLED
        when it is interrupted. Where `mlflow run` has opened a run for this process, the first outermost one is that.
        A lock that its process holds marks it as alive: see `reap`."""
        named = {f"kgcal.{key}": value for key, value in tags.items()} | {"kgcal.owner": self.owner}
        named |= {"mlflow.parentRunId": parent} if parent else {}
        if parent is None and not self._outermost_is_open:
            self._outermost_is_open = True
            if resume is None:
                resume = project_run_id()
            else:
                self.log_reuse(resume)
        with FileLock(self.home / "owners.lock"):
            if resume is not None:
                run_id = resume
                self.client.update_run(run_id, status=RUNNING, name=name)
                self.log_tags(run_id, named)
            else:
                named["mlflow.source.name"] = "kgcal"
                run_id = self.client.create_run(self.experiment_id, tags=named, run_name=name).info.run_id
            alive = self._alive(run_id)
            alive.acquire()
        try:
            yield run_id
        except BaseException as reason:
            self.client.set_terminated(run_id, "FAILED" if isinstance(reason, Exception) else "KILLED")
            raise
        else:
            self.client.set_terminated(run_id, FINISHED)
        finally:
            alive.release()
            Path(alive.lock_file).unlink(missing_ok=True)

    def _alive(self, run_id: str) -> FileLock:
        folder = self.home / "locks"
        folder.mkdir(exist_ok=True)
        return FileLock(folder / f"run-{run_id}.lock", timeout=0)

    def reap(self) -> None:
        """Mark as KILLED the runs of this home that say RUNNING though the process that owned them is gone."""
        with FileLock(self.home / "owners.lock"):
            for run in self.search(newest=1000, status=RUNNING, owner=self.owner):
                alive = self._alive(run.info.run_id)
                try:
                    with alive:
                        if self.run(run.info.run_id).info.status == RUNNING:  # it may have ended since the search
                            self.client.set_terminated(run.info.run_id, "KILLED")
                except Timeout:
                    continue
                Path(alive.lock_file).unlink(missing_ok=True)

    def log_artifacts(self, run_id: str, folder: Path) -> None:
        """The folder's files as the run's artifacts."""
        with input_error(f"the artifacts of run {run_id} cannot be written"):
            self.client.log_artifacts(run_id, str(folder))

    def log_params(self, run_id: str, params: Mapping[str, Any]) -> None:
        """Parameters, as text; those that the run has already, because `mlflow run` logged them, stay as they are."""
        there = self.run(run_id).data.params
        new = {name: value for name, value in params.items() if name not in there}
        texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in new.items()}
        self.client.log_batch(run_id, params=[Param(name, text) for name, text in texts.items()])

    def log_metrics(
        self,
        run_id: str,
        metrics: Mapping[str, float],
        step: int = 0,
        model_id: str | None = None,
        dataset: tuple[str, str] | None = None,
    ) -> None:
        """Metrics of a run, at a step, bound to a logged model and a data set (name, digest) where they are given."""
        now, (name, digest) = int(time.time() * 1000), dataset or (None, None)
        entries = [Metric(key, value, now, step, model_id, name, digest, run_id) for key, value in metrics.items()]
        self.client.log_batch(run_id, metrics=entries)

    def log_series(
        self, run_id: str, name: str, values: Sequence[float], dataset: tuple[str, str], first: int = 1
    ) -> None:
        """A metric about a data set (name, digest) at the steps first, first + 1, ..."""
        now = int(time.time() * 1000)
        steps = enumerate(values, start=first)
        entries = [Metric(name, value, now, step, None, *dataset, run_id) for step, value in steps]
        for start in range(0, len(entries), 1000):  # MLflow's limit a call
            self.client.log_batch(run_id, metrics=entries[start : start + 1000])

    def log_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Tags, under their full names."""
        self.client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])

    def log_reuse(self, run_id: str) -> None:
        """Say in the run that `mlflow run` opened, if there is one, which finished run serves in its place, and end
        it."""
        if (opened := project_run_id()) is not None:
            self.log_tags(opened, {"mlflow.note.content": f"Nothing to do: re-used run `{run_id}`."})
            self.client.set_terminated(opened, FINISHED)

    def log_dataset(self, run_id: str, dataset: tuple[str, str], source: str, counts: Mapping[str, int]) -> None:
        """The data set (name, digest) as the run's input."""
        entity = Dataset(
            name=dataset[0],
            digest=dataset[1],
            source_type="http" if source.startswith("http") else "code",
            source=json.dumps({"url": source}),
            profile=json.dumps(dict(counts)),
        )
        self.client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])

    def log_model(
        self, run_id: str, number: int, name: str, params: Mapping[str, Any], tags: Mapping[str, str], folder: Path
    ) -> str:
        """A LoggedModel with the folder's files, as the run's output of that number; its id (models:/ID)."""
        model = self.client.create_logged_model(
            str(self.run(run_id).info.experiment_id),
            name=name,
            source_run_id=run_id,
            params={key: str(value) for key, value in params.items()},
            tags=dict(tags),
        )
        with input_error(f"the artifacts of run {run_id} cannot be written"):
            self.client.log_model_artifacts(model.model_id, str(folder))
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, number)])
        return str(model.model_id)

    def model_ids(self, run_id: str) -> list[str]:
        """The LoggedModels a run made, in their order."""
        outputs = self.run(run_id).outputs
        made = sorted(outputs.model_outputs if outputs else [], key=lambda output: output.step)
        return [output.model_id for output in made]

    def load_model(self, model_id: str, read: Callable[[Path], T]) -> T:
        """What `read` makes of the folder of a LoggedModel's files."""
        return self._load(read, artifact_uri=f"models:/{model_id}")

    def load(self, run_id: str, path: str, read: Callable[[Path], T]) -> T:
        """What `read` makes of an artifact of a run."""
        return self._load(read, run_id=run_id, artifact_path=path)

    def _load(self, read: Callable[[Path], T], **what: str) -> T:
        with tempfile.TemporaryDirectory() as folder:
            lacking = f"the artifact {' '.join(what.values())} cannot be had"
            with input_error(lacking):
                fetched = mlflow.artifacts.download_artifacts(**what, dst_path=folder)
            try:
                return read(Path(fetched))
            except KgcalError:
                raise
            except (SafetensorError, OSError, ValueError, KeyError) as error:
                raise InputError(f"{lacking}: {first_line(error)}") from error

    def artifacts(self, run_id: str) -> dict[str, int]:
        """Path -> size of every file that a run logged, those of its models under models/ID/."""
        sizes = dict(_walk(lambda path: self.client.list_artifacts(run_id, path)))
        for model_id in self.model_ids(run_id):
            files = _walk(partial(self.client.list_logged_model_artifacts, model_id))
            sizes |= {f"models/{model_id}/{path}": size for path, size in files}
        return sizes

    def complete(self, run: Run) -> bool:
        """Whether everything the run logged is still there, with its size."""
        expected = json.loads(run.data.tags.get("kgcal.artifacts", "null"))
        try:
            return expected is not None and expected.items() <= self.artifacts(run.info.run_id).items()
        except MlflowException:
            return False


def _walk(listing: Callable[[str | None], list[FileInfo]], path: str | None = None) -> Iterator[tuple[str, int]]:
    for entry in listing(path):
        if entry.is_dir:
            yield from _walk(listing, entry.path)
        else:
            yield entry.path, entry.file_size or 0


@cache
def _store(uri: str, home: Path, experiment: str) -> Store:
    return Store(uri)


def open_store() -> Store:
    """The store that the environment names; opened once a process."""
    mlflow.set_tracking_uri(tracking_uri())  # what `models:/...` is looked up in
    return _store(tracking_uri(), ensure_home(), experiment_name())
