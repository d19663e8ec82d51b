"""What things are called in MLflow, where people filter, sort and chart by these names."""

_SHORT = {"ground_truth": "gt", "synthetic": "syn"}


def short_label(label: str) -> str:
    """A calibrator's label, `ground_truth.isotonic`, as metrics have it: `gt.isotonic`, or `uncalibrated`."""
    negatives, _, name = label.rpartition(".")
    return f"{_SHORT[negatives]}.{name}" if negatives else name
