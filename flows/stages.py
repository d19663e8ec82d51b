"""One Prefect flow for each stage. Its inputs are run ids of upstream stages; the default is `latest`.

The flows are made from the table of stages in tasks/stages/table.py. Each input of a stage is a parameter that takes a
run id. The settings are the parameter `config`. A stage that computes on a device has the parameter `device`.
"""

import inspect
import json
import logging
from typing import Any

from flows.flow import HeartbeatFlow, flow
from flows.job import Deployment, Instead, Option, job, publish
from flows.parameters import THREADS, Device, RunId, Runner
from kgcore.config import MatchConfig
from kgcore.measure.report.result import Result, ResultTable
from tasks.jobs.manifest import is_run, resolve
from tasks.jobs.pipeline import log_choice, log_train_command
from tasks.jobs.refresh import later_stages
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.choose import CHOOSE
from tasks.stages.evidence import EVIDENCE_STAGE, evidence_of
from tasks.stages.match import MATCH
from tasks.stages.prepare import PREPARE
from tasks.stages.running import Context, Stage, StageRef
from tasks.stages.table import STAGES, in_order
from tasks.stages.train import TRAIN
from tasks.tracking.record import LATEST
from tasks.tracking.store import open_store
from tasks.workspace.flow_run import current_flow_run

log = logging.getLogger("kgcal")
PATHS = Instead("paths", "[PATH]...", "dataset", "folder or files, instead of --dataset", "the data set", several=True)
FORCE = "run even if a finished run could be re-used"
DEVICE = "auto, cpu, cuda or cuda:N"
RUNNER = "where a training in partitions runs: threads, dask, or dask://HOST:PORT"


def stage_flow(stage: Stage[Any]) -> HeartbeatFlow[..., str]:
    """Return the flow of a stage. The flow returns the MLflow run id of the stage."""
    signature = inspect.Signature(_parameters(stage), return_annotation=str)

    def run(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        config = given.get("config") or stage.config()
        used = stage.needed(config)
        places = {name: given[name] for name in ("device", "runner") if name in given}
        context = Context(force=given["force"], **places)
        upstream: list[StageRef | None] = []
        for name, source in stage.inputs.items():
            if source is MATCH and stage is CALIBRATE and given[name] and not is_run(given[name]):
                upstream.append(_match(given[name], upstream[0], config, context))
            elif source is EVIDENCE_STAGE and not given[name] and upstream[0]:
                upstream.append(evidence_of(upstream[0], upstream[1]))
            else:
                wanted = name in used and (given[name] or name not in stage.optional)
                upstream.append(resolve(source.name, given[name]) if wanted else None)
        further = [
            resolve(source.name, text)
            for name, source in stage.further.items()
            for text in given[name].replace(",", " ").split()
        ]
        if stage is TRAIN and upstream[0]:
            log_choice(upstream[0], config)
        ref = stage(*upstream, config=config, context=context, further=further)
        if stage is CHOOSE:
            log_train_command(ref)
        return published_stage(ref)

    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    run.__annotations__["return"] = str
    run.__name__ = run.__qualname__ = stage.name
    run.__doc__ = _docstring(stage)
    made = flow(name=stage.name, flow_run_name=stage.title)(run)
    paths = PATHS if stage is PREPARE else None
    shown = {name: Option("RUN,...") for name in stage.further}
    return job(deployments=(Deployment(f"stage-{stage.name}"),), shown=shown, instead=paths, kind="stage")(made)


def _match(candidates: str, scores: StageRef | None, config: Any, context: Context) -> StageRef:
    """Run match with its default settings, on the graph and the model of a score run."""
    assert scores is not None
    model = resolve("train", scores.run_id)
    settings = MatchConfig(candidates=candidates, match_base_rate=config.base_rate)
    return MATCH(resolve("prepare", model.run_id), model, config=settings, context=context)


def _parameters(stage: Stage[Any]) -> list[inspect.Parameter]:
    parameters = [
        _parameter(name, str, "") if name in stage.optional else _parameter(name, RunId, LATEST)
        for name in stage.inputs
    ]
    parameters += [_parameter(name, str, "") for name in stage.further]
    parameters += [_parameter("config", stage.config, stage.config())] if _settings(stage) else []
    parameters.append(_parameter("force", bool, False))
    parameters += [_parameter("device", Device, "auto")] if stage.on_device else []
    return parameters + ([_parameter("runner", Runner, THREADS)] if stage is TRAIN else [])


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _settings(stage: Stage[Any]) -> bool:
    """Return whether the stage has settings."""
    return bool(stage.config.model_fields)


def _docstring(stage: Stage[Any]) -> str:
    """Return a docstring that describes the flow and its parameters.

    The Prefect UI shows it in the form, and the command shows it as help.
    """
    lines = [stage.summary, "", "Args:"]
    lines += [f"    {name}: {_described(stage, name, source)}" for name, source in stage.inputs.items()]
    for name, source in stage.further.items():
        lines.append(
            f"    {name}: run ids of further {source.name} runs, with commas, whose scores are evidence, too; if "
            "empty, none"
        )
    lines += [f"    config: settings of {stage.name}"] if _settings(stage) else []
    lines.append(f"    force: {FORCE}")
    lines += [f"    device: {DEVICE}"] if stage.on_device else []
    return "\n".join(lines + ([f"    runner: {RUNNER}"] if stage is TRAIN else []))


def _described(stage: Stage[Any], name: str, source: Stage[Any]) -> str:
    """Return the description of an input of a stage."""
    run = f"run id of the {source.name} run"
    if name not in stage.optional:
        used = "; used only by strategies that draw with a model" if name in stage.needs else ""
        return f"{run} or of a pipeline, URI, or {LATEST} (the newest finished pipeline){used}"
    if source is CHOOSE:
        return f"{run} whose race the report shows; if empty, it shows none"
    if source is EVIDENCE_STAGE:
        without = "Without one, calibrators that see evidence are not fitted"
        return f"{run}; if empty, the newest one of these scores. {without}"
    if stage is EVIDENCE_STAGE:
        return f"{run} whose candidates get evidence, too; if empty, none"
    return (
        "file of the triples that you want probabilities for; or valid or test, a held-out split with its labels "
        f"hidden; or the run id of a {source.name} run. One more group of calibrators is then fitted to these triples"
    )


def published_stage(ref: StageRef) -> str:
    """Show the run, settings, inputs and metrics of a single stage in the Prefect UI. Return its run id.

    The page and the log say which later stages are stale.
    """
    later = later_stages(ref.run_id)
    if stale := later.sentence() if later else "":
        log.info("%-9s %s", ref.stage, stale)
    if (flow_run := current_flow_run()) is None:
        return ref.run_id
    run = open_store().get(ref.run_id)
    reused = run.started < flow_run.started
    done = "existed already and is re-used" if reused else f"took {run.metrics['seconds']:.1f} seconds"
    tables = [
        ResultTable(rows=[{name: key, "": _text(value)} for key, value in values.items()])
        for name, values in (("setting", run.tags.config or {}), ("from", in_order(run.tags.inputs)))
    ]
    metrics = [{"metric": name, "value": round(value, 6)} for name, value in sorted(run.metrics.items())]
    dataset = open_store().known(run.lineage["prepare"]).dataset.name
    said = [ResultTable(notes=[f"MLflow run `{ref.run_id}` {done}."])]
    publish(Result(title=ref.stage, verdict=stale, tables=[*said, *tables], run=ref.run_id, rows=metrics), dataset)
    return ref.run_id


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


STAGE_FLOWS = tuple(stage_flow(stage) for stage in STAGES)
globals().update({made.name: made for made in STAGE_FLOWS})  # prefect.yaml names them as flows/stages.py:STAGE
