"""The cells of the tables of `kgcal compare`: for each column, a text per row."""

from typing import TypeAlias

import pandas as pd

from tasks.jobs.compare import HIGHEST_FIRST, SORTABLE_METRICS, setting_columns

Cells: TypeAlias = dict[str, list[str]]  # column -> a text for each row
LABELS = ["model", "loss", "k", "training_strategy", "calibration_strategy", "negatives", "calibrator", "base_rate"]


def cells_of(shown: pd.DataFrame, fitted: pd.DataFrame) -> Cells:
    """Return the cells of the rows in `shown`. A star marks the best value of all rows in `fitted`, shown or not."""
    cells = {name: shown[name].astype(object).fillna("").astype(str).tolist() for name in (*LABELS, "run")}
    for name in ("negatives", "calibrator"):
        cells[name] = [text.replace("_", " ") for text in cells[name]]
    cells["base_rate"] = [f"{rate:.3g}" for rate in shown["base_rate"]]
    for name in SORTABLE_METRICS:
        best = best_value(fitted[name], name)
        cells[name] = ["-" if pd.isna(v) else f"{v:.4f}{'*' if v == best else ' '}" for v in shown[name]]
    cells["when"] = [when.to_pydatetime().astimezone().strftime("%Y-%m-%d %H:%M") for when in shown["when"]]
    cells["differs"] = _differences(fitted).loc[shown.index].tolist()
    return cells


def best_value(values: "pd.Series[float]", metric: str) -> float:
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
