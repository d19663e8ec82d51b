"""Collects the facts of the model card of a calibrator from the store."""

from kgcore.report.card import ModelCard
from tasks.tracking.artifacts import CALIBRATOR, COUNTS, PREDICATES, SUMMARY
from tasks.tracking.registry import Version
from tasks.tracking.store import Store


def model_card(store: Store, version: Version, evaluate: str) -> ModelCard:
    """Return the model card of a version.

    evaluate  id of the evaluate run that measured its calibrator

    Raises InputError if a run or an artifact is missing.
    """
    run = store.get(evaluate)
    runs = {stage: run_id for stage, run_id in run.lineage.items() if "." not in stage}
    records = {stage: store.get(run_id) for stage, run_id in runs.items()}
    prepared = records["prepare"]
    counts, predicates = store.load(prepared.run_id, COUNTS), store.load(prepared.run_id, PREDICATES)
    return ModelCard(
        uri=version.uri,
        dataset=prepared.dataset.name,
        digest=prepared.dataset.digest,
        counts=counts,
        predicates=predicates,
        settings={stage: dict(record.tags.config or {}) for stage, record in records.items()},
        calibrator=store.load_model(version.model_id, CALIBRATOR),
        summary=store.load(evaluate, SUMMARY),
        runs=runs,
    )
