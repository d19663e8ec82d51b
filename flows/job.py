"""Jobs: flows with a command, a deployment and an entry point of MLproject, which are declared at the flow.

A file in flows/jobs/ adds a job. The command line, prefect.yaml and MLproject are made from the jobs. No list names
them. `publish` shows the result of a job in the Prefect UI.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kgcore.errors import first_line
from kgcore.measure.report.result import Result
from tasks.workspace.flow_run import current_flow_run, tag

if TYPE_CHECKING:
    from prefect import Flow

F = TypeVar("F", bound=Callable[..., Any])
log = logging.getLogger("kgcal")
MOST_ROWS = 48  # a reproduction has hundreds of rows, too many for a dashboard


@dataclass(frozen=True)
class Argument:
    """A parameter that the command takes as an argument, without an option's name.

    metavar   its name in the help
    required  whether the command needs it, although the flow has a default
    """

    metavar: str
    required: bool = False


@dataclass(frozen=True)
class Option:
    """A parameter whose option has another name, or a name for its value in the help."""

    metavar: str = ""
    name: str = ""


@dataclass(frozen=True)
class Instead:
    """An argument of the command that stands for an option.

    name     its name in Python
    metavar  its name in the help
    option   parameter or setting that it sets
    help     its description
    what     what is named twice if both are given
    several  whether several words are taken; commas then separate them
    """

    name: str
    metavar: str
    option: str
    help: str
    what: str
    several: bool = False


@dataclass(frozen=True)
class Deployment:
    """A deployment of a flow in prefect.yaml.

    name         its name in `prefect deployment run FLOW/NAME`
    description  one sentence for the UI; '': the first line of the flow's docstring
    cron         its schedule in UTC; None = no schedule
    alone        whether at most one of its runs is active at a time; always with a schedule
    """

    name: str
    description: str = ""
    cron: str | None = None
    alone: bool = False


@dataclass(frozen=True)
class Job:
    """A flow or a question, with its command and its deployments.

    Work is a Prefect flow. A question answers in seconds: a command calls its function, without Prefect, and makes it a
    flow only where a Prefect server runs.

    name         its name in Prefect
    work         the flow; the function of a question
    command      words of its command, such as ("import", "pykeen")
    shown        parameter of the flow -> how the command shows it. Others are options that have their names
    instead      an argument that stands for an option; None: every option has its name
    run_name     of a question: template for the names of its flow runs, with parameters in braces
    question     whether it is a question
    kind         the group of its deployments and flow runs, as a tag: pipeline, stage, model, question or care
    """

    name: str
    work: Callable[..., Any]
    command: tuple[str, ...]
    deployments: tuple[Deployment, ...]
    shown: Mapping[str, Argument | Option] = field(default_factory=dict)
    instead: Instead | None = None
    run_name: str | None = None
    question: bool = False
    kind: str = "question"

    @property
    def flow(self) -> "Flow[..., Any]":
        """The Prefect flow, which its entry point names."""
        flow: Flow[..., Any] = getattr(import_module(self._flow_module), self.fn.__name__)
        return flow

    @property
    def fn(self) -> Callable[..., Any]:
        """The function of the flow."""
        function: Callable[..., Any] = getattr(self.work, "fn", self.work)
        return function

    @property
    def module(self) -> str:
        """The module that declares it."""
        return self.fn.__module__

    @property
    def entrypoint(self) -> str:
        """FILE:FLOW, as Prefect finds it."""
        return f"{self._flow_module.replace('.', '/')}.py:{self.fn.__name__}"

    @property
    def _flow_module(self) -> str:
        return "flows.questions" if self.question else self.module

    @property
    def summary(self) -> str:
        """The first line of the flow's docstring."""
        return (inspect.getdoc(self.fn) or "").splitlines()[0]


_JOBS: dict[str, Job] = {}  # entry point -> job


def job(
    command: tuple[str, ...] = (),
    deployments: tuple[Deployment, ...] = (),
    shown: Mapping[str, Argument | Option] | None = None,
    instead: Instead | None = None,
    kind: str = "model",
) -> Callable[[F], F]:
    """Return a decorator that makes a flow a job. Command and deployment have the name of the flow if none is given.

    The docstring of the flow is the help of the command: its section `Args:` describes the options.
    """

    def declare(flow: F) -> F:
        name = getattr(flow, "name", flow.__name__)
        made = Job(name, flow, command or (name,), deployments or (Deployment(name),), shown or {}, instead, kind=kind)
        _JOBS[made.entrypoint] = made
        return flow

    return declare


def question(shown: Mapping[str, Argument | Option] | None = None, run_name: str | None = None) -> Callable[[F], F]:
    """Return a decorator that makes a function a question, whose name is that of the function and of its file."""

    def declare(function: F) -> F:
        name = function.__name__
        made = Job(name, function, (name,), (Deployment(name),), shown or {}, run_name=run_name, question=True)
        _JOBS[made.entrypoint] = made
        return function

    return declare


def kind_of(name: str) -> str:
    """Return the kind of the loaded job whose flow has this name; '' without one."""
    return next((job.kind for job in _JOBS.values() if job.name == name), "")


def job_modules() -> list[str]:
    """Return the modules that declare jobs, in the order in which the help lists their commands. Imports none."""
    files = sorted(path.stem for path in Path(__file__).with_name("jobs").glob("[a-z]*.py"))
    return ["flows.pipeline", *(f"flows.jobs.{name}" for name in files), "flows.stages"]


def jobs_of(module: str) -> list[Job]:
    """Return the jobs that a module declares, and import it."""
    import_module(module)
    return [job for job in _JOBS.values() if job.module == module]


def all_jobs() -> list[Job]:
    """Return all jobs, and import them."""
    return [job for module in job_modules() for job in jobs_of(module)]


class HasResult(Protocol):
    """What a job returns beside a `Result`: facts for Python, which know how they are shown."""

    def result(self) -> Result:
        """Return what a user sees."""


T = TypeVar("T", bound=HasResult | Result)


def result_of(found: HasResult | Result) -> Result:
    """Return what a user sees of the value that a job returns."""
    return found if isinstance(found, Result) else found.result()


def publish(found: T, dataset: str = "") -> T:
    """Publish the value that a job returns as artifacts of the flow run, and return it. Outside a flow run: nothing.

    The artifacts are the Markdown text `summary`, the table `results` and, if the address of an MLflow server is known,
    the link `mlflow-run`. Logs a warning if the server refuses an artifact.

    dataset  data set to tag the flow run with, if no parameter names it; '': none
    """
    if (flow_run := current_flow_run()) is None:
        return found
    from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact

    from tasks.tracking.ui import run_page  # loads MLflow

    result = result_of(found)
    title = result.title
    try:
        create_markdown_artifact(f"# {title}\n\n{result.markdown()}", key="summary", description=title)
        create_table_artifact([dict(row) for row in result.table[:MOST_ROWS]], key="results", description=title)
        if result.run and (page := run_page(result.run)):
            create_link_artifact(page, link_text="the run in MLflow", key="mlflow-run", description=title)
        if dataset:
            tag(flow_run.id, dataset)
    except Exception as error:  # ignore any error of the server: the results are in MLflow
        log.warning("the results cannot be shown in the Prefect UI: %s", first_line(error))
    return found
