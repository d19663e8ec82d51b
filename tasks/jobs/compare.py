"""The table that compares models, losses, negatives and calibrators: one row for every evaluated calibrator."""

from collections.abc import Mapping
from os.path import commonpath, expanduser
from pathlib import Path

import pandas as pd

from kgcore.config import ASSUMED_BASE_RATE
from kgcore.data.formats.base import format_name, stem_of
from kgcore.errors import InputError, MismatchError
from kgcore.measure.metrics.base import highest_best, metric_names, ranked
from kgcore.measure.report.result import Result, ResultTable, table_of
from kgcore.measure.report.results import title
from kgcore.registries import DATASETS
from tasks.tracking.record import ENSEMBLE_NAME, RunRecord, RunTags, shares_text
from tasks.tracking.store import open_store
from tasks.tracking.ui import best_runs_page

HEADLINE_METRICS = metric_names("headline")
FURTHER_METRICS = tuple(name for name in ranked() if name not in HEADLINE_METRICS)
UNRANKED_METRICS = tuple(name for name in metric_names("sharpness") if name not in FURTHER_METRICS)  # no best value
SORTABLE_METRICS = (*HEADLINE_METRICS, "mrr", *FURTHER_METRICS)
HIGHEST_FIRST = ("mrr", *highest_best())
NEGATIVES = ("ground_truth", "candidates", "synthetic")
TEST_SAMPLE = ["dataset", "digest", "test"]  # rows with the same values were measured on the same triples
LABELLED = "labelled"  # value of the column `test` if the test split has labelled negatives
_RANKS = ("mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10")
_STAGES = ("prepare", "train", "match", "corrupt", "calibrate", "classify", "evaluate", ENSEMBLE_NAME)
_NOT_SHOWN = {  # settings without a column STAGE.SETTING: another column shows them, or no metric depends on them
    "prepare.dataset",
    "corrupt.calibration_strategy",
}
_NOT_SHOWN |= {f"train.{name}" for name in ("model", "loss", "k", "training_strategy")}
_NOT_SHOWN |= {"calibrate.calibrators", "ensemble.pools", "match.match_base_rate"}
_NOT_SHOWN |= {f"calibrate.base_rate_{name}" for name in ("low", "high", "from")}
_NOT_SHOWN |= {f"evaluate.bootstrap_{name}" for name in ("replicates", "level", "seed")}
_NAMED = {"members": "ensemble.members", "other_models": "evidence.other_models"}  # parameter -> column
LABELS = ["model", "loss", "k", "training_strategy", "calibration_strategy", "negatives", "calibrator", "base_rate"]
COLUMNS = [
    *(*TEST_SAMPLE, *LABELS),
    *(*HEADLINE_METRICS, *FURTHER_METRICS, *UNRANKED_METRICS, *_RANKS, "when", "run", "evaluate", "rows"),
]
HEADERS = {  # in the order of the columns of a table
    "model": "model",
    "loss": "loss",
    "k": "k",
    "training_strategy": "training\nstrategy",
    "calibration_strategy": "calibration\nstrategy",
    "negatives": "negatives",
    "calibrator": "calibrator",
    "base_rate": "base\nrate",
    "brier": "Brier",
    "log_loss": "log loss",
    "ece": "ECE",
    "accuracy": "accuracy",
    # a table shows one of these columns only if its rows are sorted by this metric
    **{name: title(name).replace(" (", "\n(").replace(", ", "\n") for name in FURTHER_METRICS},
    "mrr": "MRR",
    "differs": "differs in",
    "when": "when",
    "run": "run",
}
# the columns that a narrow terminal does not show: see `ResultTable`. The metric that sorts the rows always stays
DROPPED_IF_EQUAL = ("training_strategy", "calibration_strategy", "base_rate", "k", "loss", "negatives")
DROPPED = ("when", "mrr", "run", "accuracy", "log_loss", "ece", "brier", *DROPPED_IF_EQUAL, "differs")


def comparison(
    metric: str = "brier",
    dataset: str | None = None,
    negatives: str | None = None,
    base_rate: float | None = None,
) -> pd.DataFrame:
    """Return a table with one row for every calibrator of a finished evaluation.

    The rows of each test sample are sorted by the metric, best first, NaN last.

    metric     one of SORTABLE_METRICS
    dataset    only this data set: its name, or the folder of the user's files; None: all
    negatives  only calibrators fitted on these, one of NEGATIVES; None: all, and the baselines
    base_rate  only runs with this base rate, in (0, 1), ground-truth calibrators included; None: all

    Columns:
        dataset, digest         the data set and a fingerprint: of its test split if that split has labelled
                                negatives, otherwise of all splits
        test                    the test negatives: `labelled`, or the corruptions and their base rate. Metrics on
                                different test samples cannot be compared
        model, loss, k          the embedding model; `ensemble`: several models, named in ensemble.members
        training_strategy       corruption strategies in training, with shares if there are several
        calibration_strategy    strategies of the synthetic negatives; '' if no metric depends on them
        negatives, calibrator   the negatives of the calibrator or ensemble, `none` for a baseline; its name
        base_rate               weighted share of positives in the sample that the calibrator was fitted on
        brier, log_loss, ece, accuracy              main metrics on the test split
        smooth_ece, ece_equal_mass, debiased_rmsce, brier_miscalibration, log_loss_miscalibration
                                                    calibration
        brier_discrimination, log_loss_discrimination, auroc, average_precision
                                                    discrimination
        sharpness                                   like every metric, NaN if undefined or not measured
        mr, mrr, hits_at_1, hits_at_3, hits_at_10   filtered ranks of the model
        when                    end of the measurement, UTC
        run                     MLflow run id of the finished pipeline; without a pipeline, of the evaluation
        evaluate                MLflow run id of the evaluation or of the ensemble
        rows                    fingerprint of the measured rows
        STAGE.SETTING           every other setting; missing if no metric depends on it

    Of several measurements with the same settings and results, only the newest has a row.

    Raises InputError for an unknown metric or kind of negatives, and if no row matches.
    """
    if metric not in SORTABLE_METRICS:
        raise InputError(f"unknown metric {metric!r}: the known ones are {', '.join(SORTABLE_METRICS)}")
    if negatives is not None and negatives not in NEGATIVES:
        raise InputError(f"negatives is {negatives!r}: it must be one of {', '.join(NEGATIVES)}")
    rows = _rows()
    if not rows:
        raise InputError(f"there is no finished evaluation in {open_store().place}: run `kgcal run` first")
    frame = pd.DataFrame(rows)
    if dataset is not None:
        frame = _matching(frame, "dataset", dataset_name(dataset), "of the data set")
    if base_rate is not None:
        frame = _matching(frame, "calibrate.base_rate", base_rate, "with the stated base rate")
    if negatives is not None:
        frame = _matching(frame, "negatives", negatives, "with negatives")
    keys = [*TEST_SAMPLE, metric, *({"brier"} - {metric})]
    first = [key not in HIGHEST_FIRST for key in keys]
    return _newest_of_equals(frame).sort_values(keys, ascending=first, ignore_index=True)


def shown_comparison(frame: pd.DataFrame, metric: str, top: int) -> Result:
    """Return a table for each set of test triples in a `comparison`.

    top  number of rows in each table, the best ones; 0 = all
    """
    samples = frame.groupby(TEST_SAMPLE, sort=False)
    first = {_heading(frame, sample): sample.iloc[0] for _, sample in samples}
    pages = {f"{heading} in MLflow": best_runs_page(row["dataset"], row["rows"]) for heading, row in first.items()}
    no_page = ["for a link to this table in MLflow, start a server: `kgcal up`"]
    return Result(
        title="Comparison of calibrators",
        tables=[_table(_heading(frame, sample), sample, metric, top) for _, sample in samples],
        sentences=[] if any(pages.values()) else no_page,
        files={name: page or "" for name, page in pages.items()},
    )


def _table(heading: str, sample: pd.DataFrame, metric: str, top: int) -> ResultTable:
    """Return the table of a test sample, the best value without calibration, and the run of the first row."""
    fitted, title = sample[sample["negatives"] != "none"], _title(metric)
    shown = fitted.head(top) if top else fitted
    cells, notes = _cells(shown, fitted), list[str]()
    names = [name for name in HEADERS if any(cells[name]) and (name == metric or name not in FURTHER_METRICS)]
    rows = table_of((HEADERS[name] for name in names), zip(*(cells[name] for name in names), strict=True))
    uncalibrated = sample[sample["calibrator"] == "uncalibrated"][metric].dropna()
    if len(uncalibrated) and metric != "mrr":
        notes.append(f"best {title} without calibration: {_best(uncalibrated, metric):.4f}")
    if fitted[metric].notna().any():
        notes.append(f"the first row's run: {fitted['run'].iloc[0]}")
    if 0 < top < len(fitted):
        notes.append(f"{top} of {len(fitted)} rows: --top 0 shows all, --csv writes them to a file")
    return ResultTable(
        f"{heading}: {len(fitted)} calibrator{'' if len(fitted) == 1 else 's'}, best {title} first",
        rows,
        [HEADERS[name] for name in names if name not in (*SORTABLE_METRICS, "k", "base_rate")],
        notes,
        equal=[HEADERS[name] for name in DROPPED_IF_EQUAL],
        drops=[HEADERS[name] for name in DROPPED if name != metric],
        ids="run",
    )


def _heading(frame: pd.DataFrame, sample: pd.DataFrame) -> str:
    """Return the heading of a test sample.

    It names the data set. If the data set has several graphs, the size, the seed and the digest follow. If the test
    negatives are corruptions, their strategy follows.
    """
    first = sample.iloc[0]
    graphs, parts = frame[frame["dataset"] == first["dataset"]], [first["dataset"]]
    if graphs["digest"].nunique() > 1:
        settings = [name for name in ("prepare.size", "prepare.graph_seed") if name in frame]
        varied = [name for name in settings if graphs[name].nunique() > 1]
        parts += [f"{name.partition('.')[2].replace('_', ' ')} {first[name]}" for name in varied]
        parts += [f"digest {first['digest']}"]
    return ", ".join(parts + ([] if first["test"] == LABELLED else [f"tested on {first['test']}"]))


def _title(metric: str) -> str:
    return "MRR" if metric == "mrr" else title(metric)


def _cells(shown: pd.DataFrame, fitted: pd.DataFrame) -> dict[str, list[str]]:
    """Return column -> a text for each row of `shown`. A star marks the best value of all rows in `fitted`."""
    cells = {name: shown[name].astype(object).fillna("").astype(str).tolist() for name in (*LABELS, "run")}
    for name in ("negatives", "calibrator"):
        cells[name] = [text.replace("_", " ") for text in cells[name]]
    cells["base_rate"] = [f"{rate:.3g}" for rate in shown["base_rate"]]
    for name in SORTABLE_METRICS:
        best = _best(fitted[name], name)
        cells[name] = ["-" if pd.isna(v) else f"{v:.4f}{'*' if v == best else ' '}" for v in shown[name]]
    cells["when"] = [when.to_pydatetime().astimezone().strftime("%Y-%m-%d %H:%M") for when in shown["when"]]
    cells["differs"] = _differences(fitted).loc[shown.index].tolist()
    return cells


def _best(values: "pd.Series[float]", metric: str) -> float:
    """Return the best value of a metric: the highest or the lowest; NaN if there is no value."""
    return float(values.max() if metric in HIGHEST_FIRST else values.min())


def _differences(fitted: pd.DataFrame) -> "pd.Series[str]":
    """Return the settings in which a row differs from rows with the same labels; "" if it differs in none."""
    settings = [name for name in setting_columns(fitted) if not name.startswith("prepare.")]
    texts = pd.Series("", index=fitted.index)
    for _, alike in fitted.groupby(LABELS, dropna=False):
        varied = [name for name in settings if alike[name].nunique() > 1] if len(alike) > 1 else []
        if varied:
            texts[alike.index] = alike[varied].apply(_settings_text, axis=1)
    return texts


def _settings_text(row: "pd.Series[str]") -> str:
    """Return the settings of a row as NAME=VALUE, without the stage in front of each name."""
    return " ".join(f"{str(name).partition('.')[2]}={value}" for name, value in row.astype(object).dropna().items())


def setting_columns(frame: pd.DataFrame) -> list[str]:
    """Return the names of the columns STAGE.SETTING."""
    return [name for name in map(str, frame.columns) if name not in COLUMNS]


def dataset_name(text: str) -> str:
    """Return the name under which runs record the data set of `--dataset TEXT`. No file needs to exist.

    It is TEXT, the last part of a folder, the name of a file without its ending, or the folder of several files.
    """
    if text in DATASETS.names():
        return text
    paths = [Path(expanduser(part.strip())).resolve() for part in text.split(",")]
    if len(paths) > 1 and not Path(text).exists():
        return Path(commonpath([path.parent for path in paths])).name
    path = Path(expanduser(text)).resolve()
    return stem_of(path) if format_name(path) and not path.is_dir() else path.name


def check_dataset(name: str, dataset: str, what: str) -> None:
    """Raise MismatchError if `--dataset DATASET` is given, and is not the data set `name` of a run or a model.

    what  names the run or the model in the message
    """
    if dataset and (other := dataset_name(dataset)) != name:
        raise MismatchError(
            f"{what} is of the data set {name}, not of {other}: leave out --dataset, or name another one"
        )


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write the frame as CSV. The file appears under its name only when it is complete."""
    from kgcore.outputs import whole_file

    with whole_file(path) as partial:
        frame.to_csv(partial, index=False)


def _matching(frame: pd.DataFrame, column: str, wanted: object, what: str) -> pd.DataFrame:
    """Return the rows with this value. Raises InputError, with the values that exist, if there are none."""
    chosen: pd.DataFrame = frame[frame[column] == wanted]
    if chosen.empty:
        known = [str(value) for value in sorted(frame[column].dropna().unique()) if value != "none"]
        raise InputError(f"no finished evaluation {what} {wanted}: the known ones are {', '.join(known)}")
    return chosen


def _rows() -> list[dict[str, object]]:
    """Return a row for each measurement whose evaluation is finished. Searches the store once per stage."""
    store = open_store()
    stages = {name: {run.run_id: run for run in store.find_all(RunTags(stage=name))} for name in (*_STAGES, "rank")}
    finished = {run.run_id for run in store.find_all(RunTags(stage="pipeline"))}
    rows = []
    for measured in store.find_all(RunTags(stage="measurement")):
        parent = measured.tags.parent or ""
        kind = ENSEMBLE_NAME if parent in stages[ENSEMBLE_NAME] else "evaluate"
        evaluated = stages[kind].get(parent)
        if evaluated is not None:
            upstream = evaluated.tags.inputs  # those of an ensemble are STAGE.1, STAGE.2, ...: take the first
            named = {stage: upstream.get(stage, upstream.get(f"{stage}.1", "")) for stage in stages}
            inputs = {kind: evaluated} | {
                stage: run for stage, runs in stages.items() if (run := runs.get(named[stage])) is not None
            }
            outer = evaluated.tags.parent
            run_id = outer if outer in finished else evaluated.run_id
            ids = {"run": run_id, "evaluate": evaluated.run_id, "rows": measured.tags.test or ""}
            rows.append(_row(measured, inputs) | ids)
    return rows


def _row(measured: RunRecord, inputs: Mapping[str, RunRecord]) -> dict[str, object]:
    """Return the row of a measurement.

    inputs  stage -> upstream run, without the runs that were deleted
    """
    settings = {
        f"{stage}.{name}": ASSUMED_BASE_RATE if value is None and name == "base_rate" else value
        for stage in _STAGES
        if stage in inputs
        for name, value in (inputs[stage].tags.config or {}).items()
    }
    params, metrics = measured.params, measured.metrics
    settings |= {shown: params[name] for name, shown in _NAMED.items() if name in params}
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
    row |= {name: metrics.get(name, float("nan")) for name in (*HEADLINE_METRICS, *FURTHER_METRICS, *UNRANKED_METRICS)}
    row |= {name: ranks.get(name, float("nan")) for name in _RANKS}
    return row | {name: _text(value) for name, value in settings.items() if name not in _NOT_SHOWN}


def _digest(prepared: RunRecord, test: str) -> str:
    whole = prepared.tags.digest or ""
    return (prepared.tags.test or whole) if test == LABELLED else whole


def _test_sample(corrupt: RunRecord | None, settings: Mapping[str, object]) -> str:
    """Return the column `test`: a description of the test negatives."""
    if corrupt is None:
        return "unknown"
    if "test.corruptions" not in corrupt.metrics:
        return LABELLED
    words = {"calibration_sides": "sides", "calibration_eta": "eta", "calibration_seed": "seed"}
    parts = [f"{word} {settings.get(f'corrupt.{name}', 'unknown')}" for name, word in words.items()]
    parts.append(f"base rate {settings.get('calibrate.base_rate')}")
    model = corrupt.tags.inputs.get("train")  # set if a strategy draws with a model
    parts += [f"drawn by the model of {model[:8]}"] if model else []
    return f"{_shares(settings, 'corrupt.calibration_strategy')} corruptions, {', '.join(parts)}"


def _newest_of_equals(frame: pd.DataFrame) -> pd.DataFrame:
    """Order the columns, clear settings that no metric of a row depends on, and keep the newest of equal rows."""
    settings = setting_columns(frame)
    frame = frame[[*COLUMNS, *settings]].astype({"k": "Int64"})
    frame[settings] = frame[settings].astype(object)
    stages = {stage: [name for name in settings if name.startswith(f"{stage}.")] for stage in _STAGES}
    independent = (frame["test"] == LABELLED) & (frame["negatives"] != "synthetic")  # rows without corruptions
    frame.loc[independent, stages["corrupt"]] = None
    frame.loc[independent, "calibration_strategy"] = ""
    to_candidates = frame["negatives"] == "candidates"
    frame.loc[independent & ~to_candidates, stages["calibrate"]] = None
    frame.loc[~to_candidates, stages["match"]] = None
    # further metrics need no comparison: they are computed from the same predictions
    result = (*FURTHER_METRICS, *UNRANKED_METRICS, "when", "run", "evaluate", "rows")
    same = [*(name for name in COLUMNS if name not in result), *settings]
    return frame.sort_values("when", ascending=False).drop_duplicates(same)


def _text(value: object) -> object:
    """Return a setting for a cell: a mapping as `norm=2 log_odds=true`, a list as `a b`, other values unchanged."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if not isinstance(value, dict):
        return value
    texts = {name: str(item).lower() if isinstance(item, bool) else f"{item:g}" for name, item in value.items()}
    return " ".join(f"{name}={text}" for name, text in texts.items())


def _shares(settings: Mapping[str, object], name: str) -> str:
    """Return corruption strategies and their shares as text; '' if the stage's settings are missing."""
    shares = settings.get(name)
    return shares_text(shares) if isinstance(shares, dict) else ""
