"""The registered metrics in order, by family, and by which values are better."""

from kgcore.metrics.base import Family, Metric
from kgcore.registries import METRICS


def every_metric() -> dict[str, Metric]:
    """Name -> metric, in the order of artifacts."""
    known = [(name, METRICS.get(name)) for name in METRICS.names()]
    return dict(sorted(known, key=lambda pair: (pair[1].order, pair[0])))


def metric_names(*families: Family) -> tuple[str, ...]:
    """The metrics of these families: one family after the other, each in the order of its columns."""
    metrics = every_metric()
    columns = [
        (families.index(metric.family), metric.column, name)
        for name, metric in metrics.items()
        if metric.family in families
    ]
    return tuple(name for _, _, name in sorted(columns))


def ranked() -> tuple[str, ...]:
    """The metrics whose lowest or highest value is the best, the headline first."""
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness", "uncertainty")
    return tuple(name for name in names if metrics[name].best != "neither")


def highest_best() -> frozenset[str]:
    """The metrics whose highest value is the best."""
    return frozenset(name for name, metric in every_metric().items() if metric.best == "highest")
