"""Jobs: flows with a command, a deployment and an entry point of MLproject, which are declared at the flow.

A file in flows/jobs/ adds a job. The command line, prefect.yaml and MLproject are made from the jobs. No list names
them.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from prefect import Flow

F = TypeVar("F", bound="Flow[..., Any]")


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
    cron         its schedule in UTC, with at most one run at a time; None = no schedule
    """

    name: str
    description: str = ""
    cron: str | None = None


@dataclass(frozen=True)
class Job:
    """A flow with its command and its deployments.

    command      words of its command, such as ("import", "pykeen")
    shown        parameter of the flow -> how the command shows it. Others are options that have their names
    instead      an argument that stands for an option; None: there is none
    question     whether it answers in seconds. Then it is a flow run only where a Prefect server runs
    """

    flow: "Flow[..., Any]"
    command: tuple[str, ...]
    deployments: tuple[Deployment, ...]
    shown: Mapping[str, Argument | Option] = field(default_factory=dict)
    instead: Instead | None = None
    question: bool = False

    @property
    def module(self) -> str:
        """The module that declares it."""
        return self.flow.fn.__module__

    @property
    def entrypoint(self) -> str:
        """FILE:FLOW, as Prefect finds it."""
        return f"{self.module.replace('.', '/')}.py:{self.flow.fn.__name__}"

    @property
    def summary(self) -> str:
        """The first line of the flow's docstring."""
        return (inspect.getdoc(self.flow.fn) or "").splitlines()[0]


_JOBS: dict[str, Job] = {}  # entry point -> job


def job(
    command: tuple[str, ...] = (),
    deployments: tuple[Deployment, ...] = (),
    shown: Mapping[str, Argument | Option] | None = None,
    instead: Instead | None = None,
    question: bool = False,
) -> Callable[[F], F]:
    """Return a decorator that makes a flow a job. Command and deployment have the name of the flow if none is given.

    The docstring of the flow is the help of the command: its section `Args:` describes the options.
    """

    def declare(flow: F) -> F:
        declared = deployments or (Deployment(flow.name),)
        made = Job(flow, command or (flow.name,), declared, shown or {}, instead, question)
        _JOBS[made.entrypoint] = made
        return flow

    return declare


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
