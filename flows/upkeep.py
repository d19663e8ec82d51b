"""What keeps the best calibrated model in use and honest: the gate to it, and the watch over it."""

from pathlib import Path
from typing import Any

from flows.deployment.flow import flow
from flows.deployment.publish import publish_decisions, publish_look
from flows.pipeline import recalibrate
from kgcore.config import GateConfig, WatchConfig
from kgcore.errors import InputError, KgcalError
from tasks.jobs.promote import datasets_with_results, promote_best
from tasks.jobs.watch import mark_recalibrated, watch_champion
from tasks.workspace.flow_run import current_flow_run


@flow(name="promote", flow_run_name="promote {dataset}")
def promote(
    dataset: str = "", base_rate: float | None = None, config: GateConfig = GateConfig()
) -> list[dict[str, Any]]:
    """Make the best calibrated model of a data set its champion where it passes the gate.

    The gate: a better Brier score beyond its bootstrap interval, and a calibration error that is not worse.

    Args:
        dataset: a data set that has results; none = each of them
        base_rate: only calibrators of runs that stated this base rate; none = all
        config: the gate
    """
    decisions, mistakes = [], []
    for name in [dataset] if dataset else datasets_with_results():
        try:
            decisions.append(promote_best(name, base_rate, config))
        except KgcalError as error:  # the others are let through all the same
            mistakes.append(str(error))
    publish_decisions(decisions)
    if mistakes:
        done = [decision["explanation"] for decision in decisions]
        raise InputError("; ".join([*mistakes, *done]))
    return decisions


@flow(name="watch", flow_run_name="watch {dataset}")
def watch(dataset: str, labels: str, config: WatchConfig = WatchConfig()) -> dict[str, Any]:
    """See whether a data set's champion still fits newly labelled triples; warn, or recalibrate.

    Args:
        dataset: a data set with a champion
        labels: file of newly labelled triples: subject, predicate, object, 1 or -1
        config: what counts as drift, and what is done about it
    """
    seen = watch_champion(dataset, Path(labels), config)
    if seen["findings"] and config.on_drift == "recalibrate" and "recalibrated" not in seen:
        again = recalibrate if current_flow_run() else recalibrate.fn
        seen["recalibrated"] = again(model=seen["model"], labels=labels)["pipeline"]
        mark_recalibrated(seen, seen["recalibrated"])
    publish_look(seen)
    return seen
