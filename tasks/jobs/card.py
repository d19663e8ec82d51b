"""Collects the facts of the model card of a calibrator or an ensemble from the store."""

from kgcore.report.card import ModelCard
from kgcore.report.ensemble_summary import EnsembleSummary
from kgcore.report.summary import Summary
from tasks.stages.choose import race_of
from tasks.tracking.artifacts import CALIBRATOR, COUNTS, ENSEMBLE_SUMMARY, PREDICATES, SUMMARY
from tasks.tracking.registry import Version, sources_of
from tasks.tracking.store import Store


def model_card(store: Store, version: Version, measured: str) -> ModelCard:
    """Return the model card of a version.

    measured  id of the run that measured it: an evaluate run, or the run of an ensemble

    Raises InputError if a run or an artifact is missing.
    """
    run, sources = store.known(measured), sources_of(store, version.model_id)
    runs = {stage: run_id for stage, run_id in run.lineage.items() if "." not in stage}
    records = {stage: store.known(run_id) for stage, run_id in runs.items()}
    prepared, calibrated = records["prepare"], store.load_model(version.model_id, CALIBRATOR)
    trained = [store.known(store.model(base).run_id or "") for base in sources.models]
    counts, predicates = store.load(prepared.run_id, COUNTS), store.load(prepared.run_id, PREDICATES)
    summary: Summary | EnsembleSummary
    summary = store.load(measured, ENSEMBLE_SUMMARY) if sources.is_ensemble else store.load(measured, SUMMARY)
    return ModelCard(
        uri=version.uri,
        dataset=prepared.dataset.name,
        digest=prepared.dataset.digest,
        counts=counts,
        predicates=predicates,
        settings={stage: dict(record.tags.config or {}) for stage, record in records.items() if stage != "train"},
        trainings=[dict(record.tags.config or {}) for record in trained],
        label=calibrated.label,
        calibrator=calibrated,
        summary=summary,
        runs=runs,
        race=race_of(store, trained[0]) if not sources.is_ensemble else None,
    )
