"""The typed record of a run, and MLflow's objects for what a run logs. Only this file knows the names of run tags.

`RunTags` has three uses: to open a run with tags, to add tags to a run, and to search runs by their tags. `RunRecord`
is a run as read from the store. `patient` returns a client that records nothing twice, even if an answer is lost.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from kgcore.config.base import value_text
from kgcore.errors import InputError, first_line, masked
from tasks.workspace.settings import caller, own_uri, project_run_id

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Param, Run, RunTag

_MISSING_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
FINISHED, RUNNING, FAILED, KILLED = "FINISHED", "RUNNING", "FAILED", "KILLED"
LATEST = "latest"  # names the newest finished pipeline where a user names a run
ENSEMBLE_NAME = "ensemble"  # stage of an ensemble's run; value of the parameter `model` in its measurements
CALIBRATE_SCORES = "calibrate-scores"  # stage of a run that calibrates scores of any scorer
APPLY_SCORES = "apply-scores"  # stage of a run in which a stored calibrator of scores answers
WATCH_SCORES = "watch-scores"  # stage of a run that checks a calibrator of scores on newly labelled rows
TRAINING, EVALUATION = "training", "evaluation"  # MLflow's contexts of a data set; on test, a run evaluates
_SHORT = {"ground_truth": "gt", "synthetic": "syn", "candidates": "cand"}
_INPUT = "kgcal.input."
_JSON = {"config", "artifacts", "judged", "counts"}  # tags whose values are not text


def quoted(text: str) -> str:
    """Return the text as a string literal in an MLflow filter.

    Raises InputError if the text contains both kinds of quotes: MLflow's filters have no escapes.
    """
    if "'" in text and '"' in text:
        raise InputError(f"MLflow cannot search for {text}: a name must not contain both ' and \"")
    return f'"{text}"' if "'" in text else f"'{text}'"


@dataclass(frozen=True)
class DatasetId:
    """The identity of a data set: its name, and the fingerprint of its triples."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class RunTags:
    """The tags of a run. None: the run does not have the tag.

    Tags of every run:
        stage      name of the stage or job: prepare, ..., pipeline, measurement, tune, trial, promote, watch, ...
        key        hash of everything that the result depends on: runs with the same key have the same result
        config     its settings, by name
        inputs     upstream stage -> run id; for the members of an ensemble STAGE.NUMBER -> run id
        artifacts  path -> size in bytes of the files that it logged (see `Store.sizes`)
        owner      hash of the host name and the folder KGCAL_HOME of the process that opened it
        flow_run   id of the Prefect flow run
        parent     id of the run that it is nested under
        note       Markdown that the UI shows as its description

    Tags of one kind of run:
        dataset, digest  prepare: name and fingerprint of the graph. pipelines, decisions and other jobs about a data
                         set: `dataset` is its name
        test             prepare, exam: fingerprint of the test split. measurement: of the measured rows
        labels           prepare: name of the file of added labels
        candidates       match: name of the file of candidates, or of the held-out split
        training         train: hash of everything that the model depends on: settings, training triples and code
        adopted          train: the run whose model this run uses
        moved            calibrate: the run whose calibrators were shifted to another base rate
        model            pipeline of a recalibration: the train run whose model it uses
        base_rate        calibrate, evaluate, pipeline: the base rate and where it comes from, such as "0.5, assumed"
        check            watch: hash of champion, labels and settings of the newest check
        recalibrated     watch: the pipeline that recalibrated the model after the newest check; '': none
        exam, era        exam, promote: version of the exam, and era of the paper (kgcore/wings/monitoring/exam.py)
        paper            promote: hash of the paper, and its base rate
        judged           promote: the challengers that are not judged again on this paper, as hashes of their contents
        study, best      search: the file of its study, and the run of its best trial
        counts           search: state -> number of trials
        state            trial: its final state
    """

    stage: str | None = None
    key: str | None = None
    config: Mapping[str, object] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, int] | None = None
    owner: str | None = None
    flow_run: str | None = None
    parent: str | None = None
    note: str | None = None
    dataset: str | None = None
    digest: str | None = None
    test: str | None = None
    labels: str | None = None
    candidates: str | None = None
    training: str | None = None
    adopted: str | None = None
    moved: str | None = None
    model: str | None = None
    base_rate: str | None = None
    check: str | None = None
    recalibrated: str | None = None
    exam: str | None = None
    era: str | None = None
    paper: str | None = None
    judged: Sequence[str] | None = None
    study: str | None = None
    best: str | None = None
    counts: Mapping[str, int] | None = None
    state: str | None = None

    def to_mlflow(self) -> dict[str, str]:
        """Return the tags that are set, by their names in MLflow."""
        values = {name: value for name in _NAMES if (value := getattr(self, name)) is not None}
        tags = {_NAMES[name]: json.dumps(value) if name in _JSON else str(value) for name, value in values.items()}
        return tags | {f"{_INPUT}{stage}": run_id for stage, run_id in self.inputs.items()}

    def of_dataset(self, params: Mapping[str, object]) -> Self:
        """Return the tags with the data set that the parameters of the run name, if they name one."""
        return replace(self, dataset=str(params["dataset"])) if "dataset" in params else self

    def of_new_run(self) -> dict[str, str]:
        """Return the tags as `to_mlflow` does, and MLflow's tags of its source and, without a parent, of its caller."""
        user, commit = caller() if self.parent is None else ("", "")
        own = {"source.name": "kgcal", "source.type": "LOCAL", "user": user, "source.git.commit": commit}
        return self.to_mlflow() | {f"mlflow.{name}": value for name, value in own.items() if value}

    @classmethod
    def from_mlflow(cls, tags: Mapping[str, str]) -> Self:
        """Read the tags of a run. Tags of other programs and other versions of kgcal are ignored."""
        texts = {name: tags[tag] for name, tag in _NAMES.items() if tag in tags}
        values: Mapping[str, Any] = {name: json.loads(text) if name in _JSON else text for name, text in texts.items()}
        inputs = {name.removeprefix(_INPUT): run_id for name, run_id in tags.items() if name.startswith(_INPUT)}
        return cls(**values, inputs=inputs)

    def where(self, status: str | None) -> str:
        """Return MLflow's filter for runs that have these tags.

        status  the status of the runs; None: any

        Raises InputError as `quoted` does.
        """
        conditions = [f"tags.`{name}` = {quoted(value)}" for name, value in self.to_mlflow().items()]
        return " and ".join(conditions + ([f"attributes.status = '{status}'"] if status else []))


# field of RunTags -> name of the tag. The UI shows the note as the description of the run
_NAMES = {item.name: f"kgcal.{item.name}" for item in fields(RunTags) if item.name != "inputs"}
_NAMES |= {"parent": "mlflow.parentRunId", "note": "mlflow.note.content"}


@dataclass(frozen=True)
class RunRecord:
    """A run, as read from the store.

    started, ended  seconds since 1970; `ended` is None while the run is open
    model_ids       ids of the LoggedModels that it logged, in the order of `number` in `Store.log_model`
    """

    run_id: str
    name: str
    status: str
    started: float
    ended: float | None
    tags: RunTags
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    model_ids: tuple[str, ...]

    @classmethod
    def of(cls, run: "Run") -> Self:
        """Return the record of an MLflow run."""
        made = sorted(run.outputs.model_outputs if run.outputs else [], key=lambda output: output.step)
        return cls(
            run_id=run.info.run_id,
            name=str(run.info.run_name),
            status=run.info.status,
            started=run.info.start_time / 1000,
            ended=run.info.end_time / 1000 if run.info.end_time else None,
            tags=RunTags.from_mlflow(run.data.tags),
            params=run.data.params,
            metrics=run.data.metrics,
            model_ids=tuple(str(output.model_id) for output in made),
        )

    @property
    def dataset(self) -> DatasetId:
        """The data set of a prepare run."""
        return DatasetId(self.tags.dataset or "", self.tags.digest or "")

    def check_finished(self, stage: str) -> None:
        """Raise InputError if this is a run of another stage, or is not finished."""
        if self.tags.stage != stage:
            was = self.tags.stage or "none"
            raise InputError(f"run {self.run_id} is of stage {was}: a run of stage {stage} is needed")
        if self.status != FINISHED:
            raise InputError(f"run {self.run_id} of stage {stage} is {self.status}: a FINISHED run is needed")

    @property
    def lineage(self) -> dict[str, str]:
        """Stage -> run id of all upstream runs, and of this run."""
        return {**self.tags.inputs, self.tags.stage or "": self.run_id}


@dataclass(frozen=True)
class LoggedModel:
    """A LoggedModel, as read from the store.

    run_id       the run that logged it
    params       parameters by which users compare models
    label        label of a calibrator or ensemble, for example `synthetic.isotonic`; '' for an embedding model
    base_model   id of a calibrator's embedding model; '' for other models
    fingerprint  hash of an embedding model's parameters; '' for other models
    """

    model_id: str
    name: str
    run_id: str | None
    params: dict[str, str]
    label: str
    base_model: str
    fingerprint: str


def short_label(label: str) -> str:
    """Return the short label of a calibrator for metric names: `gt.isotonic` for `ground_truth.isotonic`."""
    negatives, _, name = label.rpartition(".")
    return f"{_SHORT[negatives]}.{name}" if negatives else name


def labelled_metrics(label: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of the calibrator with that label, under names such as `gt.isotonic.brier`."""
    return {f"{short_label(label)}.{name}": value for name, value in metrics.items()}


def shares_text(shares: Mapping[str, float]) -> str:
    """Return corruption strategies and their shares as text: `typed`, or `typed=0.5 uniform=0.5`."""
    return next(iter(shares)) if len(shares) == 1 else " ".join(f"{name}={share:g}" for name, share in shares.items())


def model_name(text: str) -> str:
    """Return the text as a name that MLflow accepts for a model: with a hyphen in place of each / : . % " and '."""
    return re.sub(r"""[/:.%"']""", "-", text)


def metric_entries(
    run_id: str, rows: Sequence[tuple[str | None, str, float, int]], dataset: DatasetId | None
) -> "list[Metric]":
    """Return metrics of a run on a data set. A row is the id of a LoggedModel or None, name, value and step."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    name, digest = (dataset.name, dataset.digest) if dataset else (None, None)
    return [Metric(key, value, now, step, model_id, name, digest, run_id) for model_id, key, value, step in rows]


def param_entries(params: Mapping[str, object]) -> "list[Param]":
    """Return parameters as text: a setting is spelt as on the command line."""
    from mlflow.entities import Param

    texts = {name: ", ".join(v) if isinstance(v, tuple) else value_text(v) for name, v in params.items()}
    return [Param(name, text) for name, text in texts.items()]


def tag_entries(tags: RunTags) -> "list[RunTag]":
    """Return the tags that are not None."""
    from mlflow.entities import RunTag

    return [RunTag(name, value) for name, value in tags.to_mlflow().items()]


def dataset_entry(dataset: DatasetId, source: str, counts: Mapping[str, int], context: str) -> "DatasetInput":
    """Return a data set as the input of a run.

    source   address, title or name of its files
    counts   name -> number, for example of triples in a split
    context  TRAINING or EVALUATION: what the run does with it
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag

    entity = Dataset(
        name=dataset.name,
        digest=dataset.digest,
        source_type="http" if source.startswith("http") else "code",
        source=json.dumps({"url": source}),
        profile=json.dumps(dict(counts)),
    )
    return DatasetInput(entity, [InputTag("mlflow.data.context", context)])


def run_of(client: "MlflowClient", uri: str, run_id: str) -> "Run":
    """Return the MLflow run of that id. Raises InputError if it does not exist or is deleted."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code not in _MISSING_RUN:
            raise unreachable(uri, error) from error
        raise InputError(f"the run {run_id!r} does not exist in {masked(uri)}{hint(uri)}") from None
    if run.info.lifecycle_stage != "active":
        raise InputError(f"the MLflow run {run_id} is deleted: restore it, or use another run")
    return run


def unreachable(uri: str, error: Exception) -> InputError:
    """Return the InputError for a store that does not answer."""
    return InputError(f"the MLflow store {masked(uri)} does not answer: {masked(first_line(error))}")


def hint(uri: str) -> str:
    """Return a hint to add to the error that a run is not in the store `uri`; '' if no hint applies.

    Without MLFLOW_TRACKING_URI, `mlflow run` opens its own store, which does not contain kgcal's runs.
    """
    if project_run_id() is None or uri == own_uri() or uri.startswith("http"):
        return ""
    return f": to use kgcal's runs, `export MLFLOW_TRACKING_URI={own_uri()}` before `mlflow run`"


def patient(client: "MlflowClient", patience: Callable[..., Any]) -> "MlflowClient":
    """Return a client whose requests are made with patience and create nothing twice.

    It must create a run with its start time, and a LoggedModel with its run.
    """
    return cast("MlflowClient", _PatientClient(client, patience))


class _PatientClient:
    def __init__(self, client: "MlflowClient", patience: Callable[..., Any]) -> None:
        self._client, self._patience = client, patience

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method, made = getattr(self._client, name), _MADE.get(name, lambda *values, **options: None)
        return lambda *values, **options: self._patience(
            partial(method, *values, **options), partial(made, self._client, *values, **options)
        )


def _made_experiment(client: "MlflowClient", name: str, **options: Any) -> str | None:
    found = client.get_experiment_by_name(name)
    return None if found is None else str(found.experiment_id)


def _made_run(client: "MlflowClient", experiment: str, tags: dict[str, str], run_name: str, start_time: int) -> Any:
    runs = client.search_runs([experiment], f"attributes.start_time = {start_time}")
    return next((run for run in runs if tags.items() <= run.data.tags.items()), None)


def _made_batch(client: "MlflowClient", run_id: str, metrics: Sequence[Any] = (), *other: Any, **more: Any) -> Any:
    first = next((metric for metric in metrics if metric.model_id), None)  # MLflow refuses only these a second time
    if first is None:
        return None
    known = client.get_logged_model(first.model_id).metrics or []
    return any((m.key, m.timestamp, m.run_id) == (first.key, first.timestamp, run_id) for m in known) or None


def _made_model(client: "MlflowClient", experiment: str, name: str, source_run_id: str, **options: Any) -> Any:
    models = client.search_logged_models([experiment], f"name = {quoted(name)}")
    return next((m for m in models if m.source_run_id == source_run_id and m.status == "PENDING"), None)


def _made_outputs(client: "MlflowClient", run_id: str, models: list[Any]) -> Any:
    outputs = client.get_run(run_id).outputs
    known = {model.model_id for model in outputs.model_outputs} if outputs else set()
    return {model.model_id for model in models} <= known or None


def _made_registered_model(client: "MlflowClient", name: str, **options: Any) -> Any:
    return next(iter(client.search_registered_models(f"name = {quoted(name)}")), None)


def _made_version(
    client: "MlflowClient", name: str, source: str, run_id: str, tags: dict[str, str], **other: Any
) -> Any:
    versions = client.search_model_versions(f"name = {quoted(name)}")
    return next((version for version in versions if version.tags == tags), None)


# method of MlflowClient that must not be called twice -> returns what a call with these arguments has made, or None
_MADE: dict[str, Callable[..., Any]] = {
    "create_experiment": _made_experiment,
    "create_run": _made_run,
    "log_batch": _made_batch,
    "create_logged_model": _made_model,
    "log_outputs": _made_outputs,
    "create_registered_model": _made_registered_model,
    "create_model_version": _made_version,
}
