"""The metrics that each table shows, in the order of its columns."""

from kgcore.metrics.catalogue import every_metric, metric_names


def first_table(confidences: bool = False) -> tuple[str, ...]:
    """Return the metrics of a report's first table and of small tables: the headline metrics and sharpness.

    Sharpness is included because a constant probability can be calibrated and is still useless.

    confidences  whether the triples have confidences. The mean absolute error then follows; the mean squared error is
                 the Brier score
    """
    metrics = every_metric()
    errors = tuple(name for name in metric_names("confidence") if metrics[name].leading)
    usual = sorted(metric_names("headline", "sharpness"), key=lambda name: (metrics[name].column, name))
    return (*usual, *(errors if confidences else ()))


def headline() -> tuple[str, ...]:
    """Return the metrics of the family `headline`, which every comparison shows."""
    return metric_names("headline")


def leading() -> tuple[str, ...]:
    """Return the leading metrics of each family, for places with little room. The headline family comes first."""
    metrics = every_metric()
    return tuple(name for name in metric_names("headline", "calibration", "discrimination") if metrics[name].leading)


def overview() -> tuple[str, ...]:
    """Return the metrics that a pipeline's MLflow run shows: those of `first_table`, then the others of `leading`."""
    return tuple(dict.fromkeys((*first_table(), *leading())))


def further_tables() -> dict[str, tuple[str, ...]]:
    """Return the tables that follow the first table of a report: the sentence above a table -> its metrics."""
    calibration = "Calibration: are the probabilities right? Lower is better."
    discrimination = (
        "Discrimination: do true triples have higher probabilities than false ones? A higher value is better; "
        "sharpness alone is neither good nor bad."
    )
    return {
        calibration: metric_names("calibration"),
        discrimination: metric_names("discrimination", "sharpness"),
    }


def without_interval() -> str:
    """Return a sentence that names the metrics without an interval, and says why they have none."""
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness")
    titles = [metrics[name].title for name in names if not metrics[name].interval]
    return (
        f"{', '.join(titles[:-1])} and {titles[-1]} have no interval: on a finite sample they are biased, so that a "
        "bootstrap interval would often miss the true value, above all if the probabilities are calibrated. The "
        "debiased RMSCE has an interval that covers: it says whether a calibration error is left."
    )


def title(name: str) -> str:
    """Return the title of a metric. For a metric that is not registered, return its name without underscores."""
    metric = every_metric().get(name)
    return metric.title if metric else name.replace("_", " ")
