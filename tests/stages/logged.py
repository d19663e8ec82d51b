"""Log runs as the stages do, without computing anything, for tests of code that reads runs."""

from collections.abc import Mapping
from contextlib import suppress

from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import Store


class BrokenError(Exception):
    """The error that makes a run fail on purpose."""


def log_stage(store: Store, tags: RunTags, metrics: Mapping[str, float] | None = None) -> str:
    """Log a finished run of the stage that the tags name, and return its id."""
    with store.open_run(tags.stage or "", tags) as run_id:
        store.log_metrics(run_id, metrics or {})
    return run_id


def log_evaluation(
    store: Store,
    dataset: str,
    briers: Mapping[str, float],
    base_rate: float = 0.5,
    strategy: str = "uniform",
    labelled: bool = True,
    broken: bool = False,
    corrupt: Mapping[str, object] | None = None,
    **train: object,
) -> str:
    """Log a pipeline up to its evaluation, and return the id of the pipeline's run.

    briers     label of a calibrator -> its Brier score
    labelled   whether the test split has labelled negatives; if not, corruptions take their place
    broken     whether the evaluation and the pipeline fail in the end
    corrupt    settings of the corruptions; None: those of `strategy`, with both sides
    train      settings of the training
    """
    trained = {"loss": "nll", "k": 50, "training_strategy": {"uniform": 1.0}, "seed": 0} | train
    runs = _log_upstream(store, dataset, base_rate, labelled, corrupt or _corrupted_by(strategy), trained)
    with suppress(BrokenError), store.open_run("pipeline", RunTags(stage="pipeline")) as pipeline:
        tags = RunTags(stage="evaluate", config={"bins": 10}, inputs=runs, parent=pipeline)
        with store.open_run("evaluate", tags) as evaluation:
            for label, brier in briers.items():
                params = {"model": trained["model"], "loss": trained["loss"], "dataset": dataset}
                rows = f"rows of {dataset}" if labelled else f"corruptions of {dataset} at {base_rate:g}"
                _log_measurement(store, evaluation, label, brier, base_rate, params, rows)
            if broken:
                raise BrokenError
    return pipeline


def _corrupted_by(strategy: str) -> dict[str, object]:
    """Return the settings of corruptions by one strategy."""
    return {
        "calibration_strategy": {strategy: 1.0},
        "calibration_sides": "both",
        "calibration_eta": 20,
        "calibration_filtered": True,
        "calibration_seed": 0,
    }


def _log_upstream(
    store: Store,
    dataset: str,
    base_rate: float,
    labelled: bool,
    corrupt: Mapping[str, object],
    train: Mapping[str, object],
) -> dict[str, str]:
    """Log the stages before an evaluation, and return stage -> run id."""
    prepare = RunTags(config={"size": 300, "graph_seed": 0}, dataset=dataset, digest=f"digest of {dataset}")
    calibrate = {"base_rate": base_rate, "calibrators": ["platt", "isotonic"]}
    by_stage = {
        "prepare": (prepare, {}),
        "train": (RunTags(config=train), {}),
        "corrupt": (
            RunTags(config=corrupt),
            {"valid.corruptions": 9.0} | ({} if labelled else {"test.corruptions": 9.0}),
        ),
        "calibrate": (RunTags(config=calibrate), {}),
        "rank": (RunTags(config={}), {"mr": 7.0, "mrr": 0.25}),
    }
    return {
        stage: log_stage(store, RunTags(**vars(tags) | {"stage": stage}), metrics)
        for stage, (tags, metrics) in by_stage.items()
    }


def _log_measurement(
    store: Store,
    evaluation: str,
    label: str,
    brier: float,
    base_rate: float,
    params: Mapping[str, object],
    rows: str,
) -> None:
    """Log what an evaluation measures of one calibrator or baseline."""
    negatives, _, calibrator = label.rpartition(".")
    with store.open_run(label, RunTags(stage="measurement", parent=evaluation, test=rows)) as run_id:
        own = 0.49 if negatives == "ground_truth" else base_rate
        named = {"calibrator": calibrator, "negatives": negatives or "none", "base_rate": own}
        store.log_params(run_id, named | params)
        metrics = {"brier": brier, "log_loss": 2 * brier, "ece": brier / 2, "accuracy": 1 - brier}
        if params["model"] == "transe":  # other models: as runs of a version without these metrics
            metrics |= {"smooth_ece": brier**2, "auroc": 1 - brier / 2}
        store.log_metrics(run_id, metrics, dataset=DatasetId(str(params["dataset"]), "digest"))
