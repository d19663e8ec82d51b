"""The Prefect flow that decides whether the best calibrated model of a data set replaces the champion."""

from flows.deployment.approval import ask, check_approval
from flows.deployment.publish import publish
from flows.flow import flow
from flows.job import Deployment, job
from kgcore.config import GateConfig
from kgcore.errors import InputError, KgcalError
from tasks.jobs.promote import Decision, Decisions, approve, datasets_with_results, promote_best


@job(deployments=(Deployment("promote", cron="7 5 * * *"),))
@flow(name="promote", flow_run_name="promote {dataset}")
def promote(dataset: str = "", base_rate: float | None = None, config: GateConfig = GateConfig()) -> Decisions:
    """Compare the best calibrated models of a data set on its exam, and make the best the champion if it passes.

    The exam is the same for all candidates. Each candidate is compared with the champion. If there is no champion, it
    is compared with a constant probability, the base rate. A candidate passes if its Brier score is significantly
    better, and if it is shown that its calibration error is higher by less than a margin. Candidates that were judged
    before are not judged again.

    Args:
        dataset: data set that has results; if empty, every data set that has results
        base_rate: base rate of the exam; if empty, that of the field labels or, for the test split, the one stated for
            the champion or for the newest run
        config: the conditions of the gate
    """
    if config.approve:
        check_approval()
    decisions = Decisions()
    mistakes: list[str] = []
    for name in [dataset] if dataset else datasets_with_results():
        try:
            decisions.append(promote_best(name, base_rate, config))
        except KgcalError as error:  # continue with the other data sets
            mistakes.append(str(error))
    publish(decisions)
    if any(decision.waiting for decision in decisions):
        decisions = Decisions(_answered(decision, mistakes) if decision.waiting else decision for decision in decisions)
        publish(decisions)
    if mistakes:
        done = [decision.explanation for decision in decisions]
        raise InputError("; ".join([*mistakes, *done]))
    return decisions


def _answered(decision: Decision, mistakes: list[str]) -> Decision:
    """Ask a person, and carry out the answer. If that fails, add the reason to the mistakes."""
    try:
        return approve(decision, ask(decision.explanation))
    except KgcalError as error:
        mistakes.append(str(error))
        return decision
