"""MLflow's objects for what a run logs: metrics, parameters, tags and data sets. The functions load MLflow."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.tracking.record import DatasetId, RunTags

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, Metric, Param, RunTag


def metric_entries(
    run_id: str, rows: Sequence[tuple[str | None, str, float, int]], dataset: DatasetId | None
) -> "list[Metric]":
    """Return metrics of a run on a data set. A row is the id of a LoggedModel or None, name, value and step."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    name, digest = (dataset.name, dataset.digest) if dataset else (None, None)
    return [Metric(key, value, now, step, model_id, name, digest, run_id) for model_id, key, value, step in rows]


def param_entries(params: Mapping[str, object]) -> "list[Param]":
    """Return parameters, whose values are text."""
    from mlflow.entities import Param

    texts = {name: ", ".join(value) if isinstance(value, tuple) else str(value) for name, value in params.items()}
    return [Param(name, text) for name, text in texts.items()]


def tag_entries(tags: RunTags) -> "list[RunTag]":
    """Return the tags that are not None."""
    from mlflow.entities import RunTag

    return [RunTag(name, value) for name, value in tags.to_mlflow().items()]


def dataset_entry(dataset: DatasetId, source: str, counts: Mapping[str, int]) -> "DatasetInput":
    """Return a data set as the input of a run. The arguments are those of `Store.log_dataset`."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    entity = Dataset(
        name=dataset.name,
        digest=dataset.digest,
        source_type="http" if source.startswith("http") else "code",
        source=json.dumps({"url": source}),
        profile=json.dumps(dict(counts)),
    )
    return DatasetInput(entity, [InputTag("mlflow.data.context", "training")])
