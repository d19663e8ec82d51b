"""Ask a person in the Prefect UI whether a challenger becomes the champion."""

from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput

from kgcore.errors import InputError
from tasks.workspace.flow_run import current_flow_run
from tasks.workspace.prefect_api import permanent_api

DAY = 86_400
OFTEN = 5  # seconds between two requests for the answer


class Approval(RunInput):
    """The form: whether the challenger becomes the champion."""

    approve: bool = False


def check_approval() -> None:
    """Raise InputError if nobody could approve: outside a flow run, or without a permanent Prefect server."""
    if current_flow_run() is None or not permanent_api():
        raise InputError(
            "--approve needs a Prefect server, in whose UI a person answers: start it with `kgcal up`, then type the "
            "command again"
        )


def ask(question: str, seconds: int = DAY) -> bool | None:
    """Pause the flow run until a person resumes it in the Prefect UI. Return the answer; None if there is none.

    question  Markdown that the form shows
    seconds   longest pause
    """
    form = Approval.with_initial_data(description=question, approve=False)
    try:
        return bool(pause_flow_run(wait_for_input=form, timeout=seconds, poll_interval=OFTEN).approve)
    except FlowPauseTimeout:
        return None
