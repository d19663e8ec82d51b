"""The Prefect flow that decides whether the best calibrated model of a data set replaces the champion."""

from flows.deployment.flow import flow
from flows.deployment.publish import publish_decisions
from kgcore.config import GateConfig
from kgcore.errors import InputError, KgcalError
from tasks.jobs.promote import Decision, datasets_with_results, promote_best


@flow(name="promote", flow_run_name="promote {dataset}")
def promote(dataset: str = "", base_rate: float | None = None, config: GateConfig = GateConfig()) -> list[Decision]:
    """Promote the best calibrated model of a data set to champion if the model passes the gate.

    The gate compares the model with the champion. Without a champion, it compares with the constant base rate. It
    demands a significantly better Brier score, by a bootstrap interval, and a calibration error that is not worse.

    Args:
        dataset: data set that has results; if empty, every data set that has results
        base_rate: consider only runs with this base rate, stated or assumed; if empty, all runs
        config: the conditions of the gate
    """
    decisions, mistakes = [], []
    for name in [dataset] if dataset else datasets_with_results():
        try:
            decisions.append(promote_best(name, base_rate, config))
        except KgcalError as error:  # continue with the other data sets
            mistakes.append(str(error))
    publish_decisions(decisions)
    if mistakes:
        done = [decision.explanation for decision in decisions]
        raise InputError("; ".join([*mistakes, *done]))
    return decisions
