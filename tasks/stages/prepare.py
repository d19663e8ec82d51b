"""prepare: read a data set or a folder of files, validate it, and number its entities and predicates.

This file also adds newly labelled triples to the graph of an earlier prepare run, and leaves out a fold of its facts.
"""

import logging
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING

from kgcore.config import AuditConfig, PrepareConfig
from kgcore.data.datasets.base import find_dataset, md5_of, used_settings
from kgcore.errors import InputError
from kgcore.measure.report.data import label_notes
from kgcore.registries import DATASETS, STRATEGIES
from tasks.stages.running import Context, Stage, StageRef, StageRun, as_task, config_of, run_stage
from tasks.tracking.artifacts import COUNTS, DATA_REPORT, GRAPH, UNSEEN
from tasks.tracking.record import TRAINING, DatasetId, RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import DownloadBar
from tasks.workspace.settings import ensure_home, mirror

if TYPE_CHECKING:
    from kgcore.data.datasets.prepare import Prepared

log = logging.getLogger("kgcal")


def _body(run: StageRun, config: PrepareConfig) -> None:
    from kgcore.data.datasets.prepare import read_dataset
    from kgcore.measure.report.graph_findings import data_report

    spec = find_dataset(config.dataset)
    prepared = read_dataset(config, ensure_home() / "datasets", mirror(), DownloadBar)
    _log_prepared(run, prepared, spec.url or spec.title)
    if prepared.unseen:
        run.save(UNSEEN, prepared.unseen)
    page, notes = data_report(prepared, config.split)
    run.save(DATA_REPORT, page)
    for note in notes:
        log.info("prepare   %s", note)


def _code(config: PrepareConfig) -> list[str]:
    from kgcore.data.datasets.read import format_modules

    spec = find_dataset(config.dataset)
    code = [
        "kgcore.data.datasets.prepare",
        "kgcore.data.datasets.fetch",
        "kgcore.measure.report.graph_findings",
        *format_modules(spec),
    ]
    return code if spec.folder else [*code, DATASETS.module(config.dataset)]


PREPARE = Stage(
    name="prepare",
    summary="Fetch a data set, check its files and triples, and number its entities and predicates.",
    title="prepare {config.dataset}",
    config=PrepareConfig,
    body=_body,
    code=_code,
    normalise=used_settings,
    identity=lambda config: find_dataset(config.dataset).identity(),
)


@as_task("add_labels")
def add_labels(
    data: StageRef, labels: Path, instead: bool = False, exam_share: float = 0.0, context: Context = Context()
) -> StageRef:
    """Add newly labelled triples to the validation split of a prepare run's graph. Return a new prepare run.

    data        a prepare run. If labels were added to its graph before, they are dropped: the file must contain all
                labels
    labels      file of the labelled triples: subject, predicate, object, 1 or -1
    instead     whether the labelled triples replace the validation split
    exam_share  share of the labels that belong to the exam of the data set (`for_exam`): these are not added

    Raises InputError if the file cannot be read, or if none of its triples can be used.
    """
    from kgcore.data.datasets.labels import for_exam, read_labels, with_labels
    from kgcore.data.datasets.prepare import Prepared

    data = StageRef("prepare", original_data(open_store(), data.run_id))
    config = config_of(PrepareConfig, open_store().get(data.run_id))
    identity = f"labels {md5_of(labels)} {instead} {exam_share}"  # contains a hash of the file, not its path

    def body(run: StageRun) -> None:
        labelled = read_labels(labels)
        exam = for_exam(labelled, exam_share)
        if exam.all():
            raise InputError(
                f"{labels}: all {len(labelled):,} labelled triples belong to the exam, none to calibration: label "
                "more, or use all of them for calibration with --exam-share 0"
            )
        prepared = with_labels(run.load(GRAPH), labelled[~exam], instead)
        counts = run.load(COUNTS) | prepared.counts | ({"labels_for_exam": int(exam.sum())} if exam.any() else {})
        for note in [prepared.labels_note(), *label_notes(counts)]:
            log.info("%s: %s", labels.name, note)
        _log_prepared(run, Prepared(prepared.graph, counts), labels.name)
        run.tag(RunTags(labels=labels.name))

    code = ("kgcore.data.datasets.labels",)
    return run_stage("prepare", config, (data,), code, body, context, identity)


@as_task("leave_out")
def leave_out(data: StageRef, number: int, config: AuditConfig, context: Context = Context()) -> StageRef:
    """Make the graph of a fold of an audit: without the fold's facts, with planted errors. Return a new prepare run.

    data    a prepare run
    number  the fold, 0 to `config.folds` - 1

    Raises InputError if no training fact can be left out, or if no error can be planted.
    """
    from kgcore.data.datasets.prepare import Prepared
    from kgcore.wings.audit.plan import plan_audit

    settings = config_of(PrepareConfig, open_store().get(data.run_id))
    plan = {name: value for name, value in sorted(vars(config).items()) if name != "sample"}
    log.info("fold %d of %d", number + 1, config.folds)

    def body(run: StageRun) -> None:
        graph = run.load(GRAPH)
        rest = plan_audit(graph, config).without_fold(number)
        left_out, train = len(rest.other_facts) - len(graph.other_facts), len(rest.train)
        counts = {"left_out": left_out, "planted": train + left_out - len(graph.train.positives)}
        _log_prepared(run, Prepared(rest, run.load(COUNTS) | counts), rest.name)

    code = ("kgcore.wings.audit.plan", *map(STRATEGIES.module, config.planted_strategy))
    return run_stage("prepare", settings, (data,), code, body, context, f"without fold {number} of {plan}")


def findable(text: str) -> tuple[str, str]:
    """Return the name of the data set of `--dataset TEXT`, and a text that names it in every folder.

    Raises InputError if there is no such data set.
    """
    spec = find_dataset(text)
    return spec.name, str(Path(expanduser(text)).resolve()) if spec.folder else spec.name


def original_data(store: Store, prepared: str) -> str:
    """Return the id of the prepare run that read the files of the data set: without labels that were added later."""
    return store.known(prepared).tags.inputs.get("prepare", prepared)


def _log_prepared(run: StageRun, prepared: "Prepared", source: str) -> None:
    """Log a graph and its counts as artifacts and metrics, and the graph as the data set of the run.

    source  address, title or file name that the MLflow UI shows as the data set's source
    """
    graph, counts = prepared.graph, prepared.counts
    run.save(GRAPH, graph)
    run.save(COUNTS, counts)
    dataset = DatasetId(graph.name, graph.fingerprint()[:16])
    run.store.log_dataset(run.run_id, dataset, source, counts, TRAINING)
    run.tag(RunTags(dataset=dataset.name, digest=dataset.digest, test=graph.test_fingerprint()[:16]))
    run.store.log_metrics(run.run_id, counts, dataset=dataset)
