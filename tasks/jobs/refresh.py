"""After a single stage ran again: which later stages still show its earlier run, and new runs of these stages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kgcore.errors import InputError
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.manifest import named_run
from tasks.jobs.pipeline import all_settings, finish_pipeline, open_work
from tasks.stages.calibrate import CALIBRATE, completeness_of
from tasks.stages.choose import CHOOSE
from tasks.stages.evidence import EVIDENCE_STAGE, other_models
from tasks.stages.match import MATCH
from tasks.stages.running import IMPORTED, Context, Stage, StageRef, config_of, loss_of
from tasks.stages.table import STAGES
from tasks.stages.train import TRAIN, adopt_model
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.store import Store, open_store


@dataclass(frozen=True)
class Later:
    """The stages after a run of a single stage, as the newest result has them.

    run    the run of the single stage
    newest the newest run of the last stage that is based on it or on an earlier run of its stage, with the same inputs
    runs   later stage -> its newest run that is based on `run`, otherwise the run that `newest` is based on
    stale  the stages of `runs` that are based on an earlier run
    """

    run: RunRecord
    newest: RunRecord
    runs: Mapping[str, RunRecord]
    stale: tuple[str, ...]

    def sentence(self) -> str:
        """Return which stages are stale, and what brings them up to date; '' if none is."""
        if not self.stale:
            return ""
        *first, last = self.stale
        names = f"{', '.join(first)} and {last} are" if first else f"{last} is"
        return (
            f"{names} still based on an earlier run of {self.run.tags.stage}: `kgcal refresh {self.run.run_id}`, or "
            f"the deployment `refresh/refresh` with this run, brings them up to date and re-uses everything else"
        )


def later_stages(run_id: str) -> Later | None:
    """Return the stages after a finished run of a stage; None if no later stage has a run.

    An earlier run of the stage has the same upstream runs; one of prepare has the same data set. Raises InputError if
    `run_id` is no finished run of a stage.
    """
    store = open_store()
    run = store.get(run_id)
    stage = next((one for one in STAGES if one.name == run.tags.stage), None)
    if stage is None:
        raise InputError(f"run {run_id} is a {run.tags.stage} run: name the run of a stage, such as calibrate")
    run.check_finished(stage.name)
    needed = (source.name for name, source in stage.inputs.items() if name not in stage.optional)
    inputs = {name: run.tags.inputs[name] for name in needed if name in run.tags.inputs}
    alike = store.find_all(RunTags(stage=stage.name, inputs=inputs, dataset=run.tags.dataset))
    same = {one.run_id for one in alike if inputs or one.tags.inputs == run.tags.inputs}  # prepare: the same labels
    after = [one.name for one in STAGES if stage.name in one.lineage()[:-1]]
    for last in reversed(after):
        for newest in store.find_all(RunTags(stage=last, inputs=inputs)):
            if newest.tags.inputs.get(stage.name) in same:
                return _later(store, run, newest, inputs, after)
    return None


def _later(store: Store, run: RunRecord, newest: RunRecord, inputs: Mapping[str, str], after: list[str]) -> Later:
    stage, runs, stale = str(run.tags.stage), dict[str, RunRecord](), list[str]()
    for name in after:
        old = store.known(newest.lineage[name]) if name in newest.lineage else None
        if old and stage in old.tags.inputs:
            ours = store.find(RunTags(stage=name, inputs={**inputs, stage: run.run_id}))
            runs[name] = ours[0] if ours else old
            stale += [] if ours else [name]
    return Later(run, newest, runs, tuple(stale))


def refresh_later(text: str, context: Context, flow_run: str | None) -> PipelineSummary:
    """Run the stages after a run of a single stage again, with their settings, as a new pipeline. Return its results.

    text      the run: its id, STAGE:ID, or the URI of its model or artifact
    flow_run  id of the Prefect flow run; a retry of the flow run resumes the same MLflow run

    Raises InputError if `text` names no run of a stage or no later stage has a run, and as the stages do.
    """
    store = open_store()
    later = later_stages(named_run(store, text if "/" in text else text.rpartition(":")[2]).run_id)
    if later is None:
        raise InputError(f"no later stage is based on run {text} or an earlier run of its stage: `kgcal run` runs them")
    inputs = {**later.newest.tags.inputs, **later.run.lineage}
    records = {name: store.known(run_id) for name, run_id in inputs.items() if "." not in name} | dict(later.runs)
    settings = {stage.name: config_of(stage.config, records[stage.name]) for stage in STAGES if stage.name in records}
    title = f"refresh {records['prepare'].dataset.name} after {later.run.tags.stage}"
    refs = {name: StageRef(name, record.run_id) for name, record in records.items() if name not in later.runs}
    with open_work(title, RunTags(stage="pipeline", flow_run=flow_run), all_settings(settings)) as run_id:
        context = replace(context, parent=run_id)
        for stage in STAGES:
            if stage.name in later.runs:
                refs[stage.name] = _again(stage, records[stage.name], refs, context)
            elif stage.name not in refs and stage not in (CHOOSE, MATCH, EVIDENCE_STAGE):
                refs[stage.name] = stage(*(refs.get(source.name) for source in stage.inputs.values()), context=context)
        return finish_pipeline(run_id, refs)


def _again(stage: Stage[Any], record: RunRecord, refs: Mapping[str, StageRef], context: Context) -> StageRef:
    """Run a stage with the settings of an earlier run, and with other inputs of the same stages."""
    if stage is TRAIN and loss_of(record) == IMPORTED:
        return adopt_model(StageRef(TRAIN.name, record.run_id), refs["prepare"], context)
    config = config_of(stage.config, record)
    if stage is CALIBRATE:
        config = config.replace(completeness=completeness_of(record))
    names = [source.name for source in stage.inputs.values()]
    upstream = [refs[name] if name in record.tags.inputs else None for name in names]
    further = [StageRef(TRAIN.name, run_id) for run_id in other_models(record.tags.inputs)] if stage.further else []
    return stage(*upstream, config=config, context=context, further=further)
