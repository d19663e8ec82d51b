"""A run of the store as a typed record: the only place that knows how it is spelt in MLflow's tags.

`RunTags` serves three purposes: the tags that a run is opened with, the tags that are added to it, and the pattern that
runs are searched by. `RunRecord` is a run as it was read.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from mlflow.entities import Run

from kgcore.errors import InputError
from tasks.tracking.former import current_settings

FINISHED, RUNNING, FAILED, KILLED = "FINISHED", "RUNNING", "FAILED", "KILLED"
_PREFIX = "kgcal."
_INPUT = f"{_PREFIX}input."
_PARENT = "mlflow.parentRunId"
_NOTE = "mlflow.note.content"  # the description that the UI shows


def _tag(name: str, write: Callable[[Any], str] = str, read: Callable[[str], Any] = str) -> Any:
    """A field that is the tag of that name; None where a run does not have it."""
    return field(default=None, metadata={"tag": name, "write": write, "read": read})


def quoted(text: str) -> str:
    """The text as a string of MLflow's filters. Raises InputError for a text with both kinds of quotes, which MLflow
    cannot spell."""
    if "'" in text and '"' in text:
        raise InputError(f"MLflow cannot search for {text}: a name must not contain both ' and \"")
    return f'"{text}"' if "'" in text else f"'{text}'"


@dataclass(frozen=True)
class DatasetId:
    """A data set as runs name it: its name, and the fingerprint of its triples."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class RunTags:
    """The tags of a run; None = not set.

    stage            the stage or job: prepare, train, ..., pipeline, measurement, tune, trial, promote, watch, ...
    key              what its result depends on, as a hash: runs of the same key are interchangeable
    config           its settings, by name
    inputs           upstream stage -> run id; of an ensemble's members STAGE.NUMBER -> run id
    artifacts        path -> size of every file that it logged
    owner            the home whose process runs it
    flow_run         id of the Prefect flow run
    parent           run that it is nested under
    note             Markdown that the UI shows as its description
    dataset, digest  of a prepare run: name and fingerprint of the graph
    test             of a prepare run: fingerprint of the test split
    labels           of a prepare run: name of the file of labels that were added
    training         of a train run: what the model depends on; equal for graphs with the same training triples
    adopted          of a train run: the run whose model it took over
    moved            of a calibrate run: the run whose calibrators were moved to another base rate
    model            of a recalibration: the train run
    look             of a watch run: the newest look's champion, labels and settings, as a hash
    recalibrated     of a watch run: the pipeline that the newest look led to; '' = none
    study, best      of a search: the file of its study, and the run of its best trial
    counts           of a search: trials by how they ended
    state            of a trial: how it ended
    """

    stage: str | None = _tag("kgcal.stage")
    key: str | None = _tag("kgcal.key")
    config: Mapping[str, object] | None = _tag("kgcal.config", json.dumps, json.loads)
    inputs: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, int] | None = _tag("kgcal.artifacts", json.dumps, json.loads)
    owner: str | None = _tag("kgcal.owner")
    flow_run: str | None = _tag("kgcal.prefect_flow_run")
    parent: str | None = _tag(_PARENT)
    note: str | None = _tag(_NOTE)
    dataset: str | None = _tag("kgcal.dataset")
    digest: str | None = _tag("kgcal.digest")
    test: str | None = _tag("kgcal.test")
    labels: str | None = _tag("kgcal.labels")
    training: str | None = _tag("kgcal.training")
    adopted: str | None = _tag("kgcal.adopted")
    moved: str | None = _tag("kgcal.moved")
    model: str | None = _tag("kgcal.model")
    look: str | None = _tag("kgcal.look")
    recalibrated: str | None = _tag("kgcal.recalibrated")
    study: str | None = _tag("kgcal.study")
    best: str | None = _tag("kgcal.best")
    counts: Mapping[str, int] | None = _tag("kgcal.trials", json.dumps, json.loads)
    state: str | None = _tag("kgcal.state")

    def to_mlflow(self) -> dict[str, str]:
        """The tags that are set, by their names in MLflow."""
        tags = {
            item.metadata["tag"]: item.metadata["write"](getattr(self, item.name))
            for item in fields(self)
            if item.metadata and getattr(self, item.name) is not None
        }
        return tags | {f"{_INPUT}{stage}": run_id for stage, run_id in self.inputs.items()}

    @classmethod
    def from_mlflow(cls, tags: Mapping[str, str]) -> Self:
        """The tags of a run; what other versions or programs have set is left out.

        Settings that earlier versions recorded have their names of this version.
        """
        values = {
            item.name: item.metadata["read"](tags[item.metadata["tag"]])
            for item in fields(cls)
            if item.metadata and item.metadata["tag"] in tags
        }
        if "config" in values:
            values["config"] = current_settings(values.get("stage"), values["config"])
        inputs = {name.removeprefix(_INPUT): run_id for name, run_id in tags.items() if name.startswith(_INPUT)}
        return cls(**values, inputs=inputs)

    def where(self, status: str | None) -> str:
        """MLflow's filter for runs of that status (None = any) that have these tags. Raises InputError as `quoted`."""
        wanted = [f"tags.`{name}` = {quoted(value)}" for name, value in self.to_mlflow().items()]
        return " and ".join(wanted + ([f"attributes.status = '{status}'"] if status else []))


@dataclass(frozen=True)
class RunRecord:
    """A run as it was read from the store.

    started, ended  seconds since 1970; `ended` is None while it runs
    model_ids       the LoggedModels that it made, in their order
    """

    run_id: str
    name: str
    status: str
    experiment_id: str
    started: float
    ended: float | None
    tags: RunTags
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    model_ids: tuple[str, ...]

    @classmethod
    def of(cls, run: Run) -> Self:
        """The record of an MLflow run."""
        made = sorted(run.outputs.model_outputs if run.outputs else [], key=lambda output: output.step)
        return cls(
            run_id=run.info.run_id,
            name=str(run.info.run_name),
            status=run.info.status,
            experiment_id=str(run.info.experiment_id),
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

    @property
    def line(self) -> dict[str, str]:
        """Stage -> run id of everything it came from, and of itself."""
        return {**self.tags.inputs, self.tags.stage or "": self.run_id}
