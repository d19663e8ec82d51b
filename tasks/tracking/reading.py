"""The methods that read an MLflow store: runs by id and by tags, artifacts, models, and the values of a metric."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mlflow.entities import FileInfo, Run, RunInfo, ViewType
from mlflow.entities import LoggedModel as MlflowModel
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.entities import PagedList
from safetensors import SafetensorError
from sqlalchemy.exc import SQLAlchemyError

from kgcore.errors import InputError, KgcalError, first_line
from tasks.tracking.connection import Connection
from tasks.tracking.handles import Artifact, LoggedModel, ModelFiles
from tasks.tracking.places import input_error
from tasks.tracking.record import FINISHED, RunRecord, RunTags, quoted

T = TypeVar("T")
PAGE = 1000  # runs that one request returns
# Files that MLflow writes beside MLmodel, and that loading does not need. A run does not record them: MLflow cuts the
# text of a tag at 8,000 characters, and a run may have dozens of calibrators.
BESIDE_MLMODEL = {
    "conda.yaml",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "serving_input_example.json",
}


class Reader(Connection):
    """A tracking store that can be read. `Store` adds the methods that write."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._infos: dict[str, RunInfo] = {}  # run id -> what never changes: its experiment, the URI of its artifacts
        self._finished: dict[str, RunRecord] = {}  # the finished runs that were read, as they were then
        self._models: dict[str, MlflowModel] = {}  # id -> LoggedModel, as it was created

    def get(self, run_id: str) -> RunRecord:
        """Return the run of that id. Raises InputError if it does not exist or is deleted."""
        return self._record(self._run(run_id))

    def known(self, run_id: str) -> RunRecord:
        """Return the run as this process has read it last, if it had finished then; otherwise read it, as `get` does.

        A finished run of a stage does not change, and the inputs of a run, of a calibrator and of a champion are such
        runs. They are read many times. That one of them was deleted since is not noticed.
        """
        return self._finished.get(run_id) or self.get(run_id)

    def get_all(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Return the runs of these ids, at most 1000, in their order. One search finds them.

        Raises InputError as `get` does.
        """
        names = ", ".join(quoted(run_id) for run_id in run_ids)
        page = self._page(len(run_ids), None, f"attributes.run_id IN ({names})")
        found = {run.run_id: run for run in map(self._record, page)}
        return [found.get(run_id) or self.get(run_id) for run_id in run_ids]

    def find(self, tags: RunTags, newest: int = 1, status: str | None = FINISHED) -> list[RunRecord]:
        """Return runs that have these tags, newest first.

        newest  largest number of runs
        status  the status of the runs; None: any

        Raises InputError if the store does not answer.
        """
        return [self._record(run) for run in self._page(newest, None, tags.where(status))]

    def find_all(self, tags: RunTags) -> list[RunRecord]:
        """Return every finished run that has these tags, newest first.

        Raises InputError if the store does not answer.
        """
        found = self._page(PAGE, None, tags.where(FINISHED))
        runs = list(found)
        while found.token:
            found = self._page(PAGE, found.token, tags.where(FINISHED))
            runs += found
        return [self._record(run) for run in runs]

    def _record(self, run: Run) -> RunRecord:
        """Return the record of a run, and note where it is and, if it has finished, what it is."""
        self._infos[run.info.run_id], record = run.info, RunRecord.of(run)
        self._finished.pop(record.run_id, None)
        if record.status == FINISHED:
            self._finished[record.run_id] = record
        return record

    def _page(self, size: int, token: str | None, condition: str) -> PagedList[Run]:
        order = ["attributes.start_time DESC"]
        try:
            experiments = [e.experiment_id for e in self.client.search_experiments()]
            return self.client.search_runs(experiments, condition, ViewType.ACTIVE_ONLY, size, order, token)
        except (MlflowException, SQLAlchemyError) as error:
            raise self.unreachable(error) from error

    def finished(self, stage: str, run_id: str) -> RunRecord:
        """Return a run. Raises InputError if it does not exist, is a run of another stage, or is not finished."""
        run = self.get(run_id)
        if run.tags.stage != stage:
            raise InputError(f"run {run_id} is of stage {run.tags.stage or 'none'}: a run of stage {stage} is needed")
        if run.status != FINISHED:
            raise InputError(f"run {run_id} of stage {stage} is {run.status}: a FINISHED run is needed")
        return run

    def load(self, run_id: str, artifact: Artifact[T]) -> T:
        """Return an artifact of a run. Raises InputError if it is missing or damaged."""
        what = f"the artifact {artifact.path} of run {run_id}"
        with tempfile.TemporaryDirectory() as folder:
            with input_error(f"{what} cannot be read"):
                fetched = self._files_of(run_id).download_artifacts(artifact.path, dst_path=folder)
            return _read(what, artifact.read, Path(fetched))

    def load_model(self, model_id: str, files: ModelFiles[T]) -> T:
        """Read the files of a LoggedModel, and return the object. Raises InputError if they are missing or damaged."""
        what = f"the files of the model {model_id}"
        with tempfile.TemporaryDirectory() as folder:
            self._fetch_model(Path(folder), model_id, files.file)
            return _read(what, files.read, Path(folder))

    def copy(self, target: Path, run_id: str, path: str) -> None:
        """Copy a file or folder of a run's artifacts into a folder. Raises InputError if it is missing."""
        with input_error(f"the artifact {path} of run {run_id} cannot be read"):
            self._files_of(run_id).download_artifacts(path, dst_path=str(target))

    def _files_of(self, run_id: str) -> Any:
        """Return MLflow's access to the files of a run."""
        return get_artifact_repository(str(self._info(run_id).artifact_uri), tracking_uri=self.uri)

    def _files_of_model(self, model_id: str) -> Any:
        """Return MLflow's access to the files of a LoggedModel."""
        return get_artifact_repository(str(self._model(model_id).artifact_location), tracking_uri=self.uri)

    def _model(self, model_id: str) -> MlflowModel:
        """Return a LoggedModel. The store is asked once: that it was deleted since is not noticed."""
        if model_id not in self._models:
            self._models[model_id] = self.client.get_logged_model(model_id)
        return self._models[model_id]

    def _info(self, run_id: str) -> RunInfo:
        """Return where a run is. The store is asked once. Only the experiment and the artifacts' URI are up to date."""
        if run_id not in self._infos:
            self._infos[run_id] = self.client.get_run(run_id).info
        return self._infos[run_id]

    def copy_model(self, target: Path, model_id: str) -> None:
        """Copy the files of a LoggedModel into a folder. Raises InputError if they are missing."""
        self._fetch_model(target, model_id, "")

    def _fetch_model(self, target: Path, model_id: str, path: str) -> None:
        """Copy a file of a LoggedModel into a folder, or all of its files if the path is ''."""
        with input_error(f"the files of the model {model_id} cannot be read"):
            self._files_of_model(model_id).download_artifacts(path, dst_path=str(target))

    def model(self, model_id: str) -> LoggedModel:
        """Return the record of a LoggedModel. Raises InputError if it does not exist."""
        try:
            found = self._model(model_id)
        except MlflowException as error:
            raise InputError(f"the model {model_id} does not exist in {self.place}: {first_line(error)}") from error
        tags = found.tags
        labels = (tags.get("label", ""), tags.get("base_model", ""), tags.get("fingerprint", ""))
        return LoggedModel(str(found.model_id), str(found.name), found.source_run_id, dict(found.params), *labels)

    def series(self, run_id: str, metric: str) -> list[float]:
        """Return the values of a run's metric, in the order of its steps."""
        points = self.client.get_metric_history(run_id, metric)
        return [point.value for point in sorted(points, key=lambda point: point.step)]

    def sizes(self, run_id: str) -> dict[str, int]:
        """Return path -> size in bytes of the files that a run logged. Files of its models are under models/ID/.

        The files BESIDE_MLMODEL are left out.
        """
        return self._sizes(self.get(run_id))

    def _sizes(self, run: RunRecord) -> dict[str, int]:
        sizes = dict(_walk(self._files_of(run.run_id).list_artifacts))
        for model_id in run.model_ids:
            files = self.model_sizes(model_id).items()
            sizes |= {f"models/{model_id}/{path}": size for path, size in files if path not in BESIDE_MLMODEL}
        return sizes

    def model_sizes(self, model_id: str) -> dict[str, int]:
        """Return path -> size in bytes of every file of a LoggedModel."""
        return dict(_walk(self._files_of_model(model_id).list_artifacts))

    def complete(self, run: RunRecord) -> bool:
        """Return whether every file that the run logged still exists, with the same size."""
        expected = run.tags.artifacts
        try:
            return expected is not None and expected.items() <= self._sizes(run).items()
        except MlflowException:
            return False


def _read(what: str, read: Callable[[Path], T], place: Path) -> T:
    try:
        return read(place)
    except KgcalError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise InputError(f"{what} cannot be read: {first_line(error)}") from error


def _walk(listing: Callable[[str | None], list[FileInfo]], path: str | None = None) -> Iterator[tuple[str, int]]:
    for entry in listing(path):
        if entry.is_dir:
            yield from _walk(listing, entry.path)
        else:
            yield entry.path, entry.file_size or 0
