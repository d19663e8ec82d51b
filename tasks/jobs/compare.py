"""Every evaluated calibrator of the store as one tidy table: which model, loss, negatives and calibrator did best."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from mlflow.entities import Run

from kgcore.errors import InputError
from kgcore.registries import DATASETS
from kgcore.report.summary import HIGHEST_BEST, RANKED
from kgcore.report.summary import METRICS as SCORES
from tasks.tracking.names import shares_text
from tasks.tracking.store import open_store

FURTHER = tuple(name for name in RANKED if name not in SCORES)
METRICS = (*SCORES, "mrr", *FURTHER)
HIGHEST_FIRST = ("mrr", *HIGHEST_BEST)
NEGATIVES = ("ground_truth", "synthetic")
TEST_SAMPLE = ["dataset", "digest", "test"]  # rows that share these were measured on the same triples
LABELLED = "labelled"
_RANKS = ("mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10")
_STAGES = ("prepare", "train", "corrupt", "calibrate", "classify", "evaluate", "ensemble")
ENSEMBLE = "ensemble"  # what the model is called where there are several
_NO_SETTING = {
    "prepare.dataset",
    "train.model",
    "train.loss",
    "train.k",
    "train.training_strategy",
    "corrupt.calibration_strategy",
}
_NO_SETTING |= {"calibrate.calibrators", "ensemble.pools"}  # columns of their own, or nothing that concerns one figure
_NO_SETTING |= {f"evaluate.bootstrap_{name}" for name in ("replicates", "level", "seed")}
COLUMNS = [
    *(
        *TEST_SAMPLE,
        "model",
        "loss",
        "k",
        "training_strategy",
        "calibration_strategy",
        "negatives",
        "calibrator",
        "base_rate",
    ),
    *(*SCORES, *FURTHER, "sharpness", *_RANKS, "when", "run", "evaluate"),
]


def comparison(
    metric: str = "brier",
    dataset: str | None = None,
    negatives: str | None = None,
    base_rate: float | None = None,
) -> pd.DataFrame:
    """One row for every calibrator of a finished evaluation; in each test sample the best by the metric first, NaN
    last.

    dataset    its name, or the folder of one's own files; None: all
    negatives  ground_truth or synthetic; None: both, and the baselines
    base_rate  the one stated for the run (of calibrators fitted by ground truth, too); None: all

    Columns:
        dataset, digest         the data set, and the fingerprint of its labelled test split, or of all of it where
                                corruptions stand for test negatives
        test                    `labelled`, or which corruptions stand for the test negatives, at which base rate:
                                figures of different test samples cannot be compared
        model, loss, k          the embedding model; `ensemble`: several, which ensemble.members names
        training_strategy      corruption strategies in training, and their shares where there are several
        calibration_strategy    of the synthetic negatives; empty where they had no part in the figures
        negatives, calibrator   what was fitted on what; `none`: a baseline; of an ensemble, the pool
        base_rate               share of positives, by weight, that the calibrator was fitted on
        brier, log_loss, ece, accuracy              on the test split; so are
        smooth_ece, ece_equal_mass, debiased_rmsce, brier_miscalibration, log_loss_miscalibration: calibration;
        brier_discrimination, log_loss_discrimination, auroc, average_precision: discrimination; and sharpness;
                                                    missing where not defined, or measured before there were any
        mr, mrr, hits_at_1, hits_at_3, hits_at_10   filtered ranks of the model
        when                    end of the measurement, UTC
        run, evaluate           MLflow run ids: of the finished pipeline that evaluated, or else of the evaluation, and
                                of the evaluation, which an ensemble is itself
        STAGE.SETTING           every other setting, missing where it had no part

    What was measured several times with the same settings and the same result stands once, as measured last.
    Raises InputError where nothing matches.
    """
    if metric not in METRICS:
        raise InputError(f"there is no metric {metric!r} to compare by: known are {', '.join(METRICS)}")
    if negatives is not None and negatives not in NEGATIVES:
        raise InputError(f"negatives is {negatives!r}: it must be one of {', '.join(NEGATIVES)}")
    rows = _rows()
    if not rows:
        raise InputError(f"no finished evaluation is in {open_store().place}: `kgcal run` makes one")
    frame = pd.DataFrame(rows)
    if dataset is not None:
        frame = _only(frame, "dataset", dataset_name(dataset), "of the data set")
    if base_rate is not None:
        frame = _only(frame, "calibrate.base_rate", base_rate, "with the stated base rate")
    if negatives is not None:
        frame = _only(frame, "negatives", negatives, "with negatives")
    return best_first(_once(frame), metric)


def best_first(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The frame, each test sample by the metric, then the Brier score; NaN last."""
    keys = [*TEST_SAMPLE, metric, *({"brier"} - {metric})]
    return frame.sort_values(keys, ascending=[key not in HIGHEST_FIRST for key in keys], ignore_index=True)


def setting_columns(frame: pd.DataFrame) -> list[str]:
    """The columns STAGE.SETTING."""
    return [name for name in map(str, frame.columns) if name not in COLUMNS]


def dataset_name(text: str) -> str:
    """The name under which results of `--dataset TEXT` are recorded: a folder's last part."""
    return text if text in DATASETS.names() else Path(text).expanduser().resolve().name


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """The whole frame as CSV, in place at once."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    frame.to_csv(partial, index=False)
    partial.replace(path)


def _only(frame: pd.DataFrame, column: str, wanted: Any, what: str) -> pd.DataFrame:
    chosen: pd.DataFrame = frame[frame[column] == wanted]
    if chosen.empty:
        there = [str(value) for value in sorted(frame[column].dropna().unique()) if value != "none"]
        raise InputError(f"no finished evaluation {what} {wanted}: there are some {what} {', '.join(there)}")
    return chosen


def _rows() -> list[dict[str, Any]]:
    """A row for each measurement whose evaluation is finished: one search a stage, however many runs there are."""
    store = open_store()
    stages = {stage: {run.info.run_id: run for run in store.search_all(stage=stage)} for stage in (*_STAGES, "rank")}
    finished = {run.info.run_id for run in store.search_all(stage="pipeline")}
    rows = []
    for measured in store.search_all(stage="measurement"):
        parent_id = measured.data.tags.get("mlflow.parentRunId", "")
        kind = ENSEMBLE if parent_id in stages[ENSEMBLE] else "evaluate"
        evaluated = stages[kind].get(parent_id)
        if evaluated is not None:
            tags = evaluated.data.tags  # of an ensemble, the first member: all are calibrated alike
            named = {
                stage: tags.get(f"kgcal.input.{stage}", tags.get(f"kgcal.input.{stage}.1", "")) for stage in stages
            }
            inputs = {kind: evaluated} | {
                stage: run for stage, runs in stages.items() if (run := runs.get(named[stage])) is not None
            }
            parent = evaluated.data.tags.get("mlflow.parentRunId")
            run_id = parent if parent in finished else evaluated.info.run_id
            rows.append(_row(measured, inputs) | {"run": run_id, "evaluate": evaluated.info.run_id})
    return rows


def _row(measured: Run, inputs: Mapping[str, Run]) -> dict[str, Any]:
    """What was measured and with which settings; `inputs` lacks the stages whose runs were deleted."""
    settings = {
        f"{stage}.{name}": value
        for stage in _STAGES
        if stage in inputs
        for name, value in json.loads(inputs[stage].data.tags["kgcal.config"]).items()
    }
    settings |= {"ensemble.members": measured.data.params["members"]} if "members" in measured.data.params else {}
    test = _test_sample(inputs.get("corrupt"), settings)
    params, metrics = measured.data.params, measured.data.metrics
    ranks = inputs["rank"].data.metrics if "rank" in inputs else {}
    row: dict[str, Any] = {
        "dataset": params.get("dataset", ""),
        "digest": _digest(inputs["prepare"].data.tags, test) if "prepare" in inputs else "",
        "test": test,
        "model": params.get("model", ""),
        "loss": params.get("loss", ""),
        "k": settings.get("train.k"),
        "training_strategy": shares_text(settings.get("train.training_strategy", {"": 1})),
        "calibration_strategy": shares_text(settings.get("corrupt.calibration_strategy", {"": 1})),
        "negatives": params.get("negatives", ""),
        "calibrator": params.get("calibrator", ""),
        "base_rate": float(params.get("base_rate", "nan")),
        "when": pd.Timestamp(measured.info.end_time, unit="ms", tz="UTC"),
    }
    row |= {name: metrics.get(name, float("nan")) for name in (*SCORES, *FURTHER, "sharpness")}
    row |= {name: ranks.get(name, float("nan")) for name in _RANKS}
    return row | {name: _text(value) for name, value in settings.items() if name not in _NO_SETTING}


def _digest(prepared: Mapping[str, str], test: str) -> str:
    whole = prepared.get("kgcal.digest", "")
    return prepared.get("kgcal.test", whole) if test == LABELLED else whole


def _test_sample(corrupt: Run | None, settings: Mapping[str, Any]) -> str:
    if corrupt is None:
        return "unknown"
    if "test.corruptions" not in corrupt.data.metrics:
        return LABELLED
    words = {"calibration_sides": "sides", "calibration_eta": "eta", "calibration_seed": "seed"}
    told = ", ".join(f"{word} {settings[f'corrupt.{name}']}" for name, word in words.items())
    strategy, rate = shares_text(settings["corrupt.calibration_strategy"]), settings.get("calibrate.base_rate")
    model = corrupt.data.tags.get("input.train")  # where a model drew them
    drawn = f", drawn by the model of {model[:8]}" if model else ""
    return f"{strategy} corruptions, {told}, base rate {rate}{drawn}"


def _once(frame: pd.DataFrame) -> pd.DataFrame:
    """COLUMNS, then the settings; blank where a setting had no part; of equal rows the newest."""
    settings = setting_columns(frame)
    frame = frame[[*COLUMNS, *settings]].astype({"k": "Int64"})
    frame[settings] = frame[settings].astype(object)
    apart = (frame["test"] == LABELLED) & (frame["negatives"] != "synthetic")  # from the synthetic negatives
    synthetic = [name for name in settings if name.startswith(("corrupt.", "calibrate."))]
    frame.loc[apart, synthetic] = None
    frame.loc[apart, "calibration_strategy"] = ""
    result = (*FURTHER, "sharpness", "when", "run", "evaluate")  # the further metrics follow from the rest
    same = [*(name for name in COLUMNS if name not in result), *settings]
    return frame.sort_values("when", ascending=False).drop_duplicates(same)


def _text(value: Any) -> Any:
    """A setting that is a table of options as `--option` takes it; numbers and words as they are."""
    return " ".join(f"{name}={number:g}" for name, number in value.items()) if isinstance(value, dict) else value
