"""The names of metrics, models and strategies as MLflow shows them. record.py has the names of tags."""

import re
from collections.abc import Mapping

LATEST = "latest"  # names the newest finished pipeline where a user names a run
ENSEMBLE_NAME = "ensemble"  # stage of an ensemble's run; value of the parameter `model` in its measurements
CALIBRATE_SCORES = "calibrate-scores"  # stage of a run that calibrates scores of any scorer
APPLY_SCORES = "apply-scores"  # stage of a run in which a stored calibrator of scores answers
WATCH_SCORES = "watch-scores"  # stage of a run that checks a calibrator of scores on newly labelled rows
_SHORT = {"ground_truth": "gt", "synthetic": "syn", "candidates": "cand"}


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
