"""The methods that write to an MLflow store: open runs, log metrics, artifacts and models.

reading.py has the methods that read.
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import mlflow
from filelock import FileLock, Timeout
from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput, Metric, Param, RunTag

from tasks.tracking.labels import model_name
from tasks.tracking.places import input_error
from tasks.tracking.reading import Reader
from tasks.tracking.record import FAILED, FINISHED, KILLED, RUNNING, DatasetId, RunTags
from tasks.workspace.settings import ensure_home, experiment_name, project_run_id, tracking_uri

METRICS_PER_CALL = 1000  # the most that MLflow accepts
PER_CALL_WITH_PARAMS = 900  # metrics beside at most 100 parameters


class Store(Reader):
    """A tracking store. It reads and writes runs, artifacts and models."""

    _outermost_is_open = False  # whether this process has opened a run without a parent

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._without_params: set[str] = set()  # runs that this process has created, and that have no parameters yet

    @contextmanager
    def open_run(self, name: str, tags: RunTags, resume: str | None = None) -> Iterator[str]:
        """Open a run for the block, and yield its id.

        resume  id of a run to open again; None: a new run

        The run ends as FINISHED, as FAILED if the block raises an error, or as KILLED if it is interrupted. If
        `mlflow run` has opened a run for this process, the first new run without a parent is not created: that run is
        used. The process holds a lock while the run is open, so that `mark_dead_runs` knows that the process lives.
        """
        if tags.parent is None and not self._outermost_is_open:
            self._outermost_is_open = True
            if resume is None:
                resume = project_run_id()
            else:
                self.log_reuse(resume)
        with FileLock(self.home / "owners.lock"):
            try:
                run_id = self._begin(name, replace(tags, owner=self.owner), resume)
                alive = self._alive(run_id)
                alive.acquire()
            except BaseException as reason:
                if not isinstance(reason, Exception):  # an interruption, perhaps after the store had created the run
                    self._kill_dead_runs()
                raise
        try:
            yield run_id
            self.client.set_terminated(run_id, FINISHED)
        except BaseException as reason:
            self.client.set_terminated(run_id, FAILED if isinstance(reason, Exception) else KILLED)
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
        source = {"mlflow.source.name": "kgcal"}
        made = self.client.create_run(self.experiment_id, tags=tags.to_mlflow() | source, run_name=name)
        run_id = str(made.info.run_id)
        self._infos[run_id] = made.info
        self._without_params.add(run_id)
        return run_id

    def _alive(self, run_id: str) -> FileLock:
        folder = self.home / "locks"
        folder.mkdir(exist_ok=True)
        return FileLock(folder / f"run-{run_id}.lock", timeout=0)

    def mark_dead_runs(self) -> None:
        """Mark as KILLED the runs of this home that are RUNNING in the store although their process has ended."""
        with FileLock(self.home / "owners.lock"):
            self._kill_dead_runs()

    def _kill_dead_runs(self) -> None:
        """Do what `mark_dead_runs` does. The caller holds owners.lock, so no process is creating a run."""
        for run in self.find(RunTags(owner=self.owner), newest=1000, status=RUNNING):
            alive = self._alive(run.run_id)
            try:
                with alive:
                    if self.get(run.run_id).status == RUNNING:  # it may have ended after the search
                        self.client.set_terminated(run.run_id, KILLED)
            except Timeout:
                continue
            Path(alive.lock_file).unlink(missing_ok=True)

    def log_files(self, run_id: str, folder: Path) -> None:
        """Log the folder's files as artifacts of the run. Raises InputError if they cannot be written."""
        with input_error(f"the artifacts of run {run_id} cannot be written"):
            self._files_of(run_id).log_artifacts(str(folder))

    def log_json(self, run_id: str, value: object, path: str) -> None:
        """Log a JSON file as an artifact of the run, at that path."""
        self.client.log_text(run_id, json.dumps(value, indent=1), path)

    def log_params(self, run_id: str, params: Mapping[str, object]) -> None:
        """Log parameters as text, except those that the run already has: `mlflow run`, for example, logged them."""
        there = {} if run_id in self._without_params else self.get(run_id).params
        self._without_params.discard(run_id)
        new = {name: value for name, value in params.items() if name not in there}
        self.client.log_batch(run_id, params=_params(new))

    def log_metrics(
        self,
        run_id: str,
        metrics: Mapping[str, float],
        step: int = 0,
        model_id: str | None = None,
        dataset: DatasetId | None = None,
    ) -> None:
        """Log metrics of a run at a step. Link them to a LoggedModel and to a data set if these are given."""
        now = int(time.time() * 1000)
        name, digest = (dataset.name, dataset.digest) if dataset else (None, None)
        entries = [Metric(key, value, now, step, model_id, name, digest, run_id) for key, value in metrics.items()]
        self.client.log_batch(run_id, metrics=entries)

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
        now, (name, digest) = int(time.time() * 1000), (dataset.name, dataset.digest)
        rows = [(model_id, *row) for model_id, own in metrics.items() for row in own.items()]
        entries = [Metric(key, value, now, 0, model_id, name, digest, run_id) for model_id, key, value in rows]
        if params:
            self._without_params.discard(run_id)
            self.client.log_batch(run_id, entries[:PER_CALL_WITH_PARAMS], _params(params))
            entries = entries[PER_CALL_WITH_PARAMS:]
        for start in range(0, len(entries), METRICS_PER_CALL):
            self.client.log_batch(run_id, metrics=entries[start : start + METRICS_PER_CALL])

    def log_series(self, run_id: str, name: str, values: Sequence[float], dataset: DatasetId, first: int = 1) -> None:
        """Log the values of a metric on a data set, at the steps first, first + 1, ..."""
        now = int(time.time() * 1000)
        steps = enumerate(values, start=first)
        entries = [Metric(name, value, now, step, None, dataset.name, dataset.digest, run_id) for step, value in steps]
        for start in range(0, len(entries), METRICS_PER_CALL):
            self.client.log_batch(run_id, metrics=entries[start : start + METRICS_PER_CALL])

    def log_tags(self, run_id: str, tags: RunTags) -> None:
        """Set the tags that are not None."""
        self.client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.to_mlflow().items()])

    def log_reuse(self, run_id: str) -> None:
        """If `mlflow run` has opened a run for this process, note there that `run_id` is re-used, and end that run."""
        if (opened := project_run_id()) is not None:
            self.log_tags(opened, RunTags(note=f"Nothing to do: re-used run `{run_id}`."))
            self.client.set_terminated(opened, FINISHED)

    def log_dataset(self, run_id: str, dataset: DatasetId, source: str, counts: Mapping[str, int]) -> None:
        """Log a data set as the run's input.

        source  address, title or name of its files
        counts  name -> number, for example of triples in a split
        """
        entity = Dataset(
            name=dataset.name,
            digest=dataset.digest,
            source_type="http" if source.startswith("http") else "code",
            source=json.dumps({"url": source}),
            profile=json.dumps(dict(counts)),
        )
        self.client.log_inputs(run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "training")])])

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
        model = self.client.create_logged_model(
            self._info(run_id).experiment_id,
            name=model_name(name),
            source_run_id=run_id,
            params={key: str(value) for key, value in params.items()},
            tags=dict(tags),
        )
        self._models[model.model_id] = model
        self.add_model_files(model.model_id, write)
        self.client.finalize_logged_model(model.model_id, "READY")
        self.client.log_outputs(run_id, [LoggedModelOutput(model.model_id, number)])
        return model.model_id

    def add_model_files(self, model_id: str, write: Callable[[Path], object]) -> None:
        """Add files to a LoggedModel.

        write  function that writes the files into an empty folder

        Raises InputError if they cannot be written to the store.
        """
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
            with input_error(f"the files of the model {model_id} cannot be written"):
                self._files_of_model(model_id).log_artifacts(folder)


def _params(params: Mapping[str, object]) -> list[Param]:
    texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in params.items()}
    return [Param(name, text) for name, text in texts.items()]


@cache
def _store(uri: str, home: Path, experiment: str) -> Store:
    return Store(uri)


def open_store() -> Store:
    """Return the store that the environment names; open it once per process. Raises InputError if that fails."""
    mlflow.set_tracking_uri(tracking_uri())  # MLflow looks up `models:/...` there
    return _store(tracking_uri(), ensure_home(), experiment_name())
