"""The Prefect flow that decides whether the best calibrated model of a data set replaces the champion."""

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput

from flows.flow import flow
from flows.job import Deployment, job, publish
from kgcore.config import GateConfig
from kgcore.errors import InputError, KgcalError
from tasks.jobs.promote import Decision, Decisions, approve, datasets_with_results, promote_best
from tasks.workspace.flow_run import current_flow_run, permanent_api

DAY = 86_400
OFTEN = 5  # seconds between two requests for the answer


class Approval(RunInput):
    """The form: whether the challenger becomes the champion."""

    approve: bool = False


@job(deployments=(Deployment("promote", alone=True),), kind="care")
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


def check_approval() -> None:
    """Raise InputError if nobody could approve: outside a flow run, or without a permanent Prefect server."""
    if current_flow_run() is None or not permanent_api():
        raise InputError(
            "--approve needs a Prefect server, in whose UI a person answers: start it with `kgcal up`, then type the "
            "command again"
        )


def ask(question: str, seconds: int = DAY) -> bool | None:
    """Pause the flow run until a person resumes it in the Prefect UI. Return the answer, or None.

    question  Markdown that the form shows
    seconds   longest pause
    """
    form = Approval.with_initial_data(description=question, approve=False)
    try:
        return bool(pause_flow_run(wait_for_input=form, timeout=seconds, poll_interval=OFTEN).approve)
    except FlowPauseTimeout:
        return None
