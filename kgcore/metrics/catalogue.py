"""Lists of the registered metrics: all in order, those of a family, and those that rank calibrators."""

from kgcore.metrics.base import Family, Metric
from kgcore.registries import METRICS


def every_metric() -> dict[str, Metric]:
    """Return every registered metric by name, in the order in which artifacts list them."""
    known = [(name, METRICS.get(name)) for name in METRICS.names()]
    return dict(sorted(known, key=lambda pair: (pair[1].order, pair[0])))


def metric_names(*families: Family) -> tuple[str, ...]:
    """Return the names of the metrics, one family after the other, each family in the order of its columns."""
    metrics = every_metric()
    columns = [
        (families.index(metric.family), metric.column, name)
        for name, metric in metrics.items()
        if metric.family in families
    ]
    return tuple(name for _, _, name in sorted(columns))


def ranked() -> tuple[str, ...]:
    """Return the names of the metrics that can rank calibrators, those of the headline family first.

    A metric can rank calibrators if lower values, or higher values, are always better. Sharpness, for example, cannot.
    """
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness", "uncertainty")
    return tuple(name for name in names if metrics[name].best != "neither")


def highest_best() -> frozenset[str]:
    """Return the names of the metrics for which higher values are better."""
    return frozenset(name for name, metric in every_metric().items() if metric.best == "highest")
