"""The Prefect flow that checks a champion on newly labelled triples."""

from pathlib import Path

from flows.flow import flow
from flows.job import job, publish
from flows.jobs.recalibrate import recalibrate
from kgcore.config import WatchConfig
from tasks.jobs.watch import WatchResult, enough_to_replace, mark_recalibrated, watch_champion


@job(kind="care")
@flow(name="watch", flow_run_name="watch {dataset}")
def watch(dataset: str, labels: str, config: WatchConfig = WatchConfig()) -> WatchResult:
    """Check a champion on newly labelled triples; warn of drift, or recalibrate.

    Args:
        dataset: data set that has a champion
        labels: file of newly labelled triples: subject, predicate, object, label
        config: what counts as drift, and what to do then
    """
    seen = watch_champion(dataset, Path(labels), config)
    if config.on_drift == "recalibrate" and not seen.recalibrated and seen.answer in ("shift", "refit"):
        if seen.answer == "shift":
            made = recalibrate(model=seen.model, base_rate=seen.new_base_rate)
        else:
            share = config.exam_share
            if enough_to_replace(Path(labels), config):  # the exam decides which of the two is better
                recalibrate(model=seen.model, labels=labels, exam_share=share, instead=True)
            made = recalibrate(model=seen.model, labels=labels, exam_share=share)
        seen = mark_recalibrated(seen, made.pipeline)
    return publish(seen)
