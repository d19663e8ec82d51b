"""The registered metrics in order, and the selections of them that tables show."""

from functools import cache

from kgcore.metrics.base import Family, Metric
from kgcore.registries import METRICS


def every_metric() -> dict[str, Metric]:
    """Name -> metric, in the order of artifacts."""
    return dict(_in_order(tuple(METRICS.names())))


@cache
def _in_order(names: tuple[str, ...]) -> tuple[tuple[str, Metric], ...]:
    known = [(name, METRICS.get(name)) for name in names]
    return tuple(sorted(known, key=lambda pair: (pair[1].order, pair[0])))


def metric_names(*families: Family) -> tuple[str, ...]:
    """The metrics of these families: one family after the other, each in the order of its columns."""
    return tuple(name for family in families for name in _by_column(family))


def first_table() -> tuple[str, ...]:
    """The columns of the first and of small tables: the headline metrics, and sharpness.

    Sharpness is shown wherever calibration is: a constant probability is calibrated but useless.
    """
    return _by_column("headline", "sharpness")


def overview() -> tuple[str, ...]:
    """The metrics of a pipeline's own MLflow run: those of the first table, and the leading ones of other families."""
    return tuple(dict.fromkeys((*first_table(), *leading())))


def leading() -> tuple[str, ...]:
    """The metrics that represent their families, the headline first."""
    metrics = every_metric()
    return tuple(name for name in metric_names("headline", "calibration", "discrimination") if metrics[name].leading)


def ranked() -> tuple[str, ...]:
    """The metrics with a better and a worse value, the headline first."""
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness", "uncertainty")
    return tuple(name for name in names if metrics[name].best != "neither")


def highest_best() -> frozenset[str]:
    """The metrics whose highest value is the best."""
    return frozenset(name for name, metric in every_metric().items() if metric.best == "highest")


def title(name: str) -> str:
    """A metric's name for people; the name without underscores if no such metric is registered."""
    metric = every_metric().get(name)
    return metric.title if metric else name.replace("_", " ")


def _by_column(*families: Family) -> tuple[str, ...]:
    own = [(metric.column, name) for name, metric in every_metric().items() if metric.family in families]
    return tuple(name for _, name in sorted(own))
