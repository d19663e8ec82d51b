"""Every evaluated calibrator of the store as one tidy table: which model, loss, negatives and calibrator did best."""

import os
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from kgcore.errors import InputError
from kgcore.metrics.catalogue import highest_best, metric_names, ranked
from kgcore.registries import DATASETS
from tasks.tracking.names import shares_text
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.store import open_store

SCORES = metric_names("headline")
FURTHER = tuple(name for name in ranked() if name not in SCORES)
UNRANKED = tuple(name for name in metric_names("sharpness") if name not in FURTHER)  # no value of these is better
METRICS = (*SCORES, "mrr", *FURTHER)
HIGHEST_FIRST = ("mrr", *highest_best())
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
    *(*SCORES, *FURTHER, *UNRANKED, *_RANKS, "when", "run", "evaluate"),
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


def _only(frame: pd.DataFrame, column: str, wanted: object, what: str) -> pd.DataFrame:
    chosen: pd.DataFrame = frame[frame[column] == wanted]
    if chosen.empty:
        there = [str(value) for value in sorted(frame[column].dropna().unique()) if value != "none"]
        raise InputError(f"no finished evaluation {what} {wanted}: there are some {what} {', '.join(there)}")
    return chosen


def _rows() -> list[dict[str, object]]:
    """A row for each measurement whose evaluation is finished. The store is searched once per stage."""
    store = open_store()
    stages = {name: {run.run_id: run for run in store.find_all(RunTags(stage=name))} for name in (*_STAGES, "rank")}
    finished = {run.run_id for run in store.find_all(RunTags(stage="pipeline"))}
    rows = []
    for measured in store.find_all(RunTags(stage="measurement")):
        parent = measured.tags.parent or ""
        kind = ENSEMBLE if parent in stages[ENSEMBLE] else "evaluate"
        evaluated = stages[kind].get(parent)
        if evaluated is not None:
            came_from = evaluated.tags.inputs  # of an ensemble, the first member: all are calibrated alike
            named = {stage: came_from.get(stage, came_from.get(f"{stage}.1", "")) for stage in stages}
            inputs = {kind: evaluated} | {
                stage: run for stage, runs in stages.items() if (run := runs.get(named[stage])) is not None
            }
            outer = evaluated.tags.parent
            run_id = outer if outer in finished else evaluated.run_id
            rows.append(_row(measured, inputs) | {"run": run_id, "evaluate": evaluated.run_id})
    return rows


def _row(measured: RunRecord, inputs: Mapping[str, RunRecord]) -> dict[str, object]:
    """What was measured and with which settings; `inputs` lacks the stages whose runs were deleted."""
    settings = {
        f"{stage}.{name}": value
        for stage in _STAGES
        if stage in inputs
        for name, value in (inputs[stage].tags.config or {}).items()
    }
    params, metrics = measured.params, measured.metrics
    settings |= {"ensemble.members": params["members"]} if "members" in params else {}
    test = _test_sample(inputs.get("corrupt"), settings)
    ranks = inputs["rank"].metrics if "rank" in inputs else {}
    row: dict[str, object] = {
        "dataset": params.get("dataset", ""),
        "digest": _digest(inputs["prepare"], test) if "prepare" in inputs else "",
        "test": test,
        "model": params.get("model", ""),
        "loss": params.get("loss", ""),
        "k": settings.get("train.k"),
        "training_strategy": _shares(settings, "train.training_strategy"),
        "calibration_strategy": _shares(settings, "corrupt.calibration_strategy"),
        "negatives": params.get("negatives", ""),
        "calibrator": params.get("calibrator", ""),
        "base_rate": float(params.get("base_rate", "nan")),
        "when": pd.Timestamp(round(1000 * (measured.ended or 0.0)), unit="ms", tz="UTC"),
    }
    row |= {name: metrics.get(name, float("nan")) for name in (*SCORES, *FURTHER, *UNRANKED)}
    row |= {name: ranks.get(name, float("nan")) for name in _RANKS}
    return row | {name: _text(value) for name, value in settings.items() if name not in _NO_SETTING}


def _digest(prepared: RunRecord, test: str) -> str:
    whole = prepared.tags.digest or ""
    return (prepared.tags.test or whole) if test == LABELLED else whole


def _test_sample(corrupt: RunRecord | None, settings: Mapping[str, object]) -> str:
    """The sample that stands for the test: figures of different samples cannot be compared."""
    if corrupt is None:
        return "unknown"
    if "test.corruptions" not in corrupt.metrics:
        return LABELLED
    words = {"calibration_sides": "sides", "calibration_eta": "eta", "calibration_seed": "seed"}
    parts = [f"{word} {settings.get(f'corrupt.{name}', 'unknown')}" for name, word in words.items()]
    parts.append(f"base rate {settings.get('calibrate.base_rate')}")
    model = corrupt.tags.inputs.get("train")  # where a model drew them
    parts += [f"drawn by the model of {model[:8]}"] if model else []
    return f"{_shares(settings, 'corrupt.calibration_strategy')} corruptions, {', '.join(parts)}"


def _once(frame: pd.DataFrame) -> pd.DataFrame:
    """COLUMNS, then the settings; blank where a setting had no part; of equal rows the newest."""
    settings = setting_columns(frame)
    frame = frame[[*COLUMNS, *settings]].astype({"k": "Int64"})
    frame[settings] = frame[settings].astype(object)
    apart = (frame["test"] == LABELLED) & (frame["negatives"] != "synthetic")  # from the synthetic negatives
    synthetic = [name for name in settings if name.startswith(("corrupt.", "calibrate."))]
    frame.loc[apart, synthetic] = None
    frame.loc[apart, "calibration_strategy"] = ""
    result = (*FURTHER, *UNRANKED, "when", "run", "evaluate")  # the further metrics follow from the rest
    same = [*(name for name in COLUMNS if name not in result), *settings]
    return frame.sort_values("when", ascending=False).drop_duplicates(same)


def _text(value: object) -> object:
    """A setting as a table shows it: a mapping as `norm=2 log_odds=true`, numbers and words as they are."""
    if not isinstance(value, dict):
        return value
    texts = {name: str(item).lower() if isinstance(item, bool) else f"{item:g}" for name, item in value.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())


def _shares(settings: Mapping[str, object], name: str) -> str:
    """Corruption strategies and their shares; '' where the stage had no part."""
    shares = settings.get(name)
    return shares_text(shares) if isinstance(shares, dict) else ""
