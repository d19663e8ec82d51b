"""Names in MLflow, by which people filter, sort and chart."""

import re
from collections.abc import Mapping

_SHORT = {"ground_truth": "gt", "synthetic": "syn"}


def short_label(label: str) -> str:
    """A calibrator's label, `ground_truth.isotonic`, as metrics have it: `gt.isotonic`, or `uncalibrated`."""
    negatives, _, name = label.rpartition(".")
    return f"{_SHORT[negatives]}.{name}" if negatives else name


def shares_text(shares: Mapping[str, float]) -> str:
    """Corruption strategies and their shares: `typed`, or `typed=0.5 uniform=0.5`."""
    return next(iter(shares)) if len(shares) == 1 else " ".join(f"{name}={share:g}" for name, share in shares.items())


def model_name(text: str) -> str:
    """The text as a name that MLflow accepts for a model: a hyphen in place of each of / : . % " '"""
    return re.sub(r"""[/:.%"']""", "-", text)
