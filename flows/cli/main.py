"""The entry point of the command line, and the list of commands. Help and completion load no command's module.

A command's options come from its flow and its settings. Importing these loads Prefect, which takes more than a second:
a command's module is imported when the command runs or prints its help. The source of a new job, which SUMMARIES does
not have, is read without an import. A test compares SUMMARIES with the commands.
"""

import ast
import ctypes
import gc
import io
import os
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from flows.cli.terminal import CommandGroup, fail, new_app
from flows.job import job_modules
from kgcore.errors import NO_SPACE, InputError
from tasks.workspace.flow_run import FULL_OUTPUT
from tasks.workspace.flow_run import console as errors

# Python's 700 would have it look through all objects of the libraries hundreds of times, for a tenth of a run's time
ALLOCATIONS = 10_000
M_ARENA_MAX = -8  # of glibc's malloc.h
NEED_LABELS = ("watch", "recalibrate")  # they look for a file of labels before they load anything

# module -> command -> the first paragraph of its help; empty for a hidden command. The help lists them in this order.
SUMMARIES: dict[str, dict[str, str]] = {
    "flows.pipeline": {"run": "Turn a data set into calibrated probabilities and a report."},
    "flows.jobs.recalibrate": {
        "recalibrate": "Calibrate a trained model again, with new labels, to candidates, or for a new base rate.",
    },
    "flows.jobs.predict": {
        "predict": "Give candidate triples a score, a probability with an interval, and a decision.",
    },
    "flows.jobs.discover": {"discover": "List the most probable missing facts. Known facts are left out."},
    "flows.jobs.explain": {
        "explain": (
            "Explain the probability of a triple by calibration data, other base rates, alternatives and near "
            "known facts."
        ),
    },
    "flows.jobs.base_rate": {
        "base-rate": "Estimate which share of candidates is true, overall and by relation, with 95 % intervals.",
    },
    "flows.jobs.audit": {"audit": "List the training facts that are probably wrong, or draw facts to label."},
    "flows.jobs.calibrate_scores": {
        "calibrate-scores": (
            "Turn the scores of any scorer, such as a rule miner or a language model, into probabilities."
        ),
    },
    "flows.stages": {
        "prepare": "Fetch a data set, check its files and triples, and number its entities and predicates.",
        "choose": "Choose the model and its training settings for the graph of a prepare run, by a race on validation.",
        "train": "Train the embeddings on the graph of a prepare run.",
        "match": "Estimate the kinds of mistakes among candidates, and their base rate.",
        "corrupt": (
            "Corrupt the validation positives, and also the test positives if the data set has no labelled negatives."
        ),
        "score": "Score the held-out triples and the corruptions with a trained model.",
        "evidence": "Compute the evidence of the labelled validation triples and of the test triples.",
        "calibrate": "Fit calibrators on the scores of a score run.",
        "classify": "Classify the test triples with every calibrator, and with per-relation thresholds.",
        "rank": "Rank test positives among all their corruptions with a trained model.",
        "evaluate": "Evaluate the predictions of a classify run, and add the ranks of a rank run.",
        "report": "Write the report of an evaluate run.",
    },
    "flows.jobs.refresh": {"refresh": "Bring the later stages up to date after a single stage ran again."},
    "flows.jobs.promote": {
        "promote": (
            "Compare the best calibrated models of a data set on its exam, and make the best the champion if it passes."
        ),
    },
    "flows.jobs.watch": {"watch": "Check a champion on newly labelled triples; warn of drift, or recalibrate."},
    "flows.jobs.tune": {"tune": "Search for the best training settings on the validation split."},
    "flows.jobs.ensemble": {
        "ensemble": "Pool calibrated models of one data set, and compare the ensembles with their members.",
    },
    "flows.jobs.reproduce": {
        "reproduce": "Compare our results with the paper's tables; run the pipelines that are missing.",
    },
    "flows.cli.commands.overviews": {
        "compare": "Compare the evaluated calibrators of all finished runs, best first.",
        "datasets": "List the data sets: sizes, source, and what is already on this machine.",
    },
    "flows.cli.commands.services": {
        "ui": "Serve the MLflow UI with all runs until Ctrl-C.",
        "up": "Start MLflow, Prefect and a worker on this machine, and create the deployments; keep running services.",
        "down": "Cancel the flow runs of the worker, and stop the services that `kgcal up` has started.",
        "status": "Show the services of `kgcal up`, and the active flow runs of the worker.",
        "serve": "Serve a calibrated model: a JSON API, its OpenAPI page at /docs, and a page for people at /.",
        "schedule": "Run the pipeline by itself for a data set, at stated times; without one, list the schedules.",
    },
    "flows.cli.commands.entry_point": {"project": ""},
    "flows.jobs.import_model": {"import": "Import a model of another library."},
}


def declared_commands(module: str) -> dict[str, str]:
    """Return the commands that a file of flows/jobs declares, with the first paragraph of their help. Import nothing.

    A job's command has the name of its flow, or the first word of `command` in `@job`. A question's has that of its
    function.
    """
    source = Path(__file__).parents[1] / "jobs" / f"{module.rpartition('.')[2]}.py"
    commands = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        calls = [call for call in getattr(node, "decorator_list", ()) if isinstance(call, ast.Call)]
        options = {call.func.id: call for call in calls if isinstance(call.func, ast.Name)}
        if isinstance(node, ast.FunctionDef) and options.keys() & {"job", "question"}:
            words = {word.arg: word.value for call in options.values() for word in call.keywords}
            if "job" in options and options["job"].args:
                words["command"] = options["job"].args[0]
            named = ast.literal_eval(words.get("command") or words.get("name") or ast.Constant(node.name))
            name = named if isinstance(named, str) else named[0]
            commands[name] = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
    return commands


def main() -> None:
    """Run `kgcal`."""
    gc.set_threshold(ALLOCATIONS, 10, 10)
    if sys.platform == "linux":
        share_memory()
    try:
        check_process()
        lazy_app()()
    except InputError as error:
        refusal = str(error)
    except OSError as error:  # of `--help` and `--version`: commands have their own sentences
        if error.errno not in NO_SPACE or error.filename:
            raise
        refusal = FULL_OUTPUT.format(error.strerror)
    errors.print(f"kgcal: {refusal}", soft_wrap=True)
    sys.exit(2)


def check_process() -> None:
    """Raise InputError if the process has no standard output, or words that are no UTF-8.

    What a terminal cannot show becomes an escape.
    """
    if sys.stdout is None:
        raise InputError("the standard output is closed: to read no answer, send it to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    settings = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("KGCAL_", "MLFLOW_"))]
    for text in (*sys.argv[1:], *settings):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{text} is not UTF-8: give names and paths as UTF-8 text") from None


def share_memory() -> None:
    """Let all threads take memory from one arena of glibc; other C libraries have none.

    With an arena for each thread, memory that one thread frees is not used again by another: a search of 64 million
    pairs took 1.75 GB instead of 1.35.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_ARENA_MAX, 1)


def app_of(*modules: str) -> typer.Typer:
    """Return the application with the commands of these modules, loaded."""
    app = new_app()
    for module in modules:
        if module in job_modules():
            from flows.cli.flow_command import add_jobs  # loads the settings

            add_jobs(app, module)
        else:
            import_module(module).add(app)
    return app


def whole_app() -> typer.Typer:
    """Return the application with all commands, loaded."""
    return app_of(*dict.fromkeys([*SUMMARIES, *job_modules()]))


def lazy_app() -> typer.Typer:
    """Return the application whose commands are loaded when they are called."""
    return new_app(LazyGroup)


class LazyGroup(CommandGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for module, summaries in SUMMARIES.items():
            for name, summary in summaries.items():
                self.add_command(LaterCommand(name, summary, module), name)
        for module in job_modules():
            if module not in SUMMARIES:
                for name, summary in declared_commands(module).items():
                    self.add_command(LaterCommand(name, summary, module), name)
        self.commands["import"] = self.commands.pop("import")  # Typer lists groups after commands

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command. A name that SUMMARIES lacks, such as that of a new stage, is looked up among all."""
        return super().get_command(ctx, cmd_name) or _group(whole_app()).get_command(ctx, cmd_name)


class LaterCommand(TyperCommand):
    """A command or a group of commands whose module is imported when it is called."""

    def __init__(self, name: str, summary: str, module: str) -> None:
        super().__init__(name, help=summary, hidden=not summary, rich_markup_mode=None)
        self.module = module

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command itself, which is loaded now: after a look for the file of labels."""
        needed = [word for option, word in pairwise(args) if option == "--labels"] if self.name in NEED_LABELS else []
        for path in needed:
            try:
                Path(path).open("rb").close()
            except OSError as error:
                fail(f"{path} cannot be read: {error.strerror}")
        app = app_of(self.module)
        app.registered_commands = [known for known in app.registered_commands if known.name == self.name]
        return _group(app).commands[str(self.name)].make_context(info_name, args, parent, **extra)


def _group(app: typer.Typer) -> TyperGroup:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return group


if __name__ == "__main__":
    main()
