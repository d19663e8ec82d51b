"""The metrics that tables show, in the order of their columns."""

from kgcore.metrics.catalogue import every_metric, metric_names


def first_table() -> tuple[str, ...]:
    """The columns of the first table and of small tables: the headline metrics and sharpness.

    Sharpness is shown wherever calibration is, because a constant probability is calibrated but useless.
    """
    metrics = every_metric()
    return tuple(sorted(metric_names("headline", "sharpness"), key=lambda name: (metrics[name].column, name)))


def headline() -> tuple[str, ...]:
    """The metrics for every comparison."""
    return metric_names("headline")


def leading() -> tuple[str, ...]:
    """One or more metrics of each family, the headline first, for places with little room."""
    metrics = every_metric()
    return tuple(name for name in metric_names("headline", "calibration", "discrimination") if metrics[name].leading)


def overview() -> tuple[str, ...]:
    """The metrics of the pipeline's own MLflow run: the first table, and the leading metrics of other families."""
    return tuple(dict.fromkeys((*first_table(), *leading())))


def further_tables() -> dict[str, tuple[str, ...]]:
    """The tables after the first table: the sentence above a table -> its columns."""
    return {
        "Calibration: are the probabilities right? Lower is better.": metric_names("calibration"),
        "Discrimination: do true triples have higher probabilities? Higher is better, except for sharpness.": (
            metric_names("discrimination", "sharpness")
        ),
    }


def title(name: str) -> str:
    """The title of a metric for readers. For an unregistered metric, its name without underscores."""
    metric = every_metric().get(name)
    return metric.title if metric else name.replace("_", " ")
