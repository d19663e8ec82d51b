"""The exam of a data set in the store: made once, with a new version whenever field labels arrive.

Each version is an MLflow run of stage `exam`, with the questions as exam.parquet.
"""

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from kgcore.config import PrepareConfig
from tasks.stages.prepare import original_data
from tasks.stages.running import config_of
from tasks.tracking.artifacts import EXAM, GRAPH, save
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store

if TYPE_CHECKING:
    from kgcore.monitoring.exam import Exam

log = logging.getLogger("kgcal")


def exam_of(store: Store, dataset: str, prepared: str) -> "Exam":
    """Return the newest version of the exam of a data set. Make it if there is none.

    prepared  a prepare run of the data set. If its test split is not that of the exam, a new version gets its test
              split
    """
    from kgcore.monitoring.exam import first_exam

    data = original_data(store, prepared)
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found = _newest(store, dataset)
        if found is not None and found.test == store.known(data).tags.test:
            return found
        graph = store.load(data, GRAPH)
        rule = config_of(PrepareConfig, store.get(data)).split_rule
        return _log(store, first_exam(graph, dataset, rule) if found is None else found.with_test_of(graph, rule))


def add_field_labels(prepared: str, labels: Path, share: float) -> None:
    """Add the exam's share of newly labelled triples to the exam of a data set. Without new ones, nothing changes.

    prepared  a prepare run of the data set
    labels    file of the labelled triples: subject, predicate, object, 1 or -1
    share     share of the labels that belong to the exam, in [0, 1); 0: none

    Raises InputError if the file cannot be read.
    """
    from kgcore.datasets.labels import read_labels
    from kgcore.monitoring.exam import first_exam

    if share == 0:
        return
    store = open_store()
    labelled, data = read_labels(labels), original_data(store, prepared)
    dataset = store.known(data).dataset.name
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found, graph = _newest(store, dataset), store.load(data, GRAPH)
        rule = config_of(PrepareConfig, store.get(data)).split_rule
        exam = _log(store, first_exam(graph, dataset, rule)) if found is None else found
        changed = exam.with_labels(labelled, share, graph)
        if changed is not exam:
            _log(store, changed)
    if changed is not exam:
        log.info("exam      version %d has %d new field labels", changed.version, changed.field_labels())


def begin_era(store: Store, dataset: str) -> None:
    """Begin a new era of field labels: those until now have chosen a champion."""
    with FileLock(store.home / "locks" / f"exam-{dataset}.lock"):
        found = _newest(store, dataset)
        if found is not None:
            _log(store, found.next_era())


def _newest(store: Store, dataset: str) -> "Exam | None":
    runs = store.find_all(RunTags(stage="exam", dataset=dataset))
    if not runs:
        return None
    newest = max(runs, key=lambda run: int(run.tags.exam or 0))
    return store.load(newest.run_id, EXAM)


def _log(store: Store, exam: "Exam") -> "Exam":
    from kgcore.monitoring.exam import TEST

    tags = RunTags(
        stage="exam", dataset=exam.dataset, test=exam.test, exam=str(exam.version), era=str(exam.era), note=_note(exam)
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        store.open_run(f"exam {exam.dataset} {exam.version}", tags, resume=None) as run_id,
    ):
        save(Path(folder), EXAM, exam)
        store.log_files(run_id, Path(folder))
        eras = exam.questions["era"]
        counts = {"test": int((eras == TEST).sum()), "field": int((eras != TEST).sum()), "new": exam.field_labels()}
        store.log_metrics(run_id, {f"{name}_questions": float(count) for name, count in counts.items()})
        store.log_tags(run_id, RunTags(artifacts=store.sizes(run_id)))
    return exam


def _note(exam: "Exam") -> str:
    from kgcore.monitoring.exam import TEST, WEIGHT

    negatives = "corruptions of them" if exam.synthetic else "labelled negatives"
    negatives = "with their confidences" if WEIGHT in exam.questions else negatives
    return (
        f"Version {exam.version} of the exam of {exam.dataset}: the positives of the test split, {negatives}, and "
        f"{int((exam.questions['era'] != TEST).sum()):,} field labels. The champion and every challenger are compared "
        "on it by `kgcal promote`."
    )
